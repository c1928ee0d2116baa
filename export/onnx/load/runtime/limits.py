"""Limits the time, memory and nodes of a model while it is loaded and while it runs.

A file from an untrusted source may request any amount of each. The meter checks each request first
and raises LimitError if it exceeds a limit. Operators are not interrupted: the clock is read
between operators and at the start of each loop iteration.
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

from .....capture.sizes.symbolic_dim import Dim, typical
from .....eager import interpreter
from .....eager.arrays.shapes import TensorType
from .....eager.core.dispatch import apply
from .....eager.core.tensor import Tensor
from .....eager.errors import ArgumentError, LimitError

MAX_SMALL_ELEMENTS = 1 << 12  # results up to this size are not counted, except by lists
# Op kinds whose results have at most as many elements as the product of their inputs' sizes.
_BOUNDED_KINDS = {"pointwise", "reduce", "contract"}
_SAME_SIZE_VIEWS = {"permute_dims", "reshape", "expand_dims", "squeeze", "alias"}
_OBJECT_BYTES = 256  # counted for any value, in addition to its elements
_DEFAULT_MEMORY = 8 << 30  # bytes, if the system does not tell its memory


def _half_of_memory() -> int:
    """Half of this machine's memory, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return _DEFAULT_MEMORY // 2


@dataclass(frozen=True)
class Limits:
    """Limits for loading a model, and for each call of it.

    Args:
        seconds: the time of loading, or of one call. Default 300.
        bytes: the size of the file with its data files, and of all live values while the model
            runs. Default half of the machine's memory.
        nodes: the number of nodes; those of functions count at each call. Default 200,000.

    Raises:
        ArgumentError: a limit is not a positive number.

    >>> import fusewire as fw
    >>> fw.onnx.Limits(seconds=10)  # doctest: +ELLIPSIS
    Limits(seconds=10, bytes=..., nodes=200000)
    """

    seconds: float = 300.0
    bytes: int = field(default_factory=_half_of_memory)
    nodes: int = 200_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if type(value) not in (int, float) or not value > 0:
                raise ArgumentError(f"limits.{limit.name} = {value!r} is not a positive number",
                                    "leave it out for the default")


class Meter:
    """Measures time, live memory and nodes from its creation on, and enforces limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.seconds
        self._nodes = 0
        self._live = 0  # bytes
        self._arrays: dict[int, tuple[Any, int]] = {}  # live arrays by id: reference, owner's id
        self._owners: dict[int, tuple[int, int]] = {}  # by id: number of live arrays, bytes

    # ---- counters
    def tick(self) -> None:
        """Raises LimitError when the time is up."""
        if time.monotonic() > self._end:
            raise self._over("seconds", f"the model takes longer than {self.limits.seconds} s")

    def count(self, nodes: int) -> None:
        """Counts nodes and checks the time."""
        self._nodes += nodes
        self.nodes(self._nodes)
        self.tick()

    def nodes(self, count: int) -> None:
        """Raises LimitError for too many nodes."""
        if count > self.limits.nodes:
            raise self._over("nodes", f"the model has more than {self.limits.nodes} nodes, those of"
                                      " functions counted wherever they are called")

    def room(self, size: Any, what: str) -> None:
        """Raises LimitError if `size` more bytes exceed the limit."""
        if size + self._live > self.limits.bytes:
            raise self._over("bytes", f"{what} needs {size} bytes, and {self._live} are in use; "
                                      f"the limit is {self.limits.bytes}")

    def take(self, size: int, what: str) -> None:
        """Counts bytes that stay in use until the end."""
        self.room(size, what)
        self._live += size

    def _over(self, limit: str, message: str) -> LimitError:
        return LimitError(message, "for a trusted model, raise the limit: fw.onnx.load(path, "
                                   f"limits=fw.onnx.Limits({limit}=...))", limit)

    # ---- ops of a running model
    def apply(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The result of `op`, if time and memory suffice."""
        self.tick()
        small = _is_small(op, inputs)
        if not small:
            self.room(_bytes_of(op, inputs, params) + _OBJECT_BYTES, f"the result of {op.name}")
        state = interpreter.STATE
        state._limiting = None  # not `limiting`, so that the thread still counts as limited
        try:
            out = apply(op, inputs, params)
        finally:
            state._limiting = self
        if small:
            return out
        self._hold(out._data, {id(_owner(x._data)) for x in inputs if isinstance(x, Tensor)})
        return out

    def _hold(self, array: Any, inputs: set[int]) -> None:
        """Counts an array, and the memory that it views unless that is counted or an input's.

        The memory is counted until all arrays that view it are gone. `inputs`: the ids of the
        owners of the inputs' memory.
        """
        number = id(array)
        if type(array) is not np.ndarray or number in self._arrays:
            return
        owner = _owner(array)
        counted = id(owner) if id(owner) in self._owners or id(owner) not in inputs else 0
        if counted:
            users, size = self._owners.get(counted, (0, owner.nbytes))
            self._owners[counted] = users + 1, size
            self._live += 0 if users else size
        self._arrays[number] = weakref.ref(array, lambda _: self._gone(number)), counted
        self._live += _OBJECT_BYTES

    def _gone(self, number: int) -> None:
        _, counted = self._arrays.pop(number, (None, 0))
        users, size = self._owners.pop(counted, (0, 0))
        if users > 1:
            self._owners[counted] = users - 1, size
        self._live -= _OBJECT_BYTES + (size if users == 1 else 0)

    def close(self) -> None:
        """Forgets all arrays."""
        self._arrays.clear()


def _is_small(op: Any, inputs: tuple[Any, ...]) -> bool:
    """True if the op and the sizes of its inputs imply a small result, which is not counted."""
    size = 1
    for x in inputs:
        if isinstance(x, Tensor):
            size *= x._data.size
    return type(size) is int and size <= MAX_SMALL_ELEMENTS and (
        op.kind in _BOUNDED_KINDS or op.name in _SAME_SIZE_VIEWS)


def _owner(array: Any) -> Any:
    """The array that owns the memory of a view."""
    while type(getattr(array, "base", None)) is np.ndarray:
        array = array.base
    return array


def _bytes_of(op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> int:
    """The size of an op's result in bytes; 0 if the op fails, or if the size depends on values.

    Symbolic sizes are replaced by their current or largest values, as a comparison would add a
    condition to the trace.
    """
    types = [TensorType(_numbers(x._data.shape), x._data.dtype) if isinstance(x, Tensor) else x
             for x in inputs]
    params = {name: _numbers(value) for name, value in params.items()}
    try:
        kind = op.result(*types, **params)
    except Exception:  # the op itself will raise the error
        return 0
    is_static = all(type(n) is int for n in kind.shape)
    return math.prod(kind.shape) * kind.dtype.itemsize if is_static else 0


def _numbers(value: Any) -> Any:
    """A value in which symbolic sizes, in tuples too, are numbers that are typical of them."""
    if type(value) is tuple:
        return tuple(map(_numbers, value))
    return typical(value) if type(value) is Dim else value


@contextlib.contextmanager
def in_force(limits: Limits) -> Iterator[Meter]:
    """A context in which ops of this thread keep to limits."""
    state, meter = interpreter.STATE, Meter(limits)
    before, state.limiting = state.limiting, meter
    try:
        yield meter
    finally:
        state.limiting = before
        meter.close()


def current() -> Meter | None:
    """The meter of this thread; None outside of a running model."""
    return interpreter.STATE._limiting  # type: ignore[no-any-return]


def need(size: int, what: str) -> None:
    """Raises LimitError if the running model may not use `size` more bytes."""
    meter = current()
    if meter is not None:
        meter.room(size, what)
