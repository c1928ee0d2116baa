"""Finds positions: of extreme elements, of elements other than 0, of values in a sorted vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arguments import names_itself
from ...arrays import dtypes
from ...arrays.shapes import TensorType, axis_or_scalar
from ...core.dispatch import apply
from ...core.op import each
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ..create import full, iota
from ..data_dependent import where_true
from ..declare import prepare
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import (
    bitwise_invert,
    cast,
    equal,
    floor_divide,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    negative,
    remainder,
    where,
)
from ..reduction import reduce
from ..shape.join import stack
from ..shape.take import from_front, take, take_op
from ..shape.view import expand_dims, expand_to, flatten, reshape

__all__ = [
    "argmax", "argmin", "argwhere", "bucketize", "count_nonzero", "nonzero", "searchsorted",
]


# ---- argmax, as the first position of the largest value
def _argmax_result(x: TensorType, axis: int) -> TensorType:
    return TensorType((*x.shape[:axis], *x.shape[axis + 1:]), dtypes.int64)


def _argmax(x: Tensor, axis: int) -> Tensor:
    top = expand_to(reduce.max(x, axis, keepdims=True), x.shape)
    hit = equal(x, top)
    if dtypes.kind(x.dtype) == "f":
        hit = logical_or(hit, isnan(x))
    return reduce.min(where(hit, iota(x.shape, axis, device=x.device), x.shape[axis]), axis)


argmax_op = composite("argmax", _argmax, _argmax_result,
                      lambda xp, x, axis: np.asarray(x.argmax(axis=axis)),
                      vjp=each(None), onnx="ArgMax", alike=True)


def argmax(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element along `axis`, int64.

    Args:
        axis: the axis to search. Default None: all elements, in row-major order.
        keepdims: True keeps the axis with size 1, or all of them. Default False.

    Raises:
        ShapeError: the axis is empty.
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 5, 2], [7, 0, 7]]).argmax(axis=1)
        tensor([1, 0])
    """
    return _first_extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element along `axis`, int64. See `argmax` for the parameters.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 5, 2], [7, 0, 7]]).argmin(axis=1)
        tensor([0, 1])
    """
    return _first_extreme("argmin", x, axis, keepdims)


def _first_extreme(name: str, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    x = ordered(name, x).detach()
    x = cast(x, dtypes.float32) if x.dtype == dtypes.bfloat16 else x
    if name == "argmin":  # reverses the order of integers exactly; -x maps the lowest to itself
        x = negative(x) if x.dtype.kind == "f" else bitwise_invert(x)
    at = 0 if axis is None else axis_or_scalar(name, axis, x.ndim)
    over_all = axis is None or x.ndim == 0
    flat = flatten(x) if over_all else x
    if flat.shape[at] == 0:
        raise ShapeError(f"{name}: axis {at} of shape {x.shape} is empty",
                         "test x.size before looking for an extreme value")
    index = call(argmax_op, flat, axis=at)
    if not keepdims:
        return index
    return reshape(index, (1,) * x.ndim) if over_all else expand_dims(index, at)


def ordered(name: str, x: Any) -> Tensor:
    """`x` as a tensor whose elements have an order; DTypeError for complex numbers."""
    x = as_tensor(name, x)
    if dtypes.kind(x.dtype) == "c":
        raise DTypeError(f"{name}: complex numbers have no order, got {x.dtype.name}",
                         "compare their absolute values: x.abs()")
    return x


# ---- elements that are not zero
@names_itself
def count_nonzero(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The number of elements along `axis` that are not 0, int64.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.count_nonzero(fw.tensor([[0, 1], [2, 3]]), axis=0)
        tensor([1, 2])
    """
    return reduce.sum(cast(as_tensor("count_nonzero", x), dtypes.bool), axis, keepdims)


def nonzero(x: Tensor) -> tuple[Tensor, ...]:
    """The indices of the elements that are not 0, in row-major order: a vector for each axis.

    Raises:
        ShapeError: `x` is 0-d.

    Example:
        >>> import fusewire as fw
        >>> fw.nonzero(fw.tensor([[0, 1], [2, 0]]))
        (tensor([0, 1]), tensor([1, 0]))
    """
    x = as_tensor("nonzero", x)
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d tensor has no axes to give indices for",
                         "use x.item() != 0, or reshape it to (1,)")
    at, indices = where_true(flatten(cast(x, dtypes.bool))), []
    for n in reversed(x.shape[1:]):
        indices.append(remainder(at, n or 1))  # where n is 0 there is nothing to divide
        at = floor_divide(at, n or 1)
    return (at, *reversed(indices))


def argwhere(x: Tensor) -> Tensor:
    """The indices of the elements that are not 0, one row for each: (count, x.ndim), int64.

    Example:
        >>> import fusewire as fw
        >>> fw.argwhere(fw.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    x = as_tensor("argwhere", x)
    if x.ndim:
        return stack(nonzero(x), axis=1)
    return full((int(reduce.any(x)), 0), 0, device=x.device)


# ---- binary search
def _search_result(x: TensorType, values: TensorType, right: bool) -> TensorType:
    return TensorType(values.shape, dtypes.int64)


_MAX_SIZE_BITS = 31  # of a symbolic size


def _search(x: Tensor, values: Tensor, right: bool) -> Tensor:
    """Binary search: steps of halved size, each taken if the elements it skips all come before.

    All numbers come before a nan, and the nans too on its right side.
    """
    n = x.shape[0]
    position = full((), 0, device=x.device) if not values.ndim else \
        iota(values.shape, 0, device=x.device) * 0
    step = 1 << (n.bit_length() if type(n) is int else _MAX_SIZE_BITS) >> 1
    while step:
        probe = position + step
        seen = apply(take_op, (x, minimum(probe, n) - 1), {"axis": 0})
        before = less_equal(seen, values) if right else less(seen, values)
        if dtypes.kind(x.dtype) == "f":
            is_nan = isnan(values)
            first = is_nan if right else logical_and(is_nan, logical_not(isnan(seen)))
            before = logical_or(before, first)
        position = where(logical_and(before, less_equal(probe, n)), probe, position)
        step //= 2
    return position


def _search_impl(xp: Any, x: Any, values: Any, right: bool) -> Any:
    if x.dtype == dtypes.bfloat16:
        x, values = x.astype(np.float32), values.astype(np.float32)
    return np.asarray(x.searchsorted(values, "right" if right else "left"), np.int64)


search_op = composite("searchsorted", _search, _search_result, _search_impl, each(None, None),
                      alike=True)


def searchsorted(x1: Tensor, x2: Any, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """For each of `x2`, the number of elements of the sorted vector `x1` before it, int64.

    Args:
        x1: a sorted vector.
        x2: a tensor or number; the result has its shape.
        side: "left" counts the elements that are less, "right" also those that are equal.
            Default "left".
        sorter: indices that sort `x1`. Default None: `x1` is sorted.

    Raises:
        ShapeError: `x1` is not a vector.
        DTypeError: the values are complex.
        ArgumentError: `side` has another value.

    Example:
        >>> import fusewire as fw
        >>> fw.searchsorted(fw.tensor([1, 3, 3, 5]), fw.tensor([3, 6, 0]))
        tensor([1, 4, 0])
    """
    x1 = ordered("searchsorted", x1).detach()
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted values have {x1.ndim} axes {x1.shape}, not one",
                         "search each row by itself, as with fw.func.vmap")
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r} is not known", 'it is "left" or "right"')
    if sorter is not None:
        x1 = take(x1, from_front("searchsorted", as_tensor("searchsorted", sorter), x1.shape[0]))
    x1, values = prepare("searchsorted", (x1, x2), "real")
    if not isinstance(values, Tensor):
        values = full((), values, x1.dtype, x1.device)
    return call(search_op, x1, values.detach(), right=side == "right")


@names_itself
def bucketize(x: Any, boundaries: Tensor, right: bool = False) -> Tensor:
    """For each element of `x`, the number of the bucket between sorted boundaries, int64.

    It is `searchsorted` with the operands exchanged.

    Args:
        x: a tensor or number; the result has its shape.
        boundaries: a sorted vector.
        right: False gives i with boundaries[i - 1] < x <= boundaries[i], True i with
            boundaries[i - 1] <= x < boundaries[i]. Default False.

    Raises:
        ShapeError: `boundaries` is no vector.
        DTypeError: the values are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.bucketize(fw.tensor([0, 3, 9]), fw.tensor([1, 3, 5]))
        tensor([0, 1, 3])
    """
    return searchsorted(boundaries, x, side="right" if right else "left")
