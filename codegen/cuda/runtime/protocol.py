"""What programs ask of a device, whose other kinds are the emulator's and the fakes of tests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from ...gpu.cost_model import Choice
from ..module import CudaFunction

Array = Any  # of a device
Launch = Callable[[], None]


class Region(NamedTuple):
    """Elements in a device's memory: `size` of them from a byte of an array on."""

    array: Array
    offset: int
    dtype: Any
    size: int


class Loaded(Protocol):
    """A module that a device can run."""

    def launch(self, function: CudaFunction, arguments: Sequence[Region]) -> None: ...


class BufferPlaces(NamedTuple):
    """Where the arrays of a call are: the stream that it runs on, and their addresses."""

    stream: Hashable
    addresses: tuple[int, ...]


class Device(Protocol):
    """Where programs run, and their arrays are."""

    @property
    def choice(self) -> Choice:
        """What decides between ways to compute the same."""

    def load(self, source: str) -> Loaded: ...
    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array: ...
    def upload(self, array: Any) -> Array: ...
    def copy(self, array: Array) -> Array: ...

    def write(self, array: Array, values: Any) -> None:
        """Copies an array of NumPy's into one of the device's, after all launched before."""

    def ready(self, array: Array) -> Array:
        """The array as kernels read it, itself where it is so: its elements one after the other, in
        memory that begins at a multiple of 16 bytes."""

    def is_free(self, arrays: list[Array], which: int) -> bool:
        """Whether nobody but this list and one tensor holds an array of it, and its memory."""

    def places(self, arrays: Sequence[Array]) -> BufferPlaces | None:
        """Where arrays are; None where the device makes no graphs."""

    def capture(self, work: Launch, arrays: Sequence[Array]) -> Any:
        """What `work` launches, all on `arrays` and those of the call, as a graph with a method
        `launch`; nothing of it runs now."""

    def seconds(self, work: Launch, graph: bool = True) -> float:
        """How long the device takes for what `work` launches, as a graph if it can be."""

    @property
    def bandwidth(self) -> float:
        """The bytes that its memory can move in a second."""
