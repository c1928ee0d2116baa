"""Ops that combine the elements along axes: how two values combine, and the value that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import apply
from ..dtypes import is_float
from ..errors import DTypeError, ShapeError
from ..op import Op, Reduction, define, each
from ..shapes import TensorType, axes_of, product, reduced
from ..tensor import Tensor
from .pointwise import astype, equal
from .view import broadcast_to, expand_dims, permute_dims, reshape

Axis = Any  # None, int or tuple of ints


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return -float("inf") if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _highest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return True
    return float("inf") if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _result(x: TensorType, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    return TensorType(reduced(x.shape, axis, keepdims), x.dtype)


def reduction(
    name: str, combine: str, identity: Callable[[Any], Any], impl: Callable[..., Any],
    vjp: Callable[..., Any] | None = None, onnx: str = "", **why: str,
) -> Op:
    """Declares a reduction over params axis (ordered tuple of ints) and keepdims."""
    return define(Op(name, "reduce", _result, impl, Reduction(combine, identity),
                     each(vjp) if vjp else None, onnx, why))


def spread(g: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """`g`, a value per reduced slice of `x`, repeated to the shape of `x`."""
    kept = g if keepdims else reshape(g, reduced(x.shape, axis, True))
    return broadcast_to(kept, x.shape)


def _extreme_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    hit = astype(equal(x, spread(out, x, axis, keepdims)), x.dtype)
    count = sum(hit, axis=axis, keepdims=True)
    return hit * (spread(g, x, axis, keepdims) / count)


def _prod_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Product of all others, by products from the left and the right: zeros need no division."""
    rest = tuple(i for i in range(x.ndim) if i not in axis)
    flat = reshape(permute_dims(x, (*rest, *axis)), (product(x.shape[i] for i in rest), -1))
    n = flat.shape[1]
    rows, cols = np.arange(n)[:, None], np.arange(n)[None, :]
    keep = Tensor(rows != cols)
    others = prod(_choose(keep, expand_dims(flat, 1)), axis=-1)
    shape = tuple(x.shape[i] for i in (*rest, *axis))
    back = tuple(int(i) for i in np.argsort((*rest, *axis)))
    return spread(g, x, axis, keepdims) * permute_dims(reshape(others, shape), back)


def _choose(keep: Tensor, x: Tensor) -> Tensor:
    from_one = astype(keep, x.dtype)
    return x * from_one + (1 - from_one)


sum_op = reduction(
    "sum", "add", lambda dtype: 0,
    lambda xp, x, axis, keepdims: x.sum(axis=axis, keepdims=keepdims, dtype=x.dtype),
    lambda g, out, x, axis, keepdims: spread(g, x, axis, keepdims))
prod_op = reduction(
    "prod", "mul", lambda dtype: 1,
    lambda xp, x, axis, keepdims: x.prod(axis=axis, keepdims=keepdims, dtype=x.dtype), _prod_vjp)
max_op = reduction(
    "max", "maximum", _lowest,
    lambda xp, x, axis, keepdims: x.max(axis=axis, keepdims=keepdims), _extreme_vjp)
min_op = reduction(
    "min", "minimum", _highest,
    lambda xp, x, axis, keepdims: x.min(axis=axis, keepdims=keepdims), _extreme_vjp)
any_op = reduction(
    "any", "or", lambda dtype: False,
    lambda xp, x, axis, keepdims: x.any(axis=axis, keepdims=keepdims), vjp=None)
all_op = reduction(
    "all", "and", lambda dtype: True,
    lambda xp, x, axis, keepdims: x.all(axis=axis, keepdims=keepdims), vjp=None)


def _reduce(op: Op, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = axes_of(op.name, axis, x.ndim)
    return apply(op, (x,), {"axis": axes, "keepdims": bool(keepdims)}) if axes or x.ndim == 0 else x


def _accumulated(x: Tensor, dtype: Any) -> Tensor:
    """`x` in the dtype that sums are made in: small integers and bool become 64 bits wide."""
    if dtype is None and x.dtype.kind in "bi":
        dtype = dtypes.int64
    elif dtype is None and x.dtype.kind == "u":
        dtype = dtypes.uint64
    return x if dtype is None else astype(x, dtype)


def sum(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum along `axis` (None: all)."""
    return _reduce(sum_op, _accumulated(x, dtype), axis, keepdims)


def prod(x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product along `axis` (None: all)."""
    return _reduce(prod_op, _accumulated(x, dtype), axis, keepdims)


def max(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest value along `axis`; nan if there is one. ShapeError for an empty axis."""
    return _reduce(max_op, _not_empty("max", x, axis), axis, keepdims)


def min(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest value along `axis`; nan if there is one. ShapeError for an empty axis."""
    return _reduce(min_op, _not_empty("min", x, axis), axis, keepdims)


def any(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element along `axis` is true."""
    return _reduce(any_op, astype(x, dtypes.bool), axis, keepdims)


def all(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along `axis` are true."""
    return _reduce(all_op, astype(x, dtypes.bool), axis, keepdims)


def mean(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along `axis`; DTypeError for integers."""
    _need_float("mean", x)
    axes = axes_of("mean", axis, x.ndim)
    return sum(x, axes, keepdims) / product(x.shape[i] for i in axes)


def var(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along `axis`, divided by n - correction."""
    _need_float("var", x)
    axes = axes_of("var", axis, x.ndim)
    centred = x - mean(x, axes, keepdims=True)
    count = product(x.shape[i] for i in axes)
    return sum(centred * centred, axes, keepdims) / (count - correction)


def std(x: Tensor, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along `axis`: the square root of `var`."""
    return var(x, axis, correction, keepdims).sqrt()  # type: ignore[attr-defined,no-any-return]


def _need_float(name: str, x: Tensor) -> None:
    if not is_float(x.dtype):
        raise DTypeError(f"{name}: takes floating point tensors, not {x.dtype.name}",
                         "cast first: x.astype(fw.float32)")


def _not_empty(name: str, x: Tensor, axis: Axis) -> Tensor:
    for i in axes_of(name, axis, x.ndim):
        if x.shape[i] == 0:
            raise ShapeError(f"{name}: axis {i} of shape {x.shape} is empty and has no {name}imum")
    return x
