"""The interface between programs and devices; emulators and test doubles implement it, too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from ...gpu.cost_model import CandidateChoice
from ..module import CudaFunction

Array = Any  # of a device
DeviceLaunch = Callable[[], None]


class MemoryRange(NamedTuple):
    """`size` elements in a device's memory, from byte `offset` of an array."""

    array: Array
    offset: int
    dtype: Any
    size: int


class LoadedModule(Protocol):
    """A module that a device can run."""

    def launch(self, function: CudaFunction, arguments: Sequence[MemoryRange]) -> None: ...


class BufferAddresses(NamedTuple):
    """The stream of a call and the addresses of its arrays."""

    stream: Hashable
    addresses: tuple[int, ...]


class Device(Protocol):
    """A device that runs programs and holds their arrays."""

    @property
    def choice(self) -> CandidateChoice:
        """The policy that chooses between candidate kernels."""

    def load(self, source: str) -> LoadedModule: ...
    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array: ...
    def upload(self, array: Any) -> Array: ...
    def copy(self, array: Array) -> Array: ...

    def write(self, array: Array, values: Any) -> None:
        """Copies a NumPy array into an array of the device, after all earlier launches."""

    def ready(self, array: Array) -> Array:
        """The array in the layout that kernels read: contiguous, and aligned to 16 bytes. Copies
        only if needed."""

    def is_free(self, arrays: list[Array], which: int) -> bool:
        """True if nothing but this list and one tensor refers to an array of the list or to its
        memory."""

    def addresses(self, arrays: Sequence[Array]) -> BufferAddresses | None:
        """The stream and the addresses of arrays; None if the device has no graphs."""

    def capture(self, work: DeviceLaunch, arrays: Sequence[Array]) -> Any:
        """The launches of `work` as a graph with a method `launch`; nothing runs now. `arrays` are
        all arrays that they use."""

    def seconds(self, work: DeviceLaunch, graph: bool = True) -> float:
        """The time that the device takes for the launches of `work`, as a graph if possible."""

    @property
    def bandwidth(self) -> float:
        """Memory bandwidth in bytes per second."""
