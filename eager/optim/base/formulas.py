"""Defines the arithmetic of optimizers as pointwise ops, one op per tensor that a step changes.

Settings (momentum, betas, eps) are inputs of the ops, so a trace stays valid for other values. The
order of operations is PyTorch's. These ops have no gradient, since steps run off the tape; a
differentiable step computes the formula in ops that have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tape import MODE
from ...core.tensor import Tensor
from ...ops.declare import result_rule
from ...ops.elementwise import pointwise

_WHY = {"vjp": "optimizers step off the tape"}


def _formula(name: str, formula: Callable[..., Any]) -> Callable[..., Tensor]:
    """Declares an op; the result is a function of tensors of one dtype and of settings."""
    op = define(Op(name, "pointwise", result_rule(name, "same"), formula, formula, why=_WHY))

    def function(x: Tensor, *others: Any) -> Tensor:
        dtype = x._data.dtype
        inputs = [y if not isinstance(y, Tensor) or y._data.dtype is dtype else
                  pointwise.cast(y, dtype) for y in others]
        if MODE.enabled and any(y.requires_grad for y in (x, *inputs) if isinstance(y, Tensor)):
            return formula(pointwise, x, *inputs)
        return apply(op, (x, *inputs))

    return function


scale = _formula("scale", lambda k, x, a: x * a)
axpy = _formula("axpy", lambda k, x, a, y: x + a * y)
axpby = _formula("axpby", lambda k, x, a, b, y: x * a + b * y)
interpolate = _formula("interpolate", lambda k, x, y, weight: x + weight * (y - x))
ema_square = _formula("ema_square", lambda k, x, y, keep, weight: x * keep + weight * y * y)
ratio_step = _formula("ratio_step", lambda k, x, rate, y, z: x + rate * y / z)
root_step = _formula("root_step", lambda k, x, keep, rate, y, square, scale, eps:
                     x * keep + rate * y / (k.sqrt(square) / scale + eps))
adamax_norm = _formula("adamax_norm", lambda k, norm, keep, g, eps:
                       k.maximum(norm * keep, k.abs(g) + eps))
adadelta_step = _formula("adadelta_step", lambda k, steps, squares, g, eps:
                         k.sqrt(steps + eps) / k.sqrt(squares + eps) * g)
rprop_size = _formula("rprop_size", lambda k, size, g, before, less, more, least, most:
                      k.minimum(k.maximum(size * _by_sign(k, g * before, less, 1.0, more), least),
                                most))
rprop_kept = _formula("rprop_kept", lambda k, g, before: k.where(g * before < 0, 0.0, g))


def _by_sign(k: Any, x: Any, below: Any, at: Any, above: Any) -> Any:
    """`below`, `at` or `above` for each element of `x` below, at or above 0; nan stays nan."""
    return k.where(x < 0, below, k.where(x > 0, above, k.where(x == 0, at, x)))


def lerp(x: Tensor, y: Tensor, weight: Any) -> Tensor:
    """`x` moved towards `y` by the share `weight`.

    It starts from the nearer of both, so a weight of 1 gives `y` exactly. A tensor as weight starts
    from `x`.
    """
    if isinstance(weight, Tensor) or weight < 0.5:
        return interpolate(x, y, weight)
    return interpolate(y, x, 1.0 - weight)
