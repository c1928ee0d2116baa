"""Steps outside of recordings: small parameters one after the other in one long array.

An op on a few hundred numbers costs what calling it costs. So parameters whose elements do not meet
in a step take it together; each then has its part of the results, as a view: arrays never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...arrays.dtypes import float32, kind, real_of
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.elementwise.complex import complex as complex_of_parts
from ...ops.elementwise.complex import imag, real
from ...ops.elementwise.pointwise import cast
from ...ops.shape.join import stack

SMALL = 1 << 14  # elements; what is copied to and fro for a larger parameter costs more than calls


def batches(params: Sequence[Tensor], states: Any, counts: Sequence[str], may_join: bool
            ) -> Iterator[tuple[list[Tensor], dict[str, float]]]:
    """Parameters that can take a step together, and what they have counted so far."""
    groups: dict[Any, list[Tensor]] = {}
    for p in params:
        state, array = states[p], p._data
        counted = tuple([state[name]._data.item() for name in counts if name in state])
        is_alone = not may_join or array.size > SMALL
        key = array.dtype, p.device, counted, id(p) if is_alone else 0
        groups.setdefault(key, []).append(p)
    for (_, _, counted, _), members in groups.items():
        state = states[members[0]]
        yield members, dict(zip([name for name in counts if name in state], counted))


def joined(arrays: Sequence[Any]) -> Tensor:
    """These arrays one after the other; a single one as it is. See `widened`."""
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=None)
    dtype = array.dtype
    if dtype.kind == "c":
        array = np.ascontiguousarray(array).reshape(-1).view(real_of(dtype))
    elif dtype.itemsize == 2:
        array = array.astype(float32)
    return Tensor(array)


def split_into(x: Tensor, targets: Sequence[Tensor]) -> None:
    """Gives each of `targets` its part of what `joined` has joined."""
    array, dtype = x._data, targets[0]._data.dtype
    if dtype.kind == "c":
        array = np.ascontiguousarray(array).view(dtype)
    elif array.dtype is not dtype:
        array = array.astype(dtype)
    if len(targets) == 1:
        shape = targets[0]._data.shape
        targets[0]._data = array if array.shape == shape else array.reshape(shape)
        return
    start = 0
    for target in targets:
        old = target._data
        stop = start + old.size
        target._data = array[start:stop].reshape(old.shape)
        start = stop


def widened(x: Tensor) -> Tensor:
    """`x` as steps compute with it: float32 for half precision, the parts of complex numbers."""
    if kind(x.dtype) == "c":
        return stack((real(x), imag(x)), -1)
    return cast(x, float32) if x.dtype.itemsize == 2 else x


def narrowed(x: Tensor, dtype: Any) -> Tensor:
    """What `widened` was made from."""
    if kind(dtype) == "c":
        return complex_of_parts(x[..., 0], x[..., 1])
    return cast(x, dtype)


def gradient(p: Tensor) -> Tensor:
    """The gradient of `p`, in its dtype; ShapeError where it has another shape."""
    g: Any = p.grad
    if g._data.shape != p._data.shape:
        raise ShapeError(f"the gradient of a parameter of shape {p.shape} has shape {g.shape}",
                         "assign a gradient of the parameter's shape, or leave it to backward")
    return cast(g, p._data.dtype)
