"""Computes quantiles and counts, and reductions that ignore nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import interpreter
from ...arguments import check_number, check_whole, names_itself
from ...arrays import dtypes
from ...arrays.shapes import axes_of, product, reduced
from ...core.tensor import Tensor, as_tensor, tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ..create import full
from ..elementwise.casting import in_float32
from ..elementwise.pointwise import (
    cast,
    ceil,
    equal,
    floor,
    greater,
    greater_equal,
    isinf,
    isnan,
    less_equal,
    logical_and,
    logical_not,
    maximum,
    minimum,
    remainder,
    where,
)
from ..indexing.scatter import take_along_axis
from ..indexing.search import count_nonzero, ordered
from ..indexing.sort import sort
from ..reduction import reduce
from ..shape.take import add_at
from ..shape.view import permute_dims, reshape

__all__ = [
    "bincount", "median", "nanmax", "nanmean", "nanmedian",
    "nanmin", "nanquantile", "nanstd", "nansum", "nanvar", "quantile",
]

Axis = Any  # None, int or tuple of ints


# ---- reductions that ignore nan
def _is_missing(x: Tensor) -> Tensor:
    return isnan(x) if dtypes.is_float(x.dtype) else full(x.shape, False, device=x.device)


@names_itself
def nansum(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum along `axis` of the elements that are not nan; the parameters are those of `sum`.

    Example:
        >>> import fusewire as fw
        >>> fw.nansum(fw.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
    """
    x = as_tensor("nansum", x)
    return reduce.sum(where(_is_missing(x), 0, x), axis, keepdims, dtype)


@names_itself
def nanmean(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The mean along `axis` of the elements that are not nan; nan if there are none. See `mean`.

    `dtype` is that of the sum and of the result. Default None: that of `x`, or float32 of integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nanmean(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(2.)
    """
    x = _floats("nanmean", x, dtype)
    return cast(_mean_of_rest(reduce.widened(x), axis, keepdims), x.dtype)


def _floats(name: str, x: Any, dtype: Any, kinds: str = "fc") -> Tensor:
    """`x` in `dtype`, or in its own if that is a floating one of these kinds."""
    return reduce.floating(name, x if dtype is None else cast(as_tensor(name, x),
                                                              dtypes.as_dtype(dtype)), kinds)


def _mean_of_rest(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return nansum(x, axis, keepdims) / cast(_count(x, axis, keepdims), dtypes.real_of(x.dtype))


def _count(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return count_nonzero(logical_not(_is_missing(x)), axis, keepdims)


@names_itself
def nanmax(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along `axis` that is not nan; nan if there is none. See `max`.

    Example:
        >>> import fusewire as fw
        >>> fw.nanmax(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(3.)
    """
    return _nan_extreme("nanmax", reduce.max, reduce.lowest, x, axis, keepdims)


@names_itself
def nanmin(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along `axis` that is not nan; nan if there is none. See `min`.

    Example:
        >>> import fusewire as fw
        >>> fw.nanmin(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(1.)
    """
    return _nan_extreme("nanmin", reduce.min, reduce.highest, x, axis, keepdims)


def _nan_extreme(name: str, extreme: Callable[..., Tensor], least: Callable[[Any], Any], x: Any,
                 axis: Axis, keepdims: bool) -> Tensor:
    x = ordered(name, x)
    if not dtypes.is_float(x.dtype):
        return extreme(x, axis, keepdims)
    missing = isnan(x)
    value = extreme(where(missing, least(x.dtype), x), axis, keepdims)
    return where(reduce.all(missing, axis, keepdims), float("nan"), value)


@names_itself
def nanvar(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False,
           dtype: Any = None, ddof: float | None = None) -> Tensor:
    """The variance along `axis` of the n elements that are not nan, by n - correction. See `var`.

    `dtype` is that of the result. Default None: that of `x`, or float32 of integers. `ddof` is
    NumPy's name of `correction`.

    Example:
        >>> import fusewire as fw
        >>> fw.nanvar(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(1.)
    """
    correction = check_number("nanvar", "correction", correction if ddof is None else ddof)
    x = _floats("nanvar", x, dtype, "f")
    return cast(_variance_of_rest(reduce.widened(x), axis, correction, keepdims), x.dtype)


def _variance_of_rest(x: Tensor, axis: Axis, correction: float, keepdims: bool) -> Tensor:
    centred = where(isnan(x), 0.0, x - _mean_of_rest(x, axis, True))
    left = cast(_count(x, axis, keepdims), x.dtype) - correction
    total = reduce.sum(centred * centred, axis, keepdims)
    return total / where(left > 0, left, float("nan"))


@names_itself
def nanstd(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False,
           dtype: Any = None, ddof: float | None = None) -> Tensor:
    """The standard deviation along `axis` of the elements that are not nan. See `std`.

    The parameters are those of `nanvar`.

    Example:
        >>> import fusewire as fw
        >>> fw.nanstd(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(1.)
    """
    correction = check_number("nanstd", "correction", correction if ddof is None else ddof)
    x = _floats("nanstd", x, dtype, "f")
    variance = _variance_of_rest(reduce.widened(x), axis, correction, keepdims)
    return cast(reduce.root(variance), x.dtype)


# ---- quantiles: an element of the sorted ones, or a mixture of two neighbours
RankRule = Callable[[Tensor, Tensor], Tensor]  # of n and q: the rank among n elements, from 0 on


def _between(alpha: float, beta: float) -> RankRule:
    """The rank of Hyndman and Fan's family of interpolated quantiles."""
    return lambda n, q: n * q + (alpha + q * (1.0 - alpha - beta)) - 1.0


def _stepped(offset: float, at_step: Callable[[Tensor], Any]) -> RankRule:
    """The rank above n * q + offset; where that is a whole number, `at_step` of it is added."""

    def rank(n: Tensor, q: Tensor) -> Tensor:
        exact = n * q + offset
        below = floor(exact)
        return where(equal(exact, below), below + at_step(below), below + 1.0)

    return rank


def _nearest(n: Tensor, q: Tensor) -> Tensor:
    """The nearest rank; of two equally near ones, the even one."""
    exact = (n - 1.0) * q
    below = floor(exact)
    up = where(equal(exact - below, 0.5), equal(remainder(below, 2.0), 1.0), exact - below > 0.5)
    return below + cast(up, exact.dtype)


# Hyndman and Fan, "Sample quantiles in statistical packages" (1996), and four simpler ones.
_RANKS: dict[str, RankRule] = {
    "inverted_cdf": _stepped(-1.0, lambda below: 0.0),
    "averaged_inverted_cdf": _stepped(-1.0, lambda below: 0.5),
    "closest_observation": _stepped(-1.5, lambda below: 1.0 - remainder(below, 2.0)),
    "interpolated_inverted_cdf": _between(0.0, 1.0),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0.0, 0.0),
    "linear": _between(1.0, 1.0),
    "median_unbiased": _between(1.0 / 3.0, 1.0 / 3.0),
    "normal_unbiased": _between(3.0 / 8.0, 3.0 / 8.0),
    "lower": lambda n, q: floor((n - 1.0) * q),
    "higher": lambda n, q: ceil((n - 1.0) * q),
    "midpoint": lambda n, q: (floor((n - 1.0) * q) + ceil((n - 1.0) * q)) * 0.5,
    "nearest": _nearest,
}


@in_float32
def quantile(x: Tensor, q: Any, axis: Axis = None, keepdims: bool = False, method: str = "linear"
             ) -> Tensor:
    """The values below which the fractions `q` of the elements along `axis` lie.

    The result is nan where an element is nan.

    Args:
        q: a number from 0 to 1; or several, whose axes come first in the result.
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.
        method: chooses a value between two elements, as in NumPy: "linear", "lower", "nearest",
            "hazen" and others. Default "linear".

    Raises:
        DTypeError: `x` does not hold real floats.
        ArgumentError: `q` is not from 0 to 1, or `method` has another value.
        ShapeError: there are no elements.

    Example:
        >>> import fusewire as fw
        >>> fw.quantile(fw.tensor([1.0, 2.0, 3.0, 4.0]), [0.25, 0.5])
        tensor([1.75, 2.5 ])
    """
    return _quantile("quantile", x, q, axis, keepdims, method, False)


@in_float32
@names_itself
def nanquantile(x: Tensor, q: Any, axis: Axis = None, keepdims: bool = False,
                method: str = "linear") -> Tensor:
    """`quantile` of the elements that are not nan; nan if there are none.

    Example:
        >>> import fusewire as fw
        >>> fw.nanquantile(fw.tensor([1.0, float("nan"), 3.0]), 0.5)
        tensor(2.)
    """
    return _quantile("nanquantile", x, q, axis, keepdims, method, True)


def median(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element of the sorted ones along `axis`; for an even number, the mean of the two.

    Parameters and errors are those of `quantile`.

    Example:
        >>> import fusewire as fw
        >>> fw.median(fw.tensor([[1.0, 9.0, 2.0, 4.0]]), axis=1)
        tensor([3.])
    """
    return _quantile("median", x, 0.5, axis, keepdims, "linear", False)


@names_itself
def nanmedian(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`median` of the elements that are not nan; nan if there are none.

    Example:
        >>> import fusewire as fw
        >>> fw.nanmedian(fw.tensor([1.0, float("nan"), 3.0]))
        tensor(2.)
    """
    return _quantile("nanmedian", x, 0.5, axis, keepdims, "linear", True)


def _quantile(name: str, x: Any, q: Any, axis: Axis, keepdims: bool, method: str, skip: bool
              ) -> Tensor:
    x = reduce.floating(name, x, "f")
    if method not in _RANKS:
        raise ArgumentError(f"{name}: method={method!r} is not known",
                            f"the methods are {', '.join(_RANKS)}")
    fractions = _fractions(name, q, x.device)
    axes = axes_of(name, axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    n = product(x.shape[i] for i in axes)
    if n == 0:
        raise ShapeError(f"{name}: no elements along axis {axis} of shape {x.shape}",
                         "test x.size before looking for a quantile")
    shape = tuple(x.shape[i] for i in rest)
    rows = reshape(permute_dims(x, (*rest, *axes)), (product(shape), n))
    values = _of_rows(rows, reshape(fractions, (1, -1)), _RANKS[method], skip)
    by_fraction = permute_dims(values, (1, 0))
    result_shape = reduced(x.shape, axes, True) if keepdims else shape
    return reshape(by_fraction, (*fractions.shape, *result_shape))


def _fractions(name: str, q: Any, device: str) -> Tensor:
    """`q` in float64, since a rounded fraction can select another element."""
    values = q if isinstance(q, Tensor) else tensor(q, dtypes.float64, device)
    fractions = cast(values, dtypes.float64)
    if interpreter.can_read_values() and not _are_fractions(q):
        raise ArgumentError(f"{name}: q={q!r} is no fraction", "fractions go from 0 to 1")
    return fractions


def _are_fractions(q: Any) -> bool:
    if isinstance(q, Tensor):
        return bool(reduce.all(logical_and(greater_equal(q, 0), less_equal(q, 1))))
    if isinstance(q, (list, tuple)):
        return all(map(_are_fractions, q))
    return bool(np.all((q >= 0) & (q <= 1)))


def _of_rows(rows: Tensor, q: Tensor, rank: RankRule, skip: bool) -> Tensor:
    """The quantiles (rows, q) of each row of (rows, n)."""
    is_nan = isnan(rows)
    missing = reduce.sum(is_nan, 1, keepdims=True)
    ordered_rows = sort(where(is_nan, float("inf"), rows))  # after all that are looked for
    n = rows.shape[1] - (missing if skip else missing * 0)
    last = cast(maximum(n - 1, 0), dtypes.float64)
    at = minimum(maximum(rank(cast(n, dtypes.float64), q), 0.0), last)
    below = floor(at.detach())
    part = cast(at - below, rows.dtype)
    low = cast(below, dtypes.int64)
    high = low + cast(greater(part, 0), dtypes.int64)
    a, b = (take_along_axis(ordered_rows, i, axis=1) for i in (low, high))
    alike = logical_and(equal(a, b), isinf(a))
    value = a + where(alike, 0.0, b - where(alike, 0.0, a)) * part
    return where(equal(n, 0) if skip else greater(missing, 0), float("nan"), value)


# ---- counts
@names_itself
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of each integer from 0 to the largest of `x` (n,), as a vector.

    Args:
        weights: (n,), summed instead of counted; integers and bool are summed in float64.
            Default None.
        minlength: least size of the result. Default 0.

    Raises:
        DTypeError: `x` is not a vector of integers.
        ArgumentError: an integer is negative.
        ShapeError: `weights` has another shape than `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.bincount(fw.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """
    check_whole("bincount", "minlength", minlength, 0)
    x = as_tensor("bincount", x)
    if x.ndim != 1 or dtypes.kind(x.dtype) not in "iu":
        raise DTypeError(f"bincount: counts integers in one axis, not {x.dtype.name} of {x.shape}",
                         "cast and flatten them first")
    largest = int(reduce.max(x)) if x.size else -1
    if x.size and int(reduce.min(x)) < 0:
        raise ArgumentError("bincount: negative integers cannot be counted",
                            "shift them first: x - x.min()")
    size = largest + 1 if largest >= minlength else minlength
    counted = full(x.shape, 1, device=x.device) if weights is None else \
        _weights(as_tensor("bincount", weights))
    if counted.shape != x.shape:
        raise ShapeError(f"bincount: weights {counted.shape} for integers {x.shape}",
                         "give one weight for each")
    return add_at(counted, x, size)


def _weights(weights: Tensor) -> Tensor:
    return weights if dtypes.is_float(weights.dtype) else cast(weights, dtypes.float64)
