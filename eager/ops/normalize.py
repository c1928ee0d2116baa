"""Normalization: what stands along some axes, brought to mean 0 and variance 1.

The gradient is written once, as an op of the gradient and `x`, which finds mean and variance again:
that is less to read and write than the gradient of each step would be, and compiled code, which
has them from the forward, does not compute them twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import each
from ..shapes import TensorType, product, reduced
from ..tensor import Tensor
from . import reduce
from .batching import shifted
from .composite import call, composite
from .join import stack
from .pointwise import rsqrt
from .view import reshape

Axes = tuple[int, ...]


def _scaled(x: Tensor, axes: Axes, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    """The normalized `x`, and by what it was multiplied."""
    if centred:
        x = x - reduce.mean(x, axes, keepdims=True)
    factor = rsqrt(reduce.mean(x * x, axes, keepdims=True) + eps)
    return x * factor, factor


def _normalize(x: Tensor, axes: Axes, eps: float, centred: bool) -> Tensor:
    return _scaled(x, axes, eps, centred)[0]


def _back(g: Tensor, x: Tensor, axes: Axes, eps: float, centred: bool) -> Tensor:
    """What of `g` is left without its parts along the result and, if `centred`, along its mean."""
    out, factor = _scaled(x, axes, eps, centred)
    rest = g - out * reduce.mean(g * out, axes, keepdims=True)
    if centred:
        rest = rest - reduce.mean(g, axes, keepdims=True)
    return rest * factor


# ---- the same in NumPy, over memory of their own
_ADD: Any = np.add.reduce


def _mean(x: Any, axes: Axes, count: Any) -> Any:
    return _ADD(x, axes, None, None, True) / count


def _scaled_arrays(x: Any, axes: Axes, eps: float, centred: bool) -> tuple[Any, Any, Any, Any]:
    """The normalized array, the factor, the number of elements averaged, and a free array."""
    count = x.dtype.type(product([x.shape[i] for i in axes]))
    out = x - _mean(x, axes, count) if centred else x
    free = out * out
    factor = 1 / np.sqrt(_mean(free, axes, count) + x.dtype.type(eps))
    return (np.multiply(out, factor, out=out) if centred else out * factor), factor, count, free


def _normalize_impl(xp: Any, x: Any, axes: Axes, eps: float, centred: bool) -> Any:
    return _scaled_arrays(x, axes, eps, centred)[0]


def _back_impl(xp: Any, g: Any, x: Any, axes: Axes, eps: float, centred: bool) -> Any:
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


back_op = composite("normalize_back", _back, impl=_back_impl, batch=shifted("axes"),
                    rows=lambda g, x, axes, **rest: (min(axes),) * 2)
normalize_op = composite(
    "normalize", _normalize, impl=_normalize_impl, batch=shifted("axes"), rows=_first,
    vjp=each(lambda g, out, x, **how: call(back_op, g, x, **how)))


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
    variance = _ADD(np.multiply(centred, centred, out=centred), axes) / (count - 1)
    return np.stack([mean.reshape(variance.shape), variance])


def _moments_result(x: TensorType, axes: Axes) -> TensorType:
    return TensorType((2, *reduced(x.shape, axes, False)), x.dtype)


moments_op = composite("moments", _moments, _moments_result, _moments_impl)


def moments(x: Tensor, axes: Axes) -> Tensor:
    """Mean and variance (divided by n - 1) along `axes`, (2, *rest): what follows running ones."""
    return call(moments_op, x, axes=axes)


def normalize(x: Tensor, axes: Axes, eps: float, centred: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + eps) along `axes` (counted from the front, in order).

    Not `centred`: x / sqrt(mean of squares + eps). x is float32 or wider: see `reduce.widened`.
    """
    return call(normalize_op, x, axes=axes, eps=float(eps), centred=centred)
