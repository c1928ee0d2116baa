"""Sums NumPy arrays with a small error along every axis.

NumPy adds pairwise along the axis that is contiguous in memory, and one row after the other along
all others. There, long sums are computed in blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from .dtypes import added_in

_BLOCK = 32  # rows of a block
_SHORT = 32  # most rows that are added in sequence

_ADD: Any = np.add.reduce  # the ufunc method itself: x.sum() runs Python code of NumPy first


def total(x: Any, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """The sum of an array along `axis` (None: all) in its dtype, which has no floats of 16 bits."""
    if axis is None or len(axis) == x.ndim:
        axis = None  # NumPy is twice as fast with Nones
    if x.dtype.kind not in "fc":  # NumPy would widen integers
        return _ADD(x, axis, x.dtype, None, keepdims)
    if x.size <= _SHORT or _lies_together(x, axis):
        return _ADD(x, axis, None, None, keepdims)
    axes = range(x.ndim) if axis is None else axis
    if math.prod([x.shape[i] for i in axes]) <= _SHORT or not x.size:
        return _ADD(x, axis, None, None, keepdims)
    out = _one_by_one(x, axes)
    return out if keepdims else out.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def _lies_together(x: Any, axis: tuple[int, ...] | None) -> bool:
    """True if the terms of one sum are contiguous in memory."""
    return x.flags.c_contiguous and (axis is None or axis[0] == x.ndim - len(axis))


def _one_by_one(x: Any, axes: Collection[int]) -> Any:
    """The sum along axes, which stay with size 1; contiguous axes first."""
    by_stride = sorted(range(x.ndim), key=lambda i: abs(x.strides[i]))
    near: list[int] = []  # NumPy adds pairwise along all of these at once
    for i in [i for i in by_stride if x.shape[i] > 1]:
        last = near[-1] if near else None
        if i not in axes or (last is not None and x.strides[i] != x.strides[last] * x.shape[last]):
            break
        near.append(i)
    out = _ADD(x, tuple(near), None, None, True) if near else x
    for i in axes:
        if i not in near:
            out = _along(out, i)
    return out


def _along(x: Any, axis: int) -> Any:
    """The sum along an axis, which stays with size 1, in blocks."""
    count, rest = divmod(x.shape[axis], _BLOCK)
    if x.shape[axis] <= _SHORT:
        return _ADD(x, axis, None, None, True)
    before, behind = (slice(None),) * axis, x.shape[axis + 1:]
    cut = count * _BLOCK
    whole, end = (x[before + (part,)] for part in (slice(cut), slice(cut, None)))
    blocks = _ADD(whole.reshape(*x.shape[:axis], count, _BLOCK, *behind), axis + 1)
    wide = added_in(x.dtype)
    out = _along(blocks, axis) if wide == x.dtype else _ADD(blocks, axis, wide, None, True)
    if rest:
        out = out + _ADD(end, axis, None, None, True)
    return out.astype(x.dtype, copy=False)
