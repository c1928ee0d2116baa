"""Defines reductions, cumulative sums and products, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....eager.arrays import dtypes
from .....eager.arrays.shapes import product
from .....eager.ops.create import full, iota
from .....eager.ops.elementwise import pointwise
from .....eager.ops.indexing.search import argmax
from .....eager.ops.reduction import reduce
from .....eager.ops.reduction.softmax import log_softmax, softmax
from .....eager.ops.shape import view
from .....eager.ops.statistics import cumulative
from ..runtime.table import Number, Sizes, Tensor, operator
from .shapes import along, axes_of

__all__: list[str] = []


def _log_of_sum(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
    return pointwise.log(reduce.sum(x, axes, keepdims))


def _log_of_sum_of_exp(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
    """log(sum(exp(x))) relative to the largest element, so that nothing overflows."""
    if product(x.shape[a] for a in axes) == 0:
        return _log_of_sum(x, axes, keepdims)
    most = reduce.max(x, axes, True).detach()
    most = pointwise.where(pointwise.isfinite(most), most, 0.0)
    total = pointwise.log(reduce.sum(pointwise.exp(x - most), axes, True)) + most
    return total if keepdims else view.squeeze(total, axes)


def _sum_of_squares(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
    return reduce.sum(pointwise.square(x), axes, keepdims)


def _extreme(function: Any, of_none: Any) -> Any:
    """A reduction of booleans as well, with `of_none(dtype)` as the result over no elements."""
    def computed(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
        if any(type(x.shape[a]) is int and x.shape[a] == 0 for a in axes):
            shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape)
                          if keepdims or i not in axes)
            return full(shape, of_none(x.dtype), x.dtype)
        if x.dtype.kind == "b":
            return function(x.astype("int8"), axes, keepdims).astype("bool")
        return function(x, axes, keepdims)

    return computed


def _lowest(dtype: Any) -> Any:
    return False if dtype.kind == "b" else reduce.lowest(dtype)


def _highest(dtype: Any) -> Any:
    return True if dtype.kind == "b" else reduce.highest(dtype)


def _mean(x: Tensor, axes: Any, keepdims: bool) -> Tensor:
    if dtypes.kind(x.dtype) == "f":
        return reduce.mean(x, axes, keepdims)
    total = reduce.sum(x, axes, keepdims, dtype=x.dtype)
    return pointwise.floor_divide(total, product(x.shape[a] for a in axes)).astype(x.dtype)


_REDUCTIONS: dict[str, Callable[[Tensor, Any, bool], Tensor]] = {
    "ReduceSum": lambda x, a, k: reduce.sum(x, a, k, dtype=x.dtype),
    "ReduceProd": lambda x, a, k: reduce.prod(x, a, k, dtype=x.dtype),
    "ReduceMax": _extreme(reduce.max, _lowest),
    "ReduceMin": _extreme(reduce.min, _highest), "ReduceMean": _mean,
    "ReduceL1": lambda x, a, k: reduce.sum(pointwise.abs(x), a, k, dtype=x.dtype),
    "ReduceL2": lambda x, a, k: pointwise.sqrt(_sum_of_squares(x, a, k)).astype(x.dtype),
    "ReduceLogSum": _log_of_sum, "ReduceLogSumExp": _log_of_sum_of_exp,
    "ReduceSumSquare": lambda x, a, k: _sum_of_squares(x, a, k).astype(x.dtype),
}


def _reduction(function: Callable[[Tensor, Any, bool], Tensor]) -> Callable[..., Tensor]:
    def computed(x: Tensor, axes: Sizes = None, keepdims: int = 1, noop_with_empty_axes: int = 0
                 ) -> Tensor:
        if not axes and noop_with_empty_axes:
            axes, keepdims = (), 1
        elif not axes:
            axes = tuple(range(x.ndim))
        return function(x, axes_of(axes, x.ndim), bool(keepdims))

    return computed


for _name, _function in _REDUCTIONS.items():
    operator(_name)(_reduction(_function))


# ---- along an axis
def _running_total(x: Tensor, axis: int, exclusive: int, reverse: int, function: Any, first: int
                   ) -> Tensor:
    """Cumulative totals: from the end with `reverse`, without the own element with `exclusive`."""
    x = view.flip(x, axis) if reverse else x
    totals = function(x, axis, dtype=x.dtype, include_initial=bool(exclusive))
    if exclusive:
        at = axes_of([axis], x.ndim)[0]
        totals = along(totals, at, slice(0, x.shape[at]))
    return view.flip(totals, axis) if reverse else totals


@operator("CumSum")
def _cumulative_sum(x: Tensor, axis: Number, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running_total(x, int(axis), exclusive, reverse, cumulative.cumulative_sum, 0)


@operator("CumProd")
def _cumulative_product(x: Tensor, axis: Number, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running_total(x, int(axis), exclusive, reverse, cumulative.cumulative_prod, 1)


@operator("Softmax", since=13, text="fw.softmax({0}, {axis})")
def _softmax(x: Tensor, axis: int = -1) -> Tensor:
    return softmax(x, axis)


@operator("LogSoftmax", since=13, text="fw.log_softmax({0}, {axis})")
def _log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    return log_softmax(x, axis)


def _of_matrix(function: Any) -> Any:
    """The meaning before version 13: over all axes from `axis` on."""
    def computed(x: Tensor, axis: int = 1) -> Tensor:
        at = axes_of([axis], x.ndim + 1)[0] if axis >= 0 else axis + x.ndim
        rows = view.reshape(x, (product(x.shape[:at]), product(x.shape[at:])))
        return view.reshape(function(rows, -1), x.shape)

    return computed


def _hardmax(x: Tensor, axis: int = -1) -> Tensor:
    best = argmax(x, axis, True)
    return pointwise.equal(iota(x.shape, axes_of([axis], x.ndim)[0]), best).astype(x.dtype)


operator("Hardmax", since=13)(_hardmax)
for _name, _of_rows in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", _hardmax)):
    operator(_name, since=1)(_of_matrix(_of_rows))
