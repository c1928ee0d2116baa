"""The arithmetic of optimizers as pointwise ops: one op per tensor that a step changes.

Settings (momentum, betas, eps) are inputs rather than parameters of the ops, so that a recording
can take another number without starting anew. Nothing here has a gradient: steps are made off the
tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import apply
from ..op import Op, define
from ..ops.declare import result_rule
from ..tensor import Tensor

_WHY = {"vjp": "optimizers step off the tape"}


def _formula(name: str, formula: Callable[..., Any]) -> Callable[..., Tensor]:
    """Declares the op and returns its function of tensors of one dtype and numbers."""
    op = define(Op(name, "pointwise", result_rule(name, "same"), formula, formula, why=_WHY))
    return lambda *inputs: apply(op, inputs)


axpy = _formula("axpy", lambda k, x, a, y: x + a * y)
axpby = _formula("axpby", lambda k, a, x, b, y: a * x + b * y)
lerp = _formula("lerp", lambda k, x, y, weight: x + (y - x) * weight)
ema_square = _formula("ema_square", lambda k, x, y, keep, weight: x * keep + y * y * weight)

# With a bias correction of 1 - beta ** step, exact in float32 too: -expm1(step * log(beta)).
adam_rate = _formula("adam_rate", lambda k, lr, step, log_beta: lr / k.expm1(step * log_beta))
adam_scale = _formula("adam_scale", lambda k, step, log_beta: k.sqrt(-k.expm1(step * log_beta)))
# `rate` is negative, as adam_rate leaves out the minus of its denominator.
adam_step = _formula("adam_step", lambda k, x, mean, square, rate, scale, eps:
                     x + rate * (mean / (k.sqrt(square) / scale + eps)))
