"""Carries out collectives by the few calls that each library of collectives has.

Arrays of devices have NumPy's functions, so this works for them too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import numpy as np

from .engine import CollectiveCall, is_half, part, reduced


class Late(Exception):
    """A rank has waited for longer than the timeout, for `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not within {seconds:.1f} s")
        self.seconds = seconds


class Lost(Exception):
    """The connection to another rank has ended; the library's message."""


class Transport(Protocol):
    """A group in a library of collectives. Arrays are contiguous, and not empty. The calls return
    when results may be read. They raise Late after the timeout, and Lost if a rank has ended."""

    rank: int
    size: int
    adds: Collection[Any]  # the dtypes that it reduces

    def empty(self, like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array with undefined contents on the device of another one."""

    def all_reduce(self, data: Any, out: Any, reduce: str) -> None:
        """Reduces by "sum", "prod", "max" or "min"."""

    def reduce_scatter(self, data: Any, out: Any) -> None:
        """Adds; each rank gets its part of the elements."""

    def reduce(self, data: Any, out: Any, root: int) -> None:
        """Adds; one rank gets the sum."""

    def all_gather(self, data: Any, out: Any) -> None:
        """Moves bytes: `out` has one more axis than `data`, of the ranks."""

    def all_to_all(self, data: Any, out: Any) -> None:
        """Moves bytes: the first axes are the ranks for which blocks are and from which they come.
        """

    def broadcast(self, data: Any, root: int) -> None:
        """Moves the bytes of one rank into the arrays of the others."""

    def exchange(self, data: Any, to: int, out: Any, source: int) -> None:
        """Sends bytes to one rank, and receives bytes of one."""


def carry_out(call: CollectiveCall, transport: Transport) -> Any:
    """The result of a collective on this rank."""
    return _COLLECTIVES[call.kind](call, transport)


def contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else array.copy(order="C")


def _front(array: Any, axis: int) -> Any:
    """A contiguous array with the axis first."""
    return contiguous(np.moveaxis(array, axis, 0))


def _back(array: Any, axis: int) -> Any:
    return contiguous(np.moveaxis(array, 0, axis))


def _as_added(array: Any, reduce: str) -> Any:
    """An array in the dtype in which libraries reduce it: bool as numbers of 8 bits, sums of
    complex numbers as pairs, numbers of 16 bits as float32, to be rounded once."""
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind == "c" and reduce == "sum":
        return array.reshape(-1).view(array.real.dtype)
    return array.astype(np.float32) if is_half(array.dtype) else array


def _as_before(array: Any, like: Any) -> Any:
    """The array in the dtype and shape of another one: the inverse of `_as_added`."""
    if like.dtype.kind in "bc" and array.dtype != like.dtype:
        array = array.view(like.dtype)
    return array.astype(like.dtype, copy=False).reshape(like.shape)


def _gathered(array: Any, transport: Transport) -> Any:
    """The arrays of all ranks along a new first axis."""
    out = transport.empty(array, (transport.size, *array.shape), array.dtype)
    if array.size:
        transport.all_gather(array, out)
    return out


def _exchanged(blocks: Any, transport: Transport) -> Any:
    """The blocks that the ranks have for this one; `blocks` has one for each rank."""
    out = transport.empty(blocks, blocks.shape, blocks.dtype)
    if blocks.size:
        transport.all_to_all(blocks, out)
    return out


def _all_reduce(call: CollectiveCall, transport: Transport) -> Any:
    reduce, array = call.params["reduce"], contiguous(call.array)
    data = _as_added(array, reduce)
    drops_nan = data.dtype.kind == "f" and reduce in ("max", "min")
    if data.dtype not in transport.adds or drops_nan:
        return reduced(list(_gathered(array, transport)), reduce)
    out = transport.empty(data, data.shape, data.dtype)
    if data.size:
        transport.all_reduce(data, out, reduce)
    return _as_before(out, array)


def _all_gather(call: CollectiveCall, transport: Transport) -> Any:
    axis, shape = call.params["axis"], list(call.array.shape)
    out = _gathered(_front(call.array, axis), transport)
    shape[axis] *= transport.size
    return _back(out.reshape(shape[axis], *shape[:axis], *shape[axis + 1:]), axis)


def _reduce_scatter(call: CollectiveCall, transport: Transport) -> Any:
    axis, size = call.params["axis"], transport.size
    front = _front(call.array, axis)
    blocks = front.reshape(size, front.shape[0] // size, *front.shape[1:])
    data = _as_added(front, "sum")
    if data.dtype not in transport.adds:
        return _back(reduced(list(_exchanged(blocks, transport)), "sum"), axis)
    out = transport.empty(data, (data.size // size,), data.dtype)
    if out.size:
        transport.reduce_scatter(data, out)
    return _back(_as_before(out, blocks[0]), axis)


def _all_to_all(call: CollectiveCall, transport: Transport) -> Any:
    split, concat, size = call.params["split"], call.params["concat"], transport.size
    blocks = np.stack([part(call.array, i, size, split) for i in range(size)])
    return np.concatenate(list(_exchanged(blocks, transport)), concat)


def _broadcast(call: CollectiveCall, transport: Transport) -> Any:
    data = call.array.copy(order="C")
    if data.size:
        transport.broadcast(data, call.params["root"])
    return data


def _reduce_to(call: CollectiveCall, transport: Transport) -> Any:
    array, root = contiguous(call.array), call.params["root"]
    data = _as_added(array, "sum")
    if data.dtype not in transport.adds:
        total = reduced(list(_gathered(array, transport)), "sum")
        return total if transport.rank == root else np.zeros_like(total)
    out = transport.empty(data, data.shape, data.dtype)
    if transport.rank != root:
        out.fill(0)
    if data.size:
        transport.reduce(data, out, root)
    return _as_before(out, array)


def _shift(call: CollectiveCall, transport: Transport) -> Any:
    data, by = contiguous(call.array), call.params["by"]
    out = transport.empty(data, data.shape, data.dtype)
    if data.size:
        transport.exchange(data, (transport.rank + by) % transport.size, out,
                           (transport.rank - by) % transport.size)
    return out


def _barrier(call: CollectiveCall, transport: Transport) -> Any:
    return call.array  # the ranks have met


_COLLECTIVES: dict[str, Callable[[CollectiveCall, Transport], Any]] = {
    "all_reduce": _all_reduce, "all_gather": _all_gather, "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all, "broadcast": _broadcast, "reduce_to": _reduce_to, "shift": _shift,
    "barrier": _barrier}


def as_bytes(array: Any) -> Any:
    """The memory of a contiguous array as bytes: libraries move every dtype like this."""
    return array.reshape(-1).view(np.uint8)
