"""Joins small parameters into one long array, so that an eager step runs few ops.

The cost of an op on a few hundred numbers is the cost of the call. So parameters whose elements
step independently are joined. Afterwards each parameter is a view of its part of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...arrays.dtypes import float32, kind, real_of
from ...core.in_place import set_array
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.elementwise.complex import complex as complex_of_parts
from ...ops.elementwise.complex import imag, real
from ...ops.elementwise.pointwise import cast
from ...ops.shape.join import stack

MAX_JOINED_ELEMENTS = 1 << 14  # copying a larger parameter costs more than its calls


def batches(params: Sequence[Tensor], states: Any, counts: Sequence[str], may_join: bool
            ) -> Iterator[tuple[list[Tensor], dict[str, float]]]:
    """Groups of parameters that can step together, each with its counts (steps so far)."""
    groups: dict[Any, list[Tensor]] = {}
    for p in params:
        state, array = states[p], p._data
        counted = tuple([state[name]._data.item() for name in counts if name in state])
        is_alone = not may_join or array.size > MAX_JOINED_ELEMENTS
        key = array.dtype, p.device, counted, id(p) if is_alone else 0
        groups.setdefault(key, []).append(p)
    for (_, _, counted, _), members in groups.items():
        state = states[members[0]]
        yield members, dict(zip([name for name in counts if name in state], counted))


def joined(arrays: Sequence[Any]) -> Tensor:
    """One long array of all elements of `arrays`; a single array keeps its shape. See `widened`."""
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=None)
    dtype = array.dtype
    if dtype.kind == "c":
        array = np.ascontiguousarray(array).reshape(-1).view(real_of(dtype))
    elif dtype.itemsize == 2:
        array = array.astype(float32)
    return Tensor(array)


def split_into(x: Tensor, targets: Sequence[Tensor]) -> None:
    """Splits `x`, made by `joined`, and assigns its parts to `targets`."""
    array, dtype = x._data, targets[0]._data.dtype
    if dtype.kind == "c":
        array = np.ascontiguousarray(array).view(dtype)
    elif array.dtype is not dtype:
        array = array.astype(dtype)
    if len(targets) == 1:
        shape = targets[0]._data.shape
        set_array(targets[0], array if array.shape == shape else array.reshape(shape))
        return
    start = 0
    for target in targets:
        old = target._data
        stop = start + old.size
        set_array(target, array[start:stop].reshape(old.shape))
        start = stop


def widened(x: Tensor) -> Tensor:
    """`x` in the precision of a step: float32 for half precision, (..., 2) reals for complex."""
    if kind(x.dtype) == "c":
        return stack((real(x), imag(x)), -1)
    return cast(x, float32) if x.dtype.itemsize == 2 else x


def narrowed(x: Tensor, dtype: Any) -> Tensor:
    """The inverse of `widened`: `x` in the dtype of the parameter."""
    if kind(dtype) == "c":
        return complex_of_parts(x[..., 0], x[..., 1])
    return cast(x, dtype)


def gradient(p: Tensor) -> Tensor:
    """The gradient of `p` in the dtype of `p`; a ShapeError if its shape differs."""
    g: Any = p.grad
    if g._data.shape != p._data.shape:
        raise ShapeError(f"the gradient of a parameter of shape {p.shape} has shape {g.shape}",
                         "assign a gradient of the parameter's shape, or leave it to backward")
    return cast(g, p._data.dtype)
