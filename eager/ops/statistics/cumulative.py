"""Computes scans, which combine the elements up to each one along an axis, and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arguments import whole
from ...arrays import dtypes
from ...arrays.shapes import TensorType, axis_of
from ...core.dispatch import apply
from ...core.op import Op, Reduction, define, each
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ..create import full, iota, zeros_like
from ..elementwise.complex import conj_of
from ..elementwise.pointwise import (
    alias,
    equal,
    exp,
    isnan,
    logical_or,
    not_equal,
    subtract,
    where,
)
from ..indexing.scatter import scatter_op
from ..indexing.search import ordered
from ..indexing.sort import Picked
from ..reduction.reduce import accumulated, floating, highest, lowest
from ..shape.concat import concat_same_dtype
from ..shape.join import concat
from ..shape.rearrange import moveaxis, shift
from ..shape.view import flip, slice_axes

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff",
    "logcumsumexp",
]


def scanned_in(combine: str, dtype: Any) -> Any:
    """The dtype in which a scan accumulates: a wide one for sums."""
    sums = combine in ("add", "logaddexp")
    return dtypes.added_in(dtype) if sums else dtypes.summed_in(dtype)


def scan(
    name: str, ufunc: Any, combine: str, identity: Callable[[Any], Any], vjp: Callable[..., Any],
    **facts: Any,
) -> Op:
    """Declares the scan by NumPy's `ufunc`, which combines as the scalar op `combine`."""

    def impl(xp: Any, x: Any, axis: int) -> Any:
        wide = scanned_in(combine, x.dtype)
        return ufunc.accumulate(x.astype(wide, copy=False), axis, wide).astype(x.dtype, copy=False)

    return define(Op(name, "scan", lambda x, axis: TensorType(x.shape, x.dtype), impl,
                     Reduction(combine, identity), each(vjp), **facts))


def _run(op: Op, x: Tensor, axis: int) -> Tensor:
    """The scan of `x` along `axis`; the scan of a single number is that number."""
    return apply(op, (x,), {"axis": axis}) if x.ndim else alias(x)


def _axis_of(name: str, axis: int, x: Tensor) -> int:
    """`axis` counted from the front. A 0-d tensor counts as a vector of one element."""
    return axis_of(name, axis, x.ndim or 1)


# ---- sums
def _sum_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int) -> Tensor:
    return flip(_run(sum_op, flip(g, axis), axis), axis)


sum_op = scan("cumulative_sum", np.add, "add", lambda dtype: 0, _sum_vjp, onnx="CumSum")


# ---- products
def _product_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int) -> Tensor:
    """The gradient from products before and after each element, without divisions by zeros."""
    out, x, g = (moveaxis(t, axis, -1) for t in (out, x, g))
    after = from_behind(g, conj_of(shift(x, -1, 0)))
    return moveaxis(conj_of(shift(out, 1, 1)) * after, -1, axis)


def from_behind(b: Tensor, a: Tensor) -> Tensor:
    """s with s[i] = b[i] + a[i] * s[i + 1] along the last axis, and 0 beyond the end.

    After the iteration with `step`, an element holds the share of the next 2 * step elements.
    """
    step, n = 1, b.shape[-1]
    while step < n:
        b = b + a * shift(b, -step, 0)
        a, step = a * shift(a, -step, 0), 2 * step
    return b


prod_op = scan(
    "cumulative_prod", np.multiply, "mul", lambda dtype: 1, _product_vjp,
    why={"onnx": "ONNX has scans of sums only"})


# ---- extreme values
def _extreme_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int) -> Tensor:
    params = {"axis": axis, "reduce": "add"}
    return apply(scatter_op, (zeros_like(x), _latest(x, out, axis), g), params)


def _latest(x: Tensor, out: Tensor, axis: int) -> Tensor:
    """The index of the last element up to each that is the extreme value; of the last nan."""
    hit = equal(x, out)
    if dtypes.kind(x.dtype) == "f":
        hit = logical_or(hit, isnan(x))
    return _run(max_op, where(hit, iota(x.shape, axis, device=x.device), 0), axis)


max_op = scan("cumulative_max", np.maximum, "maximum", lowest, _extreme_vjp,
              why={"onnx": "ONNX has scans of sums only"})
min_op = scan("cumulative_min", np.minimum, "minimum", highest, _extreme_vjp,
              why={"onnx": "ONNX has scans of sums only"})


# ---- sums of exponentials
def _logcumsumexp_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int) -> Tensor:
    """The gradient; all its differences of logarithms are 0 or less, so nothing overflows."""
    g, out, x = (moveaxis(t, axis, -1) for t in (g, out, x))
    grows = _difference(out, shift(out, -1, float("inf")))
    return moveaxis(exp(_difference(x, out)) * from_behind(g, exp(grows)), -1, axis)


def _difference(x: Tensor, y: Tensor) -> Tensor:
    """x - y, and 0 for two infinities of the same sign."""
    same = equal(x, y)
    return where(same, 0.0, x) - where(same, 0.0, y)


logcumsumexp_op = scan(
    "logcumsumexp", np.logaddexp, "logaddexp", lambda dtype: -float("inf"), _logcumsumexp_vjp,
    why={"onnx": "ONNX has scans of sums only"})


# ---- public functions
def _scanned(
    name: str, op: Op, x: Any, axis: int | None, dtype: Any, first: Any = None
) -> Tensor:
    x = as_tensor(name, x)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{name}: a tensor of shape {x.shape} needs an axis",
                         "only for one axis it may be left out")
    at = axis_of(name, 0 if axis is None else axis, x.ndim)
    out = _run(op, accumulated(name, x, dtype), at)
    if first is None:
        return out
    start = full((*x.shape[:at], 1, *x.shape[at + 1:]), first, out.dtype, out.device)
    return concat_same_dtype([start, out], at)


def cumulative_sum(
    x: Tensor, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements up to each one along `axis`.

    Args:
        axis: may be omitted for a vector. Default None.
        dtype: of the result. Default: that of floats, else int64 or uint64.
        include_initial: True adds a 0 in front. Default False.

    Raises:
        ShapeError: `axis` is missing for more than one axis.

    Example:
        >>> import fusewire as fw
        >>> fw.cumulative_sum(fw.tensor([1, 2, 3]), include_initial=True)
        tensor([0, 1, 3, 6])
    """
    return _scanned("cumulative_sum", sum_op, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the elements up to each one along `axis`.

    The parameters are those of `cumulative_sum`; `include_initial` adds a 1 in front.

    Example:
        >>> import fusewire as fw
        >>> fw.cumulative_prod(fw.tensor([1, 2, 3]))
        tensor([1, 2, 6])
    """
    return _scanned("cumulative_prod", prod_op, x, axis, dtype, 1 if include_initial else None)


def cumsum(x: Tensor, axis: int, dtype: Any = None) -> Tensor:
    """The sums of the elements up to each one along `axis`; `dtype` as for `sum`.

    Example:
        >>> import fusewire as fw
        >>> fw.cumsum(fw.tensor([[1, 2], [3, 4]]), 0)
        tensor([[1, 2],
                [4, 6]])
    """
    x = accumulated("cumsum", x, dtype)
    return _run(sum_op, x, _axis_of("cumsum", axis, x))


def cumprod(x: Tensor, axis: int, dtype: Any = None) -> Tensor:
    """The products of the elements up to each one along `axis`; `dtype` as for `sum`.

    Example:
        >>> import fusewire as fw
        >>> fw.cumprod(fw.tensor([1, 2, 3]), 0)
        tensor([1, 2, 6])
    """
    x = accumulated("cumprod", x, dtype)
    return _run(prod_op, x, _axis_of("cumprod", axis, x))


def cummax(x: Tensor, axis: int) -> Picked:
    """The largest of the elements up to each one along `axis`, as (values, indices).

    An index is that of the last element equal to the value. From the first nan on, values are nan.

    Raises:
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.cummax(fw.tensor([1, 3, 2, 3]), 0)
        Picked(values=tensor([1, 3, 3, 3]), indices=tensor([0, 1, 1, 3]))
    """
    return _extremes("cummax", max_op, x, axis)


def cummin(x: Tensor, axis: int) -> Picked:
    """The smallest of the elements up to each one along `axis`, as (values, indices); see `cummax`.

    Example:
        >>> import fusewire as fw
        >>> fw.cummin(fw.tensor([3, 1, 2]), 0)
        Picked(values=tensor([3, 1, 1]), indices=tensor([0, 1, 1]))
    """
    return _extremes("cummin", min_op, x, axis)


def _extremes(name: str, op: Op, x: Any, axis: int) -> Picked:
    x = ordered(name, x)
    at = _axis_of(name, axis, x)
    values = _run(op, x, at)
    if x.ndim == 0:
        return Picked(values, full((), 0, device=x.device))
    return Picked(values, _latest(x.detach(), values.detach(), at))


def logcumsumexp(x: Tensor, axis: int) -> Tensor:
    """log(exp(x_0) + ... + exp(x_i)) along `axis`, of the shape of `x`.

    Large values do not overflow.

    Raises:
        DTypeError: `x` does not hold real floats.

    Example:
        >>> import fusewire as fw
        >>> fw.logcumsumexp(fw.tensor([-1000.0, 1000.0]), 0)
        tensor([-1000.,  1000.])
    """
    x = floating("logcumsumexp", x, "f")
    return _run(logcumsumexp_op, x, _axis_of("logcumsumexp", axis, x))


# ---- differences
def diff(x: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along `axis`, which becomes `n` shorter.

    Args:
        n: how often differences are taken. Default 1.
        axis: the axis of neighbours. Default -1.
        prepend, append: tensors joined before and after `x` first. Default None.

    Raises:
        ArgumentError: `n` is negative or not a whole number.

    Example:
        >>> import fusewire as fw
        >>> fw.diff(fw.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    x = as_tensor("diff", x)
    at, times = axis_of("diff", axis, x.ndim), whole(n)
    if times is None or times < 0:
        raise ArgumentError(f"diff: n={n!r} times", "n is a whole number, 0 or more")
    parts = [part for part in (prepend, x, append) if part is not None]
    out = concat(parts, at)
    minus = not_equal if out.dtype == dtypes.bool else subtract
    for _ in range(times):
        size = tuple(max(m - 1, 0) if i == at else m for i, m in enumerate(out.shape))
        later = tuple(int(i == at and m > 0) for i, m in enumerate(out.shape))
        step, start = (1,) * out.ndim, (0,) * out.ndim
        out = minus(slice_axes(out, later, step, size), slice_axes(out, start, step, size))
    return out
