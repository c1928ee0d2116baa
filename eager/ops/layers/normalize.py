"""Normalizes elements along some axes to mean 0 and variance 1.

The gradient is one op of the gradient and `x`, which computes mean and variance again. That reads
and writes less than the gradients of all steps. Compiled code has mean and variance from the
forward, and does not compute them twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import interpreter
from ...arrays.shapes import TensorType, product, reduced
from ...arrays.sums import total
from ...core import dispatch
from ...core.op import each
from ...core.tensor import Tensor
from ..batching import shifted
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import add, multiply, rsqrt
from ..reduction import reduce
from ..shape.join import stack
from ..shape.view import reshape

Axes = tuple[int, ...]


def _scaled(x: Tensor, axes: Axes, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    """The normalized `x`, and the factor by which it was multiplied."""
    if centred:
        x = x - reduce.mean(x, axes, keepdims=True)
    factor = rsqrt(reduce.mean(x * x, axes, keepdims=True) + eps)
    return x * factor, factor


def _normalize(x: Tensor, axes: Axes, eps: float, centred: bool) -> Tensor:
    return _scaled(x, axes, eps, centred)[0]


def _backward(g: Tensor, x: Tensor, axes: Axes, eps: float, centred: bool) -> Tensor:
    """`g` without its parts along the result and, if `centred`, without its mean; scaled."""
    out, factor = _scaled(x, axes, eps, centred)
    rest = g - out * reduce.mean(g * out, axes, keepdims=True)
    if centred:
        rest = rest - reduce.mean(g, axes, keepdims=True)
    return rest * factor


# ---- in NumPy, with in-place operations
def _mean(x: Any, axes: Axes, count: Any) -> Any:
    return total(x, axes, True) / count


def _scaled_arrays(x: Any, axes: Axes, eps: float, centred: bool) -> tuple[Any, Any, Any, Any]:
    """The normalized array, the factor, the number of averaged elements, and a free array."""
    count = x.dtype.type(product([x.shape[i] for i in axes]))
    out = x - _mean(x, axes, count) if centred else x
    free = out * out
    factor = 1 / np.sqrt(_mean(free, axes, count) + x.dtype.type(eps))
    return (np.multiply(out, factor, out=out) if centred else out * factor), factor, count, free


def _normalize_impl(xp: Any, x: Any, axes: Axes, eps: float, centred: bool) -> Any:
    return _scaled_arrays(x, axes, eps, centred)[0]


def _backward_impl(xp: Any, g: Any, x: Any, axes: Axes, eps: float, centred: bool) -> Any:
    out, factor, count, free = _scaled_arrays(x, axes, eps, centred)
    np.multiply(g, out, out=free)
    out *= _mean(free, axes, count)
    np.subtract(g, out, out=out)
    if centred:
        out -= _mean(g, axes, count)
    out *= factor
    return out


def _first(x: TensorType, axes: Axes, **rest: Any) -> tuple[int, ...]:
    return (min(axes),)


backward_op = composite("normalize_back", _backward, impl=_backward_impl, batch=shifted("axes"),
                        rows=lambda g, x, axes, **rest: (min(axes),) * 2)
normalize_op = composite(
    "normalize", _normalize, impl=_normalize_impl, batch=shifted("axes"), rows=_first,
    vjp=each(lambda g, out, x, **how: call(backward_op, g, x, **how)))


# ---- times a weight, plus a bias: one op in eager
def _affine(x: Tensor, *values: Tensor, axes: Axes, eps: float, centred: bool, shape: Axes
            ) -> Tensor:
    out = normalize(x, axes, eps, centred)
    for value, combined in zip(values, (multiply, add)):
        out = combined(out, reshape(value, shape))
    return out


def _affine_impl(xp: Any, x: Any, *values: Any, axes: Axes, eps: float, centred: bool, shape: Axes
                 ) -> Any:
    out = _scaled_arrays(x, axes, eps, centred)[0]
    for value, combined in zip(values, (np.multiply, np.add)):
        out = combined(out, value.reshape(shape), out=out)
    return out


def _affine_vjp(needs: tuple[bool, ...], g: Tensor, out: Tensor, x: Tensor, *values: Tensor,
                axes: Axes, eps: float, centred: bool, shape: Axes) -> list[Any]:
    weight = reshape(values[0], shape)
    first = None
    if needs[0]:
        first = call(backward_op, g * weight, x, axes=axes, eps=eps, centred=centred)
    parts = [g * normalize(x, axes, eps, centred) if needs[1] else g, g]
    return [first, *[_summed(part, value, shape) if need else None
                     for part, value, need in zip(parts, values, needs[1:])]]


def _summed(x: Tensor, value: Tensor, shape: Axes) -> Tensor:
    """`x` summed over the axes along which `value`, reshaped to `shape`, was broadcast."""
    first = x.ndim - len(shape)
    axes = [i for i in range(x.ndim) if i < first or shape[i - first] == 1]
    return reshape(reduce.sum(x, tuple(axes)), value.shape)


def _affine_rows(x: TensorType, *values: TensorType, axes: Axes, shape: Axes, **rest: Any
                 ) -> tuple[int, ...]:
    """The first axis within a row: rows end where `x` is averaged, or weight and bias vary."""
    first = x.ndim - len(shape)
    along = [first + i for i, n in enumerate(shape) if n != 1]
    return (min([*axes, *along]), *(0,) * len(values))


affine_op = composite(
    "normalize_affine", _affine, impl=_affine_impl, vjp=_affine_vjp, rows=_affine_rows)


def is_one_op(x: Tensor, *values: Tensor | None) -> bool:
    """True if `normalize_affine` is worth while: large operands of one dtype, computed eagerly."""
    return not interpreter.in_use and x._data.size * affine_op.passes >= dispatch.LARGE \
        and all([v is None or v._data.dtype == x._data.dtype for v in values])


def normalize_affine(x: Tensor, weight: Tensor, bias: Tensor | None, axes: Axes, eps: float,
                     centred: bool, shape: Axes) -> Tensor:
    """`normalize` times weight, plus bias, which are reshaped to `shape` along the last axes."""
    values = (weight,) if bias is None else (weight, bias)
    return call(affine_op, x, *values, axes=axes, eps=float(eps), centred=centred, shape=shape)


# ---- mean and variance in one pass over memory
def _moments(x: Tensor, axes: Axes) -> Tensor:
    count = product(x.shape[i] for i in axes)
    mean = reduce.mean(x, axes, keepdims=True)
    centred = x - mean
    variance = reduce.sum(centred * centred, axes) / (count - 1)
    return stack([reshape(mean, variance.shape), variance])


def _moments_impl(xp: Any, x: Any, axes: Axes) -> Any:
    count = x.dtype.type(product([x.shape[i] for i in axes]))
    mean = _mean(x, axes, count)
    centred = x - mean
    variance = total(np.multiply(centred, centred, out=centred), axes) / (count - 1)
    return np.stack([mean.reshape(variance.shape), variance])


def _moments_result(x: TensorType, axes: Axes) -> TensorType:
    return TensorType((2, *reduced(x.shape, axes, False)), x.dtype)


moments_op = composite("moments", _moments, _moments_result, _moments_impl,
                       rows=lambda x, axes: (0,))


def moments(x: Tensor, axes: Axes) -> Tensor:
    """Mean and variance (divided by n - 1) along `axes`, (2, *rest), for running statistics."""
    return call(moments_op, x, axes=axes)


def normalize(x: Tensor, axes: Axes, eps: float, centred: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + eps) along `axes`, sorted and counted from the front.

    If not `centred`: x / sqrt(mean of squares + eps). x is float32 or wider: see `reduce.widened`.
    """
    return call(normalize_op, x, axes=axes, eps=float(eps), centred=centred)
