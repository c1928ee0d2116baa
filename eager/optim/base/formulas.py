"""The arithmetic of optimizers as pointwise ops: one op per tensor that a step changes.

Settings (momentum, betas, eps) are inputs rather than parameters of the ops, so that a recording
can take another number without starting anew. They stand in the order in which PyTorch multiplies
and divides. Nothing here has a gradient: steps are made off the tape, and where one is to be
differentiated, the formula is computed in ops that have.
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
    """Declares the op; its function of tensors of one dtype, and of settings: numbers or 0-d."""
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
rprop_gradient = _formula("rprop_kept", lambda k, g, before: k.where(g * before < 0, 0.0, g))


def _by_sign(k: Any, x: Any, below: Any, at: Any, above: Any) -> Any:
    """A choice for each element of `x`: below 0, at 0, and above; nan stays what it is."""
    return k.where(x < 0, below, k.where(x > 0, above, k.where(x == 0, at, x)))


def lerp(x: Tensor, y: Tensor, weight: Any) -> Tensor:
    """`x` moved towards `y` by the share `weight`, counted from the nearer of both.

    So a weight of 1 gives `y` itself. A weight that is a tensor counts from `x`.
    """
    if isinstance(weight, Tensor) or weight < 0.5:
        return interpolate(x, y, weight)
    return interpolate(y, x, 1.0 - weight)
