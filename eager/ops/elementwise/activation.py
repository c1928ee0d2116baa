"""Declares the activations with parameters: gelu, silu, softplus, elu and others.

Each is a scalar formula; its derivative is written in ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...arguments import check_number
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor
from ..declare import in_float32, prepare, result_rule
from .pointwise import erf, exp, logical_or, sigmoid, tanh, where

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_PI = math.sqrt(2 / math.pi)
# The approximation with tanh (Hendrycks and Gimpel, arXiv 1606.08415) is x times a sigmoid, as
# (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)); left of zero that loses no digits.
_STEEP = 2 * _SQRT_2_PI
_STEEPER = 0.044715 * _STEEP


def _activation(
    name: str, formula: Callable[..., Any], vjp: Callable[..., Any], onnx: str = "",
    why: Mapping[str, str] = MappingProxyType({}), passes: int = 1,
) -> Op:
    formula = in_float32(formula)
    return define(Op(name, "pointwise", result_rule(name, "same"), formula, formula,
                     each(vjp), onnx, why, passes=passes))


def _call(op: Op, x: Any, takes: str = "real float", **params: Any) -> Tensor:
    return apply(op, prepare(op.name, (x,), takes), params)


# ---- gelu
def _gelu(k: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return x / (1 + k.exp((x * x * -_STEEPER - _STEEP) * x))
    return 0.5 * x * (1 + k.erf(x * _SQRT_HALF))


def _gelu_vjp(g: Tensor, out: Tensor, x: Tensor, approximate: str) -> Tensor:
    square = x * x
    if approximate == "tanh":
        s = 1 / (1 + exp((square * -_STEEPER - _STEEP) * x))
        return g * (s + s * (1 - s) * (square * (3 * _STEEPER) + _STEEP) * x)
    density = exp(square * -0.5) * (0.5 * _SQRT_2_PI)
    return g * (erf(x * _SQRT_HALF) * 0.5 + 0.5 + x * density)


gelu_op = _activation("gelu", _gelu, _gelu_vjp, "Gelu", passes=16)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * P(X <= x) for a standard normal X; shape of `x`. approximate="tanh": a faster formula."""
    return _call(gelu_op, x, approximate=approximate)


# ---- silu
def _silu_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    return g * (s * (x * (1 - s) + 1))


silu_op = _activation("silu", lambda k, x: x / (1 + k.exp(-x)), _silu_vjp,
                      why={"onnx": "written as x * Sigmoid(x)"})


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), of the shape of `x`."""
    return _call(silu_op, x, "float")


# ---- softplus
softplus_op = _activation(
    "softplus", lambda k, x: k.maximum(x, 0) + k.log1p(k.exp(-k.abs(x))),  # no overflow
    lambda g, out, x: g * sigmoid(x), "Softplus")


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), of the shape of `x`; large values do not overflow."""
    return _call(softplus_op, x)


# ---- leaky_relu and elu
leaky_relu_op = _activation(
    "leaky_relu", lambda k, x, alpha: k.where(x > 0, x, x * alpha),
    lambda g, out, x, alpha: where(x > 0, g, g * alpha), "LeakyRelu")


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x where it is positive, else alpha * x; shape of `x`. alpha: default 0.01."""
    return _call(leaky_relu_op, x, alpha=float(check_number("leaky_relu", "negative_slope", alpha)))


elu_op = _activation(
    "elu", lambda k, x, alpha: k.where(x > 0, x, alpha * k.expm1(k.minimum(x, 0))),
    lambda g, out, x, alpha: where(x > 0, g, g * (out + alpha)), "Elu")


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1); shape of `x`. alpha: default 1."""
    return _call(elu_op, x, alpha=float(check_number("elu", "alpha", alpha)))


# ---- mish
def _mish_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    t = tanh(softplus(x))
    return g * (t + x * sigmoid(x) * (1 - t * t))


mish_op = _activation(
    "mish", lambda k, x: x * k.tanh(k.maximum(x, 0) + k.log1p(k.exp(-k.abs(x)))), _mish_vjp)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)), of the shape of `x`."""
    return _call(mish_op, x)


# ---- piecewise linear: at corners the derivative is that of the flat side, as in PyTorch
hardtanh_op = _activation(
    "hardtanh", lambda k, x, low, high: k.minimum(k.maximum(x, low), high),
    lambda g, out, x, low, high: where(logical_or(x <= low, x >= high), 0.0, g))


def hardtanh(x: Tensor, low: float, high: float) -> Tensor:
    """x limited to the range from low to high; of the shape of `x`."""
    return _call(hardtanh_op, x, low=float(low), high=float(high))


hardsigmoid_op = _activation(
    "hardsigmoid", lambda k, x: k.minimum(k.maximum((x + 3) / 6, 0), 1),
    lambda g, out, x: where(logical_or(x <= -3, x >= 3), 0.0, g / 6))


def hardsigmoid(x: Tensor) -> Tensor:
    """(x + 3) / 6, limited to the range from 0 to 1; of the shape of `x`."""
    return _call(hardsigmoid_op, x)


hardswish_op = _activation(
    "hardswish", lambda k, x: x * k.minimum(k.maximum((x + 3) / 6, 0), 1),
    lambda g, out, x: where(x <= -3, 0.0, where(x >= 3, g, g * (x / 3 + 0.5))))


def hardswish(x: Tensor) -> Tensor:
    """x * hardsigmoid(x), of the shape of `x`."""
    return _call(hardswish_op, x)
