"""Reduces tensors along axes: sum, prod, max, min, any, all, mean, var and std.

A reduction op is defined by how two values combine and by the value that changes nothing.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import interpreter
from ...arguments import check_number
from ...arrays import cpu_kernels, dtypes, sums
from ...arrays.shapes import TensorType, axes_of, product, reduced
from ...core import dispatch
from ...core.dispatch import apply, with_data
from ...core.op import Op, Reduction, define, each
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..elementwise.complex import conj_of, imag, real
from ..elementwise.pointwise import alias, cast, equal, sqrt, where
from ..shape.rearrange import shift
from ..shape.view import broadcast_op, expand_to, permute_dims, reshape

__all__ = ["all", "aminmax", "any", "max", "mean", "min", "prod", "std", "sum", "var"]

Axis = Any  # None, int or tuple of ints


def lowest(dtype: Any) -> Any:
    """The smallest value of a real dtype."""
    if dtype.kind == "b":
        return False
    return -float("inf") if dtypes.kind(dtype) == "f" else dtypes.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The largest value of a real dtype."""
    if dtype.kind == "b":
        return True
    return float("inf") if dtypes.kind(dtype) == "f" else dtypes.iinfo(dtype).max


def _result(x: TensorType, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    return TensorType(reduced(x.shape, axis, keepdims), x.dtype)


def reduction(
    name: str, combine: str, identity: Callable[[Any], Any], impl: Callable[..., Any],
    vjp: Callable[..., Any] | str, onnx: str = "", precision: str = "",
) -> Op:
    """Declares a reduction with the params axis (sorted tuple of ints) and keepdims.

    vjp: a rule, or the reason for having none.
    """
    rule, why = (None, {"vjp": vjp}) if isinstance(vjp, str) else (each(vjp), {})
    return define(Op(name, "reduce", _result, impl, Reduction(combine, identity), rule, onnx, why,
                     precision=precision))


def spread(g: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """`g`, one value for each reduced slice of `x`, repeated to the shape of `x`."""
    shape = x.shape
    if not g._data.shape and not interpreter.in_use:  # of a loss
        data = cpu_kernels.broadcast_to(g._data, shape)
        return with_data(broadcast_op, g, data, {"shape": shape})
    if not keepdims and len(axis) != len(shape) and axis != tuple(range(len(axis))):
        g = reshape(g, reduced(shape, axis, True))  # broadcasting restores leading axes
    return expand_to(g, shape)


def _extreme_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool
                 ) -> Tensor:
    hit = cast(equal(x, spread(out, x, axis, keepdims)), x.dtype)
    count = sum(hit, axis=axis, keepdims=True)
    return hit * (spread(g, x, axis, keepdims) / count)


def _prod_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """The product of all others, from products before and after: zeros need no division."""
    rest = tuple(i for i in range(x.ndim) if i not in axis)
    axes = (*rest, *axis)
    permuted = permute_dims(x, axes)
    flat = reshape(permuted, (*permuted.shape[:len(rest)], product(x.shape[i] for i in axis)))
    others = reshape(conj_of(products_of_others(flat)), permuted.shape)
    inverse = tuple(axes.index(i) for i in range(x.ndim))
    return spread(g, x, axis, keepdims) * permute_dims(others, inverse)


def products_of_others(x: Tensor, groups: Tensor | None = None) -> Tensor:
    """For each element, the product of all other elements along the last axis; 1 if there are none.

    groups: sorted integers from 0 on; only elements of the same group are multiplied.
    """
    return _before(x, 1, groups) * _before(x, -1, groups)


def _before(x: Tensor, sign: int, groups: Tensor | None) -> Tensor:
    """The product of the elements before each one (sign 1) or after it (-1), on the last axis.

    After the iteration with `step`, an element holds the product of up to 2 * step neighbours.
    """
    out, step = _beside(x, sign, groups), 1
    while step < x.shape[-1]:
        out, step = out * _beside(out, sign * step, groups), 2 * step
    return out


def _beside(x: Tensor, by: int, groups: Tensor | None) -> Tensor:
    """The element `by` positions before each one; 1 where there is none in the same group."""
    moved = shift(x, by, 1)
    return moved if groups is None else where(equal(groups, shift(groups, by, -1)), moved, 1)


_ADD: Any = np.add.reduce
_MULTIPLY: Any = np.multiply.reduce


def _sum(xp: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    dtype = x.dtype
    if dtypes.is_small(dtype):
        return _ADD(x, axis, dtypes.added_in(dtype), None, keepdims).astype(dtype)
    return sums.total(x, axis, keepdims)


def _prod(xp: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    dtype = x.dtype
    total = _MULTIPLY(x, axis, dtypes.summed_in(dtype), None, keepdims)
    return total.astype(dtype, copy=False)


# The ufunc itself, since x.max() and its relatives run Python code of NumPy.
sum_op = reduction(
    "sum", "add", lambda dtype: 0, _sum,
    lambda g, out, x, axis, keepdims: spread(g, x, axis, keepdims))
prod_op = reduction("prod", "mul", lambda dtype: 1, _prod, _prod_vjp, precision="full")
max_op = reduction(
    "max", "maximum", lowest,
    lambda xp, x, axis, keepdims: np.maximum.reduce(x, axis, keepdims=keepdims), _extreme_vjp)
min_op = reduction(
    "min", "minimum", highest,
    lambda xp, x, axis, keepdims: np.minimum.reduce(x, axis, keepdims=keepdims), _extreme_vjp)
any_op = reduction(
    "any", "or", lambda dtype: False,
    lambda xp, x, axis, keepdims: np.logical_or.reduce(x, axis, keepdims=keepdims),
    vjp="its result is a truth value")
all_op = reduction(
    "all", "and", lambda dtype: True,
    lambda xp, x, axis, keepdims: np.logical_and.reduce(x, axis, keepdims=keepdims),
    vjp="its result is a truth value")


def _reduce(op: Op, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    ndim = len(x._data.shape)
    if axis is None and not keepdims:
        return apply(op, (x,), _ALL[ndim])
    axes = tuple(range(ndim)) if axis is None else axes_of(op.name, axis, ndim)
    if not axes and ndim:
        return alias(x)
    return apply(op, (x,), {"axis": axes, "keepdims": True if keepdims else False})


_ALL = [{"axis": tuple(range(ndim)), "keepdims": False} for ndim in range(65)]


def accumulated(name: str, x: Any, dtype: Any) -> Tensor:
    """`x` in the dtype of its sums: integers and bool become 64 bits wide."""
    if not isinstance(x, Tensor):
        x = as_tensor(name, x)
    if dtype is not None:
        return cast(x, dtypes.as_dtype(dtype))
    kind = dtypes.kind(x._data.dtype)
    if kind == "f" or kind == "c" or dtypes.is_stored(x._data.dtype):  # which the op refuses
        return x
    return cast(x, dtypes.uint64 if kind == "u" else dtypes.int64)


def sum(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum of the elements along `axis`.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.
        dtype: of the result. Default: that of floats, else int64 or uint64.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 2], [3, 4]]).sum(axis=0)
        tensor([4, 6])
    """
    if axis is None and dtype is None and not keepdims and not interpreter.in_use \
            and type(x) is Tensor:
        array = x._data
        if array.dtype is dtypes.float32 and array.size < dispatch.LARGE:
            try:  # a loss, most often
                return with_data(sum_op, x, np.asarray(sums.total(array)), _ALL[array.ndim])
            except RuntimeWarning:
                pass  # inf or nan where warnings are errors; `apply` silences them
    return _reduce(sum_op, accumulated("sum", x, dtype), axis, keepdims)


def prod(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product of the elements along `axis`; the parameters are those of `sum`.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 2], [3, 4]]).prod(axis=1)
        tensor([ 2, 12])
    """
    return _reduce(prod_op, accumulated("prod", x, dtype), axis, keepdims)


def max(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along `axis`; nan if one of them is nan.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Raises:
        ShapeError: the axis is empty.
        DTypeError: the elements are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 9], [3, 4]]).max(axis=1)
        tensor([9, 4])
    """
    return _reduce(max_op, _ordered("max", x, axis), axis, keepdims)


def min(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along `axis`; nan if one is nan. See `max` for parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 9], [3, 4]]).min(axis=1)
        tensor([1, 3])
    """
    return _reduce(min_op, _ordered("min", x, axis), axis, keepdims)


class AMinMax(NamedTuple):
    """The result of `aminmax`."""

    min: Tensor
    max: Tensor


def aminmax(x: Tensor, axis: Axis = None, keepdims: bool = False) -> AMinMax:
    """The smallest and the largest element along `axis`. See `max` for parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.aminmax(fw.tensor([3, 1, 2]))
        AMinMax(min=tensor(1), max=tensor(3))
    """
    x = _ordered("aminmax", x, axis)
    return AMinMax(_reduce(min_op, x, axis, keepdims), _reduce(max_op, x, axis, keepdims))


def any(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True if an element along `axis` is not 0; False for an empty axis.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[0, 1], [0, 0]]).any(axis=1)
        tensor([ True, False])
    """
    return _reduce(any_op, cast(as_tensor("any", x), dtypes.bool), axis, keepdims)


def all(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True if no element along `axis` is 0; True for an empty axis.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 1], [0, 1]]).all(axis=1)
        tensor([ True, False])
    """
    return _reduce(all_op, cast(as_tensor("all", x), dtypes.bool), axis, keepdims)


def mean(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean of the elements along `axis`; nan for an empty axis.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Raises:
        DTypeError: `x` holds integers or bool.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(axis=1)
        tensor([1.5, 3.5])
    """
    x = floating("mean", x)
    if axis is None and not interpreter.in_use and x._data.dtype is dtypes.float32:
        return sum(x, None, keepdims) / (x._data.size or math.nan)
    axes = axes_of("mean", axis, x.ndim)
    total = sum(widened(x), axes, keepdims)
    return cast(total / product(x.shape[i] for i in axes), x.dtype)


def widened(x: Tensor) -> Tensor:
    """`x` in the dtype in which its sums are computed."""
    return cast(x, dtypes.summed_in(x.dtype))


def var(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along `axis`: the sum of squared deviations divided by n - correction.

    The result is nan where n - correction is 0 or less.

    Args:
        axis: one axis or several. Default None: all elements.
        correction: subtracted from n, the number of elements; 1 gives the unbiased estimate.
            Default 0.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Raises:
        DTypeError: `x` holds integers or bool.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([1.0, 3.0]).var(), fw.tensor([1.0, 3.0]).var(correction=1)
        (tensor(1.), tensor(2.))
    """
    check_number("var", "correction", correction)
    x = floating("var", x)
    return cast(_variance("var", x, axis, correction, keepdims), dtypes.real_of(x.dtype))


def _variance(name: str, x: Tensor, axis: Axis, correction: float, keepdims: bool) -> Tensor:
    if x.dtype.kind == "c":  # the variance of the distances from the mean
        return _variance(name, real(x), axis, correction, keepdims) \
            + _variance(name, imag(x), axis, correction, keepdims)
    axes = axes_of(name, axis, x.ndim)
    x = widened(x)
    centred = x - mean(x, axes, keepdims=True)
    left = product(x.shape[i] for i in axes) - correction
    return sum(centred * centred, axes, keepdims) / (left if left > 0 else float("nan"))


def std(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along `axis`, the square root of `var`, which has the same parameters.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([1.0, 3.0]).std()
        tensor(1.)
    """
    check_number("std", "correction", correction)
    x = floating("std", x)
    return cast(root(_variance("std", x, axis, correction, keepdims)), dtypes.real_of(x.dtype))


def root(x: Tensor) -> Tensor:
    """The square root, with the gradient 0 at 0, where that of `sqrt` is infinite."""
    zero = equal(x, 0)
    return where(zero, 0.0, sqrt(where(zero, 1.0, x)))


def floating(name: str, x: Any, kinds: str = "fc") -> Tensor:
    """`x` as a tensor of floating point numbers; DTypeError for other dtypes."""
    x = as_tensor(name, x)
    if dtypes.kind(x.dtype) not in kinds:
        raise DTypeError(f"{name}: takes {'real ' * (kinds == 'f')}floating point tensors, not "
                         f"{x.dtype.name}",
                         "cast first: x.astype(fw.float32)")
    return x


def _ordered(name: str, x: Any, axis: Axis) -> Tensor:
    """`x` as a tensor with a largest element along each of `axis`, or an error."""
    x = as_tensor(name, x)
    if not interpreter.in_use and x._data.dtype is dtypes.float32 and x._data.size:
        return x  # the usual case
    if dtypes.kind(x.dtype) == "c":
        raise DTypeError(f"{name}: complex numbers have no order, got {x.dtype.name}",
                         "compare their absolute values: x.abs()")
    sizes = x.shape
    reduced_axes = axes_of(name, axis, x.ndim)
    empty = [i for i in reduced_axes if sizes[i] == 0]
    if empty and builtins.all(sizes[i] != 0 for i in range(x.ndim) if i not in reduced_axes):
        raise ShapeError(f"{name}: axis {empty[0]} of shape {sizes} is empty and has no "
                         f"{name}imum", "find out where the empty axis comes from, or test x.size")
    return x
