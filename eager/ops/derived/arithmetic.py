"""Computes pointwise functions made of others: remainders, steps, scales, and parts of floats."""

from __future__ import annotations

import builtins
import math
from typing import Any, NamedTuple

import numpy as np

from ...arguments import check_number, check_whole
from ...arrays import dtypes
from ...arrays.shapes import broadcast
from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError
from ..batching import leading
from ..declare import operand, prepare, result_rule
from ..elementwise import pointwise
from ..elementwise.clip import clip
from ..elementwise.pointwise import (
    abs,
    cast,
    divide,
    equal,
    exp2,
    floor,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    log1p,
    log2,
    logical_and,
    maximum,
    minimum,
    multiply,
    not_equal,
    pow,
    remainder,
    signbit,
    trunc,
    where,
)
from ..shape.view import expand_to
from .comparison import operands

__all__ = [
    "deg2rad", "float_power", "fmax", "fmin", "fmod", "frac", "frexp", "gcd", "heaviside", "lcm",
    "ldexp", "lerp", "logaddexp2", "round",
]

_LOG2_E = math.log2(math.e)


# ---- remainders and fractions
def round(x: Any, decimals: int = 0) -> Tensor:
    """The nearest numbers with so many decimals; of two that are as near, the one with an even end.

    Args:
        decimals: the number of decimals. Default 0; -2 rounds to hundreds.

    Example:
        >>> import fusewire as fw
        >>> fw.round(fw.tensor([0.5, 1.5, -1.7]))
        tensor([ 0.,  2., -2.])
        >>> fw.round(fw.tensor([1.25, 1.66]), 1)
        tensor([1.2, 1.7])
    """
    places = check_whole("round", "decimals", decimals)
    if not places:
        return pointwise.round(x)
    x, factor = as_tensor("round", x), 10.0 ** abs(places)
    if places > 0:
        return cast(divide(pointwise.round(multiply(x, factor)), factor), x.dtype)
    return cast(multiply(pointwise.round(divide(x, factor)), factor), x.dtype)


def fmod(x: Any, y: Any) -> Tensor:
    """The remainders x - trunc(x / y) * y, with the sign of x; `remainder` has that of y.

    Args:
        x, y: real tensors or numbers; shapes broadcast.

    Raises:
        DTypeError: the operands are complex or bool.

    Example:
        >>> import fusewire as fw
        >>> fw.fmod(fw.tensor([7.0, -7.0]), 3)
        tensor([ 1., -1.])
    """
    x, y = operands("fmod", x, y, "real numeric")
    if dtypes.is_float(x.dtype):
        below = signbit(x)
        rest = remainder(where(below, -x, x), where(signbit(y), -y, y))
        return where(below, -rest, rest)
    rest = remainder(x, y)
    other_side = logical_and(not_equal(rest, 0), not_equal(less(x, 0), less(y, 0)))
    return where(other_side, rest - y, rest)


def frac(x: Tensor) -> Tensor:
    """The fractions x - trunc(x), with the sign of x.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.frac(fw.tensor([1.5, -2.25]))
        tensor([ 0.5 , -0.25])
    """
    (x,) = prepare("frac", (x,), "real float")
    return x - trunc(x)


_STEPS = "Euclid's algorithm takes a number of steps that depends on the values"


def _of_integers(name: str, ufunc: Any) -> Op:
    return define(Op(
        name, "opaque", result_rule(name, "same"), lambda xp, x, y: ufunc(x, y), None, None, "",
        {"meaning": _STEPS, "vjp": "its result holds integers", "onnx": _STEPS}, batch=leading))


gcd_op, lcm_op = _of_integers("gcd", np.gcd), _of_integers("lcm", np.lcm)


def gcd(x: Any, y: Any) -> Tensor:
    """The greatest common divisors of integers, 0 or more; shapes broadcast.

    Raises:
        DTypeError: an operand does not hold integers.

    Example:
        >>> import fusewire as fw
        >>> fw.gcd(fw.tensor([12, 0]), fw.tensor([18, 5]))
        tensor([6, 5])
    """
    return _whole("gcd", gcd_op, x, y)


def lcm(x: Any, y: Any) -> Tensor:
    """The least common multiples of integers, 0 or more; shapes broadcast.

    Raises:
        DTypeError: an operand does not hold integers.

    Example:
        >>> import fusewire as fw
        >>> fw.lcm(fw.tensor([4, 0]), 6)
        tensor([12,  0])
    """
    return _whole("lcm", lcm_op, x, y)


def _whole(name: str, op: Op, x: Any, y: Any) -> Tensor:
    x, y = operands(name, x, y, "whole")
    shape = broadcast(name, x.shape, y.shape)
    return apply(op, (expand_to(x, shape), expand_to(y, shape)))


# ---- extremes, steps and interpolation
def fmax(x: Any, y: Any) -> Tensor:
    """The larger of x and y; a number, if the other one is nan. `maximum` gives nan.

    Raises:
        DTypeError: the operands are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.fmax(fw.tensor([1.0, fw.nan]), 0.5)
        tensor([1. , 0.5])
    """
    return maximum(*_without_nan("fmax", x, y))


def fmin(x: Any, y: Any) -> Tensor:
    """The smaller of x and y; a number, if the other one is nan. `minimum` gives nan.

    Raises:
        DTypeError: the operands are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.fmin(fw.tensor([1.0, fw.nan]), 0.5)
        tensor([0.5, 0.5])
    """
    return minimum(*_without_nan("fmin", x, y))


def _without_nan(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """`x` and `y`, each nan of one replaced by the element of the other."""
    x, y = operands(name, x, y, "real")
    if not dtypes.is_float(x.dtype):
        return x, y
    return where(isnan(x), y, x), where(isnan(y), x, y)


def heaviside(x: Any, values: Any) -> Tensor:
    """0 where x < 0, 1 where x > 0, and `values` where x is 0; nan where x is nan.

    Args:
        x, values: real tensors or numbers; shapes broadcast.

    Raises:
        DTypeError: the operands are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.heaviside(fw.tensor([-2.0, 0.0, 3.0]), 0.5)
        tensor([0. , 0.5, 1. ])
    """
    x, values = operands("heaviside", x, values, "real")
    step = where(equal(x, 0), values, cast(greater(x, 0), x.dtype))
    return where(isnan(x), x, step) if dtypes.is_float(x.dtype) else step


def lerp(x: Tensor, y: Any, weight: Any) -> Tensor:
    """x + weight * (y - x): `x` where the weight is 0 and `y` where it is 1, exactly.

    Args:
        x, y: tensors; shapes broadcast.
        weight: a number, or a tensor that broadcasts with them.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.lerp(fw.tensor([0.0, 10.0]), fw.tensor([4.0, 20.0]), 0.25)
        tensor([ 1. , 12.5])
    """
    if not isinstance(weight, Tensor):
        check_number("lerp", "weight", weight, real=False)
    x = as_tensor("lerp", x)
    broadcast("lerp", *[v.shape for v in (x, y, weight) if isinstance(v, Tensor)])
    step = y - x
    if not isinstance(weight, Tensor) and not hasattr(weight, "dtype"):
        near = x + step * weight
        return near if builtins.abs(weight) < 0.5 else as_tensor("lerp", y) - step * (1 - weight)
    weight = as_tensor("lerp", weight)
    return where(less(abs(weight), 0.5), x + step * weight, y - step * (1 - weight))


# ---- scales
def deg2rad(x: Tensor) -> Tensor:
    """Angles in radians, from degrees.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.deg2rad(fw.tensor([0.0, 180.0]))
        tensor([0.       , 3.1415927])
    """
    return multiply(*prepare("deg2rad", (x,), "real float"), math.pi / 180)


def float_power(x: Any, y: Any) -> Tensor:
    """x ** y in float64, or in complex128 if an operand is complex.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.float_power(fw.tensor([2, 4]), -1)
        tensor([0.5 , 0.25], dtype=float64)
    """
    x, y = operands("float_power", x, y, "any")
    dtype = dtypes.complex128 if dtypes.kind(x.dtype) == "c" else dtypes.float64
    return pow(cast(x, dtype), cast(y, dtype))


def logaddexp2(x: Any, y: Any) -> Tensor:
    """log2(2 ** x + 2 ** y), which does not overflow; shapes broadcast.

    Raises:
        DTypeError: the operands are complex.

    Example:
        >>> import fusewire as fw
        >>> fw.logaddexp2(fw.tensor([1.0, 200.0]), fw.tensor([1.0, 200.0]))
        tensor([  2., 201.])
    """
    x, y = operands("logaddexp2", x, y, "real float")
    distance = abs(where(equal(x, y), 0.0, x - y))  # of equal infinities, too
    return maximum(x, y) + log1p(exp2(-distance)) * _LOG2_E


# ---- mantissas and exponents
class Frexp(NamedTuple):
    """The result of `frexp`: x is mantissa * 2 ** exponent."""

    mantissa: Tensor
    exponent: Tensor


_SUBNORMAL_BITS = 64  # a scale that makes each subnormal float64 a normal one
_NORMAL = 2.0 ** -1022  # the least normal float64


def frexp(x: Tensor) -> Frexp:
    """The numbers as mantissa * 2 ** exponent, with mantissas from 0.5 to below 1 in size.

    0, nan and infinities are their own mantissa with the exponent 0. Exponents are int32.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.frexp(fw.tensor([1.0, -6.0, 0.0]))
        Frexp(mantissa=tensor([ 0.5 , -0.75,  0.  ]), exponent=tensor([1, 3, 0], dtype=int32))
    """
    (x,) = prepare("frexp", (x,), "real float")
    size = abs(cast(x.detach(), dtypes.float64))
    small = less(size, _NORMAL)
    size = where(small, size * 2.0 ** _SUBNORMAL_BITS, size)
    usual = logical_and(isfinite(size), greater(size, 0))
    size = where(usual, size, 1.0)
    exponent = floor(log2(size)) + 1.0  # rounded: off by one beside a power of 2
    mantissa = _scaled(size, cast(-exponent, dtypes.int64))
    exponent = where(greater_equal(mantissa, 1), exponent + 1.0,
                     where(less(mantissa, 0.5), exponent - 1.0, exponent))
    exponent = where(small, exponent - _SUBNORMAL_BITS, exponent)
    exponent = where(usual, exponent, 0.0)
    return Frexp(ldexp(x, cast(-exponent, dtypes.int32)), cast(exponent, dtypes.int32))


def ldexp(x: Any, exponent: Any) -> Tensor:
    """x * 2 ** exponent, rounded once; shapes broadcast.

    Args:
        x: floats; integers become float32.
        exponent: integers.

    Raises:
        DTypeError: `x` is complex, or `exponent` does not hold integers.

    Example:
        >>> import fusewire as fw
        >>> fw.ldexp(fw.tensor([0.5, -0.75]), fw.tensor([1, 3]))
        tensor([ 1., -6.])
    """
    (x,) = prepare("ldexp", (x,), "real float")
    (exponent,) = prepare("ldexp", (operand("ldexp", exponent),), "any")
    if dtypes.kind(exponent.dtype) not in "iu":
        raise DTypeError(f"ldexp: exponents are integers, not {exponent.dtype.name}",
                         "write x * fw.exp2(y) for others")
    return cast(_scaled(cast(x, dtypes.float64), cast(exponent, dtypes.int64)), x.dtype)


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """x * 2 ** exponent in float64 by exact factors, of which one at most rounds the product.

    A first factor stays 53 bits above the least normal number, so that a product which it rounds
    is rounded to 0 by the next one.
    """
    rest = clip(exponent, -3 * 1022, 3 * 1023)
    for _ in range(2):
        step = where(less(rest, -1022), -1022 + 53, minimum(rest, 1023))
        x, rest = x * _power_of_2(step), rest - step
    return x * _power_of_2(clip(rest, -1022, 1023))


def _power_of_2(exponent: Tensor) -> Tensor:
    return exp2(cast(exponent, dtypes.float64))
