"""Ops on one element at a time: a scalar formula, its derivative, its ONNX name.

Gradients of complex numbers: see `complex.py`. `conj_of` leaves real numbers as they are.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

from ...arrays import devices, dtypes
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor, as_tensor
from ..declare import alias, cast, in_float32, pointwise, prepare, result_rule
from ..transfer import transfer
from .complex import conj_of, real

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

# ---- arithmetic
add = pointwise("add", lambda k, x, y: x + y,
                lambda g, out, x, y: g, lambda g, out, x, y: g, onnx="Add")
subtract = pointwise("subtract", lambda k, x, y: x - y, lambda g, out, x, y: g,
                     lambda g, out, x, y: -g, takes="numeric", onnx="Sub")
multiply = pointwise("multiply", lambda k, x, y: x * y, lambda g, out, x, y: g * conj_of(y),
                     lambda g, out, x, y: g * conj_of(x), onnx="Mul")
divide = pointwise("divide", lambda k, x, y: x / y, lambda g, out, x, y: g / conj_of(y),
                   lambda g, out, x, y: -g * conj_of(out / y), takes="float", onnx="Div")
negative = pointwise("negative", lambda k, x: -x, lambda g, out, x: -g, takes="numeric", onnx="Neg")
abs = pointwise("abs", lambda k, x: k.abs(x), lambda g, out, x: g * _sign_of(x), takes="numeric",
                gives="real", onnx="Abs")


def _sign_of(x: Tensor) -> Tensor:
    """The sign of a real number is constant; that of a complex one turns with it."""
    return sign(x if x._data.dtype.kind == "c" else x.detach())


def _sign_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """Of z / |z|, the part of g across z, made smaller by |z|; 0 at 0 and for real numbers."""
    if x.dtype.kind != "c":
        return g * 0.0
    size = abs(x)
    across = g - out * real(conj_of(g) * out)
    return where(equal(size, 0), 0.0, across / where(equal(size, 0), 1.0, size))


sign = pointwise("sign", lambda k, x: k.sign(x), _sign_vjp, takes="numeric", onnx="Sign")


def positive(x: Tensor, /) -> Tensor:
    """The numbers `x` as they are."""
    return alias(*prepare("positive", (x,), "numeric"))


def _floor_divide(k: Any, x: Any, y: Any) -> Any:
    """The quotient, rounded down. With infinity it is that of the signs, where fmod gives nan."""
    tensors = [v for v in (x, y) if hasattr(v, "dtype")]
    if dtypes.kind(tensors[0].dtype) != "f":
        return k.floor_divide(x, y)
    endless = k.isinf(tensors[0])
    if len(tensors) == 2:
        endless = endless | k.isinf(y)
    elif math.isinf(x if tensors[0] is y else y):
        return x / y
    return k.where(endless, x / y, k.floor_divide(x, y))


_ROUNDS_QUOTIENTS = "CuPy takes the floor of a rounded quotient"
floor_divide = pointwise("floor_divide", _floor_divide,
                         lambda g, out, x, y: g * 0.0, lambda g, out, x, y: g * 0.0,
                         takes="real numeric", cupy=_ROUNDS_QUOTIENTS)
remainder = pointwise("remainder", lambda k, x, y: k.remainder(x, y), lambda g, out, x, y: g,
                      lambda g, out, x, y: -g * floor_divide(x, y), takes="real numeric",
                      cupy=_ROUNDS_QUOTIENTS)


def _pow_base_vjp(g: Tensor, out: Tensor, x: Any, y: Any) -> Tensor:
    """g * y * x ** (y - 1), and 0 for y = 0, where 0 ** -1 would make it nan."""
    if not isinstance(y, Tensor):
        return g * conj_of(pow(x, y - 1) * y) if y != 0 else g * 0.0
    return g * conj_of(where(equal(y, 0), 0.0, y * pow(x, y - 1)))


def _pow_exponent_vjp(g: Tensor, out: Tensor, x: Any, y: Any) -> Tensor:
    """g * out * log(x), and 0 for x = 0 and y >= 0, where 0 ** y does not change with y."""
    if isinstance(x, Tensor):
        still = logical_and(equal(x, 0), greater_equal(_real_of(y), 0))
        return g * conj_of(where(still, 0.0, out * log(where(still, 1.0, x))))
    if x == 0:
        return g * conj_of(where(greater_equal(_real_of(y), 0), 0.0, out * -math.inf))
    if y.dtype.kind == "c":
        return g * conj_of(out * cmath.log(x))
    return g * (out * (math.log(x) if x > 0 else math.nan))


def _real_of(x: Tensor) -> Tensor:
    return real(x) if x.dtype.kind == "c" else x


def _pow(k: Any, x: Any, y: Any) -> Any:
    """x ** y; a whole number to a negative power is 0, but for 1 and -1."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    if dtype.kind != "i":
        return k.pow(x, y)
    if isinstance(x, int):  # of numbers alone a choice would have no dtype
        inverse = 1 - 2 * (y & 1) if x == -1 else int(x == 1)
        return k.where(y < 0, inverse, k.pow(x, k.maximum(y, 0)))
    unit = k.where(y % 2 == 0, x * x, x) if isinstance(y, int) else k.where(y & 1 == 0, x * x, x)
    inverse = k.where((x == 1) | (x == -1), unit, 0)
    if isinstance(y, int):
        return k.pow(x, y) if y >= 0 else inverse
    return k.where(y < 0, inverse, k.pow(x, k.maximum(y, 0)))


pow = pointwise("pow", _pow, _pow_base_vjp, _pow_exponent_vjp,
                takes="numeric", onnx="Pow")
square = pointwise("square", lambda k, x: x * x, lambda g, out, x: g * conj_of(x * 2),
                   takes="numeric")
reciprocal = pointwise("reciprocal", lambda k, x: 1 / x, lambda g, out, x: -g * conj_of(out * out),
                       takes="float", onnx="Reciprocal")
maximum = pointwise("maximum", lambda k, x, y: k.maximum(x, y),
                    lambda g, out, x, y: _share(g, x, y), lambda g, out, x, y: _share(g, y, x),
                    takes="real", onnx="Max")
minimum = pointwise("minimum", lambda k, x, y: k.minimum(x, y),
                    lambda g, out, x, y: _share(g, y, x), lambda g, out, x, y: _share(g, x, y),
                    takes="real", onnx="Min")


def _share(g: Tensor, x: Any, y: Any) -> Tensor:
    """The part of `g` that goes to x where the larger of x and y counts: ties are halved.

    Where one of them is nan both have all of it. A number is a bound: a tensor at it has all.
    """
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return where(greater_equal(x, y), g, 0.0)
    return where(equal(x, y), g * 0.5, where(less(x, y), 0.0, g))


# ---- roots, exponentials, logarithms
sqrt = pointwise("sqrt", lambda k, x: k.sqrt(x), lambda g, out, x: g / conj_of(out * 2),
                 takes="float", onnx="Sqrt")
rsqrt = pointwise("rsqrt", in_float32(lambda k, x: 1 / k.sqrt(x)),
                  lambda g, out, x: g * conj_of(out * out * out * -0.5), takes="float")
exp = pointwise("exp", lambda k, x: k.exp(x), lambda g, out, x: g * conj_of(out), takes="float",
                onnx="Exp")
exp2 = pointwise("exp2", lambda k, x: k.exp2(x),
                 lambda g, out, x: g * conj_of(out * math.log(2.0)), takes="float")
expm1 = pointwise("expm1", lambda k, x: k.expm1(x), lambda g, out, x: g * conj_of(out + 1),
                  takes="float")
log = pointwise("log", lambda k, x: k.log(x), lambda g, out, x: g / conj_of(x), takes="float",
                onnx="Log")
log1p = pointwise("log1p", lambda k, x: k.log1p(x), lambda g, out, x: g / conj_of(x + 1),
                  takes="float")
log2 = pointwise("log2", lambda k, x: k.log2(x),
                 lambda g, out, x: g / conj_of(x * math.log(2.0)), takes="float")
log10 = pointwise("log10", lambda k, x: k.log10(x),
                  lambda g, out, x: g / conj_of(x * math.log(10.0)), takes="float")
hypot = pointwise("hypot", lambda k, x, y: k.hypot(x, y), lambda g, out, x, y: g * (x / out),
                  lambda g, out, x, y: g * (y / out), takes="real float")


def _logaddexp(k: Any, x: Any, y: Any) -> Any:
    """The larger, and what the smaller adds to it; equal ones, endless among them, double."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    if dtypes.is_small(dtype):  # rounded once, as by NumPy
        wide = [k.cast(v, dtypes.float32) for v in (x, y)]
        return k.cast(_logaddexp(k, *wide), dtype)
    apart = k.maximum(x, y) + k.log1p(k.exp(-k.abs(x - y)))
    return k.where(x == y, x + math.log(2.0), apart)


logaddexp = pointwise("logaddexp", _logaddexp, lambda g, out, x, y: g * _share_of_sum(x, y),
                      lambda g, out, x, y: g * _share_of_sum(y, x), takes="real float",
                      impl=lambda k, x, y: k.logaddexp(x, y))


def _share_of_sum(x: Any, y: Any) -> Tensor:
    """exp(x) / (exp(x) + exp(y))."""
    return where(equal(x, y), 0.5, sigmoid(x - y))


# ---- trigonometry
sin = pointwise("sin", lambda k, x: k.sin(x),
                lambda g, out, x: g * conj_of(cos(x)),  # type: ignore[has-type]
                takes="float", onnx="Sin")
cos = pointwise("cos", lambda k, x: k.cos(x), lambda g, out, x: -g * conj_of(sin(x)),
                takes="float", onnx="Cos")
tan = pointwise("tan", lambda k, x: k.tan(x), lambda g, out, x: g * conj_of(out * out + 1),
                takes="float", onnx="Tan")
asin = pointwise("asin", lambda k, x: k.asin(x), lambda g, out, x: g * conj_of(rsqrt(1 - x * x)),
                 takes="float", onnx="Asin")
acos = pointwise("acos", lambda k, x: k.acos(x), lambda g, out, x: -g * conj_of(rsqrt(1 - x * x)),
                 takes="float", onnx="Acos")
atan = pointwise("atan", lambda k, x: k.atan(x), lambda g, out, x: g / conj_of(x * x + 1),
                 takes="float", onnx="Atan")
atan2 = pointwise("atan2", lambda k, x, y: k.atan2(x, y),
                  lambda g, out, x, y: g * _over_square(y, x, y),
                  lambda g, out, x, y: -g * _over_square(x, x, y), takes="real float")


def _over_square(part: Any, x: Any, y: Any) -> Tensor:
    """`part` / (x² + y²); 0 at the origin, where no direction is the steepest."""
    square = x * x + y * y
    origin = equal(square, 0)
    return where(origin, 0.0, part / where(origin, 1.0, square))


sinh = pointwise("sinh", lambda k, x: k.sinh(x),
                 lambda g, out, x: g * conj_of(cosh(x)),  # type: ignore[has-type]
                 takes="float", onnx="Sinh")
cosh = pointwise("cosh", lambda k, x: k.cosh(x), lambda g, out, x: g * conj_of(sinh(x)),
                 takes="float", onnx="Cosh")
tanh = pointwise("tanh", lambda k, x: k.tanh(x), lambda g, out, x: g * conj_of(1 - out * out),
                 takes="float", onnx="Tanh")
asinh = pointwise("asinh", lambda k, x: k.asinh(x),
                  lambda g, out, x: g * conj_of(rsqrt(x * x + 1)), takes="float", onnx="Asinh")
# Two roots: the root of the product has another sign in the left half of the complex plane.
acosh = pointwise("acosh", lambda k, x: k.acosh(x),
                  lambda g, out, x: g * conj_of(rsqrt(x - 1) * rsqrt(x + 1)), takes="float",
                  onnx="Acosh")
atanh = pointwise("atanh", lambda k, x: k.atanh(x), lambda g, out, x: g / conj_of(1 - x * x),
                  takes="float", onnx="Atanh")
erf = pointwise("erf", lambda k, x: k.erf(x),
                lambda g, out, x: g * (exp(-x * x) * (2 / math.sqrt(math.pi))), takes="real float",
                onnx="Erf", passes=16)

# ---- rounding and parts: constant between jumps

floor = pointwise("floor", lambda k, x: k.floor(x), lambda g, out, x: g * 0.0, takes="real float",
                  keeps="iu", onnx="Floor")
ceil = pointwise("ceil", lambda k, x: k.ceil(x), lambda g, out, x: g * 0.0, takes="real float",
                 keeps="iu", onnx="Ceil")
trunc = pointwise("trunc", lambda k, x: k.trunc(x), lambda g, out, x: g * 0.0, takes="real float",
                  keeps="iu")
round = pointwise("round", lambda k, x: k.round(x), lambda g, out, x: g * 0.0, takes="float",
                  keeps="iu", onnx="Round")
copysign = pointwise("copysign", lambda k, x, y: k.copysign(x, y),
                     lambda g, out, x, y: _copysign_vjp(g, out, x),
                     lambda g, out, x, y: g * 0.0, takes="real float")


def _copysign_vjp(g: Tensor, out: Tensor, x: Any) -> Tensor:
    """0 at 0, as for `abs`."""
    return where(equal(x, 0), 0.0, where(equal(out, x), g, -g))


nextafter = pointwise("nextafter", lambda k, x, y: k.nextafter(x, y), lambda g, out, x, y: g,
                      lambda g, out, x, y: g * 0.0, takes="real float",
                      no_onnx="ONNX cannot see the bits of a number")

# ---- comparisons and logic
equal = pointwise("equal", lambda k, x, y: x == y, gives="bool", onnx="Equal",
                  tests_equality=True)
not_equal = pointwise("not_equal", lambda k, x, y: x != y, gives="bool", tests_equality=True)
less = pointwise("less", lambda k, x, y: x < y, takes="real", gives="bool", onnx="Less")
less_equal = pointwise("less_equal", lambda k, x, y: x <= y, takes="real", gives="bool",
                       onnx="LessOrEqual")
greater = pointwise("greater", lambda k, x, y: x > y, takes="real", gives="bool", onnx="Greater")
greater_equal = pointwise("greater_equal", lambda k, x, y: x >= y, takes="real", gives="bool",
                          onnx="GreaterOrEqual")
isnan = pointwise("isnan", lambda k, x: k.isnan(x), takes="float", gives="bool", onnx="IsNaN")
isinf = pointwise("isinf", lambda k, x: k.isinf(x), takes="float", gives="bool", onnx="IsInf")
isfinite = pointwise("isfinite", lambda k, x: k.isfinite(x), takes="float", gives="bool")
signbit = pointwise("signbit", lambda k, x: k.signbit(x), takes="real float", gives="bool")
logical_and = pointwise("logical_and", lambda k, x, y: x & y, takes="bool", onnx="And")
logical_or = pointwise("logical_or", lambda k, x, y: x | y, takes="bool", onnx="Or")
logical_xor = pointwise("logical_xor", lambda k, x, y: x ^ y, takes="bool", onnx="Xor")
logical_not = pointwise("logical_not", lambda k, x: ~x, takes="bool", onnx="Not")
bitwise_and = pointwise("bitwise_and", lambda k, x, y: x & y, takes="bits")
bitwise_or = pointwise("bitwise_or", lambda k, x, y: x | y, takes="bits")
bitwise_xor = pointwise("bitwise_xor", lambda k, x, y: x ^ y, takes="bits")
bitwise_invert = pointwise("bitwise_invert", lambda k, x: ~x, takes="bits")
_WRAPS = "on a GPU a shift by all bits or more is undefined"
bitwise_left_shift = pointwise("bitwise_left_shift", lambda k, x, y: x << y, takes="whole",
                               cupy=_WRAPS)
bitwise_right_shift = pointwise("bitwise_right_shift", lambda k, x, y: x >> y, takes="whole",
                                cupy=_WRAPS)

# ---- activations
relu = pointwise("relu", lambda k, x: k.maximum(x, 0), lambda g, out, x: where(out <= 0, 0.0, g),
                 takes="real numeric", onnx="Relu")
sigmoid = pointwise("sigmoid", in_float32(lambda k, x: 1 / (1 + k.exp(-x))),
                    lambda g, out, x: g * conj_of(out * (1 - out)), takes="float", onnx="Sigmoid")

# ---- choice
def _where(k: Any, c: Any, x: Any, y: Any) -> Any:
    if type(x) is int or type(y) is int:  # one beyond the dtype is an error, NumPy wraps it around
        x, y = _fitting(x, y), _fitting(y, x)
    return k.where(c, x, y)


def _fitting(x: Any, beside: Any) -> Any:
    kind = beside.dtype.kind if hasattr(beside, "dtype") else ""
    return beside.dtype.type(x) if type(x) is int and kind in ("i", "u") else x


where_op = define(Op(
    "where", "pointwise", result_rule("where", "same"), _where,
    lambda k, c, x, y: k.where(c, x, y),
    each(None, lambda g, out, c, x, y: where(c, g, 0.0), lambda g, out, c, x, y: where(c, 0.0, g)),
    "Where"))


def where(condition: Any, x: Any, y: Any, /) -> Tensor:
    """Elements of `x` where `condition` holds, else of `y`; shapes broadcast.

    >>> import fusewire as fw
    >>> fw.where(fw.tensor([True, False]), fw.tensor([1.0, 2.0]), 0)
    tensor([1., 0.])
    """
    usual = type(x) is float and isinstance(condition, Tensor) and isinstance(y, Tensor) \
        and condition.dtype is dtypes.bool and y.dtype is dtypes.float32  # as in ways back
    if not usual:
        (condition,) = prepare("where", (condition,), "bool")
        x, y = prepare("where", (x, y), "any")
    return apply(where_op, (condition, x, y))


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype, as a tensor of its own; a float drops its fraction as an integer.

    With copy=False `x` itself where it has that dtype. A complex number becomes real by its real
    part.

    >>> import fusewire as fw
    >>> fw.tensor([-1.5, 2.5]).astype(fw.int64)
    tensor([-1,  2])
    """
    x, wanted = as_tensor("astype", x), dtypes.as_dtype(dtype)
    if device is not None and devices.placed(device) != x.device:
        if x.is_cuda:
            return cast(transfer(x, devices.placed(device)), wanted)
        return transfer(cast(x, wanted), devices.placed(device))
    if x.dtype == wanted:
        return alias(x) if copy else x
    return cast(x, wanted)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` limited to between `min` and `max`; None leaves a side open.

    >>> import fusewire as fw
    >>> fw.tensor([-1.0, 0.5, 2.0]).clip(0, 1)
    tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        return alias(as_tensor("clip", x))
    out = x if min is None else _bound(maximum, greater_equal, x, min)
    return out if max is None else _bound(minimum, less_equal, out, max)


def _bound(extreme: Any, inside: Any, x: Any, bound: Any) -> Tensor:
    """The extreme of both, with all of the gradient for `x` where it is at the bound."""
    out: Tensor = extreme(x, bound)
    if isinstance(bound, Tensor) or out.dtype == dtypes.bfloat16:  # which makes numbers tensors
        return where(inside(x, bound), x, out)
    return out
