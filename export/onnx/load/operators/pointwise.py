"""Defines pointwise operators, activations and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import tensor
from .....eager.nn import functional as F
from .....eager.ops.create import full
from .....eager.ops.elementwise import pointwise as p
from .....eager.ops.elementwise.clip import clip
from .....eager.ops.shape.view import reshape
from ..runtime.casting import cast_to, dtype_name
from ..runtime.table import Number, Tensor, operator
from ..runtime.values import is_texts, tensor_of

__all__: list[str] = []

# ---- functions of one argument with an equivalent in fusewire
_SAME: dict[str, Callable[[Any], Tensor]] = {
    "Abs": p.abs, "Acos": p.acos, "Acosh": p.acosh, "Asin": p.asin, "Asinh": p.asinh,
    "Atan": p.atan, "Atanh": p.atanh, "Ceil": p.ceil, "Cos": p.cos, "Cosh": p.cosh, "Exp": p.exp,
    "Floor": p.floor, "Log": p.log, "Neg": p.negative, "Reciprocal": p.reciprocal,
    "Round": p.round, "Sigmoid": p.sigmoid, "Sign": p.sign, "Sin": p.sin, "Sinh": p.sinh,
    "Sqrt": p.sqrt, "Tan": p.tan, "Tanh": p.tanh, "IsNaN": p.isnan, "Not": p.logical_not,
    "BitwiseNot": p.bitwise_invert, "Erf": p.erf, "Relu": F.relu, "Softsign": F.softsign,
    "Mish": F.mish, "HardSwish": F.hardswish,
}


def _of_one(function: Callable[[Any], Tensor]) -> Callable[[Tensor], Tensor]:
    def computed(x: Tensor) -> Tensor:
        return function(x)

    return computed


_IN_NN = ("Softsign", "Mish", "HardSwish")  # in fw.nn.functional
for _name, _function in _SAME.items():
    _namespace = "fw.nn.functional" if _name in _IN_NN else "fw"
    operator(_name, text=f"{_namespace}.{_function.__name__}({{0}})")(_of_one(_function))


# ---- functions of two arguments
def _divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b; integers are rounded towards zero."""
    if dtypes.kind(a.dtype) == "f":
        return p.divide(a, b)
    if dtypes.kind(a.dtype) == "u":
        return p.floor_divide(a, b)
    quotient = p.floor_divide(p.abs(a), p.abs(b))
    return p.where(p.not_equal(p.less(a, 0), p.less(b, 0)), p.negative(quotient), quotient)


def _power(a: Tensor, b: Any) -> Tensor:
    """a ** b in the dtype of the base."""
    return p.pow(a, b).astype(a.dtype)


_OF_TWO: dict[str, Callable[[Any, Any], Tensor]] = {
    "Add": p.add, "Sub": p.subtract, "Mul": p.multiply, "Div": _divide, "Pow": _power,
    "And": p.logical_and, "Or": p.logical_or, "Xor": p.logical_xor, "Equal": p.equal,
    "Less": p.less, "Greater": p.greater, "LessOrEqual": p.less_equal,
    "GreaterOrEqual": p.greater_equal, "BitwiseAnd": p.bitwise_and, "BitwiseOr": p.bitwise_or,
    "BitwiseXor": p.bitwise_xor,
}
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Less": "<", "Greater": ">",
          "LessOrEqual": "<=", "GreaterOrEqual": ">="}
_WITH_AXIS = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater")


def _of_two(function: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def computed(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)

    return computed


def _along_axis(function: Callable[[Any, Any], Tensor]) -> Callable[..., Tensor]:
    """Broadcasting before version 7: the second argument begins at `axis` of the first."""
    def computed(a: Tensor, b: Tensor, axis: Number = None, broadcast: int = 0) -> Tensor:
        if broadcast and axis is not None:
            behind = a.ndim - axis % a.ndim - b.ndim
            b = reshape(b, (*b.shape, *[1] * behind))
        return function(a, b)

    return computed


for _name, _pair in _OF_TWO.items():
    operator(_name, since=7, text=f"{{0}} {_SIGNS[_name]} {{1}}" if _name in _SIGNS else "")(
        _of_two(_pair))
    if _name in _WITH_AXIS:
        operator(_name, since=1)(_along_axis(_pair))


@operator("Pow", since=12)
def _power_of(a: Tensor, b: Any) -> Tensor:
    """An exponent that is a Python number costs less than a tensor."""
    whole = type(b) is int and b >= 0
    return _power(a, b if whole or type(b) is float else tensor_of(b))


@operator("Equal", since=19)
def _equal(a: Any, b: Any) -> Any:
    if is_texts(a):
        return tensor(np.equal(a, b).astype(bool))
    return p.equal(tensor_of(a), tensor_of(b))


@operator("Mod")
def _mod(a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    """The remainder with the sign of the divisor, or with `fmod` that of the dividend."""
    if not fmod:
        return p.remainder(a, b)
    if dtypes.kind(a.dtype) == "u":
        return p.remainder(a, b)
    rest = p.remainder(p.abs(a), p.abs(b))
    if dtypes.kind(a.dtype) == "f":
        return p.copysign(rest, a)
    return p.where(p.less(a, 0), p.negative(rest), rest)


@operator("BitShift")
def _shift(x: Tensor, by: Tensor, direction: str) -> Tensor:
    bits = 8 * x.dtype.itemsize
    if direction == "RIGHT":
        return p.where(p.less(by, bits), p.bitwise_right_shift(x, by), p.where(
            p.less(x, 0), full((), -1, x.dtype) if x.dtype.kind == "i" else 0,
            full((), 0, x.dtype)))
    return p.where(p.less(by, bits), p.bitwise_left_shift(x, by), full((), 0, x.dtype))


def _folded(name: str, function: Callable[[Any, Any], Tensor]) -> None:
    @operator(name)
    def computed(*tensors: Tensor) -> Tensor:
        return reduce(function, tensors)


_folded("Max", p.maximum)
_folded("Min", p.minimum)
_folded("Sum", p.add)


@operator("Mean")
def _mean(*tensors: Tensor) -> Tensor:
    return reduce(p.add, tensors) / len(tensors)


# ---- activations
@operator("LeakyRelu", text="fw.nn.functional.leaky_relu({0}, {alpha})")
def _leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@operator("Elu", text="fw.nn.functional.elu({0}, {alpha})")
def _elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@operator("Celu", text="fw.nn.functional.celu({0}, {alpha})")
def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@operator("Selu")
def _selu(x: Tensor, alpha: float = 1.6732632, gamma: float = 1.0507009) -> Tensor:
    return gamma * p.where(p.greater(x, 0), x, alpha * p.expm1(p.minimum(x, 0)))


@operator("ThresholdedRelu")
def _thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return p.where(p.greater(x, alpha), x, 0.0)


@operator("HardSigmoid")
def _hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    if np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        return F.hardsigmoid(x)
    return clip(x * alpha + beta, 0, 1)


@operator("Softplus")
def _softplus(x: Tensor) -> Tensor:
    return p.logaddexp(x, 0.0)


@operator("Gelu", text="fw.nn.functional.gelu({0}, {approximate})")
def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate)


@operator("Swish")
def _swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1.0 else x * p.sigmoid(x * alpha)


@operator("Shrink")
def _shrink(x: Tensor, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    wide = x if dtypes.kind(x.dtype) == "f" else x.astype("float64")
    out = p.where(p.less(wide, -lambd), wide + bias,
                  p.where(p.greater(wide, lambd), wide - bias, 0.0))
    return out.astype(x.dtype)


@operator("PRelu", since=7)
def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    return p.where(p.less(x, 0), x * slope, x)


@operator("PRelu", since=1)
def _prelu_along_channels(x: Tensor, slope: Tensor) -> Tensor:
    if slope.ndim == 1 and x.ndim > 1:
        slope = reshape(slope, (-1, *[1] * (x.ndim - 2)))
    return _prelu(x, slope)


@operator("Clip", settings=(1, 2))
def _clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """If min > max, the result is max."""
    x = x if min is None else p.maximum(x, _limit(min))
    return x if max is None else p.minimum(x, _limit(max))


def _limit(value: Any) -> Any:
    """A Python float unchanged, as it exports as such; other values as a tensor."""
    return value if isinstance(value, float) else tensor_of(value)


@operator("IsInf")
def _is_inf(x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    out = p.isinf(x)
    if not detect_negative:
        out = p.logical_and(out, p.greater(x, 0))
    return out if detect_positive else p.logical_and(out, p.less(x, 0))


@operator("Where")
def _where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return p.where(condition, x, y)


# ---- dtypes
@operator("Cast", since=9)
def _cast(x: Any, to: str, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(x, to, bool(saturate), round_mode)


@operator("Cast", since=1)
def _cast_by_name(x: Any, to: Any) -> Any:
    return cast_to(x, _OLD_NAMES.get(to, to.lower()), True, "up")


_OLD_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "STRING": "str"}


@operator("CastLike")
def _cast_like(x: Any, like: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(x, dtype_name(like), bool(saturate), round_mode)
