"""Sorts elements, and selects from sorted ones: sort, argsort, topk, kthvalue."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arguments import whole
from ...arrays import dtypes
from ...arrays.shapes import axis_of
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor
from ...errors import ShapeError
from ..batching import shifted
from ..create import full, zeros_like
from ..elementwise.pointwise import alias
from ..shape.view import reshape, slice_axes
from .scatter import along, scatter_op, sorting
from .search import ordered

__all__ = ["argsort", "kthvalue", "sort", "topk"]


class Picked(NamedTuple):
    """Elements of a tensor (`values`) and their `indices` along the axis of selection."""

    values: Tensor
    indices: Tensor


def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort `x` along `axis`, int64; nan counts as the largest value.

    Args:
        axis: the axis to sort along. Default -1.
        descending: True sorts from large to small. Default False.
        stable: without effect: equal elements always keep their order. Default True.

    Raises:
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.argsort(fw.tensor([30, 10, 20]))
        tensor([1, 2, 0])
    """
    x = ordered("argsort", x)
    if x.ndim == 0:
        axis_of("argsort", axis, 1)
        return full((), 0, device=x.device)
    return sorting(x, axis_of("argsort", axis, x.ndim), descending)


def _sort_impl(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """The sorted values. Among equal ones only zeros of both signs need a stable sort."""
    array = x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x
    array = np.flip(array, axis) if descending else array
    stable = array.dtype.kind == "f" and not array.all()
    result = np.sort(array, axis, kind="stable" if stable else None)
    return (np.flip(result, axis) if descending else result).astype(x.dtype, copy=False)


def _sort_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int, descending: bool) -> Tensor:
    indices = sorting(x, axis, descending)
    return apply(scatter_op, (zeros_like(x), indices, g), {"axis": axis, "reduce": "add"})


def _by_argsort(x: Tensor, axis: int, descending: bool) -> Tensor:
    return along(x, sorting(x, axis, descending), axis)


sort_op = define(Op(
    "sort", "opaque", lambda x, axis, descending: x, _sort_impl, lambda **params: _by_argsort,
    each(_sort_vjp), "TopK",
    why={"meaning": "NumPy sorts values with vector code, faster than it finds indices"},
    batch=shifted("axis")))


def sort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """`x` with its elements sorted along `axis`; nan counts as the largest value.

    Args:
        axis: the axis to sort along. Default -1.
        descending: True sorts from large to small. Default False.
        stable: without effect: equal elements always keep their order. Default True.

    Raises:
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.sort(fw.tensor([3.0, 1.0, 2.0]), descending=True)
        tensor([3., 2., 1.])
    """
    x = ordered("sort", x)
    if x.ndim == 0:
        axis_of("sort", axis, 1)
        return alias(x)
    params = {"axis": axis_of("sort", axis, x.ndim), "descending": bool(descending)}
    return apply(sort_op, (x,), params)


def topk(x: Tensor, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Picked:
    """The `k` largest elements along `axis` in descending order, as (values, indices).

    Args:
        k: how many, from 0 to the size of the axis.
        axis: the axis to select along. Default -1.
        largest: False selects the smallest, in ascending order. Default True.
        sorted: without effect: the result is always sorted. Default True.

    Raises:
        ShapeError: `k` is out of range.
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.topk(fw.tensor([1.0, 9.0, 5.0]), 2)
        Picked(values=tensor([9., 5.]), indices=tensor([1, 2]))
    """
    x = ordered("topk", x)
    at, count = axis_of("topk", axis, x.ndim), whole(k)
    if count is None or not 0 <= count <= x.shape[at]:
        raise ShapeError(f"topk: k={k!r} elements of axis {at} of shape {x.shape}",
                         f"k goes from 0 to {x.shape[at]}")
    return _part(x, at, largest, 0, count)


def kthvalue(x: Tensor, k: int, axis: int = -1, keepdims: bool = False) -> Picked:
    """The `k`-th smallest element along `axis`, counted from 1, as (values, indices).

    Args:
        k: from 1 to the size of the axis.
        axis: the axis to select along. Default -1.
        keepdims: True keeps the axis with size 1. Default False.

    Raises:
        ShapeError: `k` is out of range.
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.kthvalue(fw.tensor([30, 10, 20]), 2)
        Picked(values=tensor(20), indices=tensor(2))
    """
    x = ordered("kthvalue", x)
    at, rank = axis_of("kthvalue", axis, x.ndim), whole(k)
    if rank is None or not 1 <= rank <= x.shape[at]:
        raise ShapeError(f"kthvalue: k={k!r} of axis {at} of shape {x.shape}",
                         f"k goes from 1 to {x.shape[at]}")
    picked = _part(x, at, False, rank - 1, 1)
    if keepdims:
        return picked
    shape = (*x.shape[:at], *x.shape[at + 1:])
    return Picked(reshape(picked.values, shape), reshape(picked.indices, shape))


def _part(x: Tensor, axis: int, descending: bool, first: int, count: int) -> Picked:
    """`count` elements of `x`, sorted along `axis`, from the one numbered `first` on."""
    begin = tuple(first if i == axis else 0 for i in range(x.ndim))
    size = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    indices = slice_axes(sorting(x, axis, descending, first + count), begin, (1,) * x.ndim, size)
    return Picked(along(x, indices, axis), indices)
