"""What a model may take: time, memory and nodes, while it is loaded and while it runs.

A file from a stranger may ask for any amount of each. What it takes is measured as it goes on, and
the first thing too much is refused with a LimitError before it is made. Nothing is interrupted: the
clock is read between operators and at the beginning of each iteration of a loop.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from .....capture.sizes.symbolic_dim import concrete
from .....eager import interpreter
from .....eager.arrays.shapes import TensorType
from .....eager.core.dispatch import apply
from .....eager.core.tensor import Tensor
from .....eager.errors import ArgumentError, LimitError

SMALL = 1 << 12  # elements, at most, of results that are only counted where lists hold them
_NO_LARGER = {"pointwise", "reduce", "contract"}  # kinds whose results have at most as many
# elements as the product of their inputs' sizes; and views of as many elements as there are:
_AS_LARGE = {"permute_dims", "reshape", "expand_dims", "squeeze", "alias"}
_OBJECT = 256  # bytes that are counted for any value, beside those of its elements
_MEMORY = 8 << 30  # bytes, where the system does not tell how many it has


def _half_of_memory() -> int:
    """Half of this machine's memory, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return _MEMORY // 2


@dataclass(frozen=True)
class Limits:
    """What loading a model, and each call of it, may take.

    seconds: of either. bytes: of the file with its data files; and of all values that live at a
    time while the model runs, half of the machine's memory by default. nodes: with those of
    functions, counted wherever they are called.

    >>> import fusewire as fw
    >>> fw.onnx.Limits(seconds=10)  # doctest: +ELLIPSIS
    Limits(seconds=10, bytes=..., nodes=200000)
    """

    seconds: float = 300.0
    bytes: int = field(default_factory=_half_of_memory)
    nodes: int = 200_000

    def __post_init__(self) -> None:
        for known in fields(self):
            value = getattr(self, known.name)
            if type(value) not in (int, float) or not value > 0:
                raise ArgumentError(f"limits.{known.name} = {value!r} is no positive number")


class Meter:
    """What was taken so far, of limits that are in force from now on."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.seconds
        self._nodes = 0
        self._live = 0  # bytes
        self._of: dict[int, tuple[Any, int]] = {}  # arrays that live, by id, and where they lie:
        self._owners: dict[int, tuple[int, int]] = {}  # memory, with its arrays and its bytes

    # ---- what is counted
    def tick(self) -> None:
        """LimitError when the time is over."""
        if time.monotonic() > self._end:
            raise self._over("seconds", f"the model takes longer than {self.limits.seconds} s")

    def count(self, nodes: int) -> None:
        """Counts nodes, and looks at the clock."""
        self._nodes += nodes
        self.nodes(self._nodes)
        self.tick()

    def nodes(self, count: int) -> None:
        """LimitError for more nodes than there may be."""
        if count > self.limits.nodes:
            raise self._over("nodes", f"the model has more than {self.limits.nodes} nodes, those of"
                                      " functions counted wherever they are called")

    def room(self, size: Any, what: str) -> None:
        """LimitError unless so many bytes may live beside those that do."""
        if size + self._live > self.limits.bytes:
            raise self._over("bytes", f"{what} takes {size} bytes, beside {self._live} in use; the "
                                      f"limit is {self.limits.bytes}")

    def take(self, size: int, what: str) -> None:
        """Counts bytes that are in use to the end."""
        self.room(size, what)
        self._live += size

    def _over(self, limit: str, message: str) -> LimitError:
        return LimitError(message, "a model that is trusted may take more: fw.onnx.load(path, "
                                   f"limits=fw.onnx.Limits({limit}=...))", limit)

    # ---- ops, which pass here while the model runs
    def apply(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The result of `op`, if there is time and memory for it."""
        self.tick()
        small = _is_small(op, inputs)
        if not small:
            self.room(_bytes_of(op, inputs, params) + _OBJECT, f"the result of {op.name}")
        state = interpreter.STATE
        state._limiting = None  # not `limiting`: the thread goes on to be one with limits
        try:
            out = apply(op, inputs, params)
        finally:
            state._limiting = self
        if small:
            return out
        self._hold(out._data, {id(_owner(x._data)) for x in inputs if isinstance(x, Tensor)})
        return out

    def _hold(self, array: Any, given: set[int]) -> None:
        """Counts an array until it is gone, and the memory that it lies in until all arrays that
        lie there are; but not memory that was `given`, which is counted or another's."""
        number = id(array)
        if type(array) is not np.ndarray or number in self._of:
            return
        owner = _owner(array)
        counted = id(owner) if id(owner) in self._owners or id(owner) not in given else 0
        if counted:
            users, size = self._owners.get(counted, (0, owner.nbytes))
            self._owners[counted] = users + 1, size
            self._live += 0 if users else size
        self._of[number] = weakref.ref(array, lambda _: self._gone(number)), counted
        self._live += _OBJECT

    def _gone(self, number: int) -> None:
        _, counted = self._of.pop(number, (None, 0))
        users, size = self._owners.pop(counted, (0, 0))
        if users > 1:
            self._owners[counted] = users - 1, size
        self._live -= _OBJECT + (size if users == 1 else 0)

    def close(self) -> None:
        """Looks after no array any more."""
        self._of.clear()


def _is_small(op: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether a result is so small, by the op's inputs, that it is not looked after."""
    size = 1
    for x in inputs:
        if isinstance(x, Tensor):
            size *= x._data.size
    return type(size) is int and size <= SMALL and (
        op.kind in _NO_LARGER or op.name in _AS_LARGE)


def _owner(array: Any) -> Any:
    """The array whose memory a view shows."""
    while type(getattr(array, "base", None)) is np.ndarray:
        array = array.base
    return array


def _bytes_of(op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> int:
    """How large the result of an op is; 0 where it fails anyway, or only its values tell. Sizes
    that vary count as they are now: to ask for them would be a condition of a recording."""
    types = [TensorType(concrete(x._data.shape), x._data.dtype) if isinstance(x, Tensor) else x
             for x in inputs]
    given = {name: concrete(value) for name, value in params.items()}
    try:
        kind = op.result(*types, **given)
    except Exception:  # the op itself says what is wrong
        return 0
    known = all(type(n) is int for n in kind.shape)
    return math.prod(kind.shape) * kind.dtype.itemsize if known else 0


@contextlib.contextmanager
def in_force(limits: Limits) -> Iterator[Meter]:
    """A context in which what runs in this thread keeps to limits."""
    state, meter = interpreter.STATE, Meter(limits)
    before, state.limiting = state.limiting, meter
    try:
        yield meter
    finally:
        state.limiting = before
        meter.close()


def current() -> Meter | None:
    """The limits in force in this thread."""
    return interpreter.STATE._limiting  # type: ignore[no-any-return]


def need(size: int, what: str) -> None:
    """LimitError where so many bytes are too much for the model that runs."""
    meter = current()
    if meter is not None:
        meter.room(size, what)
