"""Declares the ops on single elements (exp, log, add, ...): scalar formula, derivative, ONNX name.

`complex.py` has the convention for gradients of complex numbers.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

from ...arrays import devices, dtypes
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor, as_tensor
from ..declare import alias, explicit_cast, in_float32, pointwise, prepare, result_rule
from ..declare import cast as cast
from ..transfer import transfer
from .complex import conj_of, real
from .constant_powers import power_by_products

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "ceil", "copysign", "cos", "cosh", "divide", "equal", "erf", "exp",
    "exp2", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite",
    "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "negative", "nextafter", "not_equal", "positive", "pow", "reciprocal", "relu", "remainder",
    "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract",
    "tan", "tanh", "trunc",
]

# ---- arithmetic
add = pointwise("add", lambda k, x, y: x + y,
                lambda g, out, x, y: g, lambda g, out, x, y: g, onnx="Add",
                doc="The sums x + y; of bool, logical or.",
                example=("[1.0, 2.0]", "[0.5, 4.0]", "[1.5, 6. ]"))
subtract = pointwise("subtract", lambda k, x, y: x - y, lambda g, out, x, y: g,
                     lambda g, out, x, y: -g, takes="numeric", onnx="Sub",
                     doc="The differences x - y.", example=("[1.0, 2.0]", "0.5", "[0.5, 1.5]"))
multiply = pointwise("multiply", lambda k, x, y: x * y, lambda g, out, x, y: g * conj_of(y),
                     lambda g, out, x, y: g * conj_of(x), onnx="Mul",
                     doc="The products x * y; of bool, logical and.",
                     example=("[1.0, 2.0]", "[0.5, 4.0]", "[0.5, 8. ]"))
divide = pointwise("divide", lambda k, x, y: x / y, lambda g, out, x, y: g / conj_of(y),
                   lambda g, out, x, y: -g * conj_of(out / y), takes="float", onnx="Div",
                   doc="The quotients x / y; x / 0 is inf, -inf or nan.",
                   example=("[1.0, 3.0]", "[2.0, 0.0]", "[0.5, inf]"))
negative = pointwise("negative", lambda k, x: -x, lambda g, out, x: -g, takes="numeric", onnx="Neg",
                     doc="The numbers -x.", example=("[1.0, -2.0]", "[-1.,  2.]"))
abs = pointwise("abs", lambda k, x: k.abs(x), lambda g, out, x: g * _sign_of(x), takes="numeric",
                gives="real", onnx="Abs",
                doc="The absolute values; of complex numbers the distances from 0.",
                example=("[-1.5, 2.0]", "[1.5, 2. ]"))


def _sign_of(x: Tensor) -> Tensor:
    """The sign of x; that of a real number is constant, that of a complex one depends on x."""
    return sign(x if x._data.dtype.kind == "c" else x.detach())


def _sign_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """The part of g across z, divided by |z|, as sign is z / |z|; 0 at 0 and for real numbers."""
    if x.dtype.kind != "c":
        return g * 0.0
    size = abs(x)
    across = g - out * real(conj_of(g) * out)
    return where(equal(size, 0), 0.0, across / where(equal(size, 0), 1.0, size))


sign = pointwise("sign", lambda k, x: k.sign(x), _sign_vjp, takes="numeric", onnx="Sign",
                 doc="-1, 0 or 1 by the sign of each element; z / |z| of a complex z, and 0 of 0.",
                 example=("[-1.5, 0.0, 2.0]", "[-1.,  0.,  1.]"))


def positive(x: Tensor, /) -> Tensor:
    """`x` unchanged, as a new tensor.

    Raises:
        DTypeError: `x` is bool.

    Example:
        >>> import fusewire as fw
        >>> fw.positive(fw.tensor([-1, 2]))
        tensor([-1,  2])
    """
    return alias(*prepare("positive", (x,), "numeric"))


def _floor_divide(k: Any, x: Any, y: Any) -> Any:
    """The quotient rounded down. With infinity it is x / y, since fmod gives nan."""
    tensors = [v for v in (x, y) if hasattr(v, "dtype")]
    if dtypes.kind(tensors[0].dtype) != "f":
        return k.floor_divide(x, y)
    endless = k.isinf(tensors[0])
    if len(tensors) == 2:
        endless = endless | k.isinf(y)
    elif math.isinf(x if tensors[0] is y else y):
        return x / y
    return k.where(endless, x / y, k.floor_divide(x, y))


floor_divide = pointwise("floor_divide", _floor_divide,
                         lambda g, out, x, y: g * 0.0, lambda g, out, x, y: g * 0.0,
                         takes="real numeric",
                         doc="The quotients x / y, rounded down.",
                         example=("[7.0, -7.0]", "2", "[ 3., -4.]"))
remainder = pointwise("remainder", lambda k, x, y: k.remainder(x, y), lambda g, out, x, y: g,
                      lambda g, out, x, y: -g * floor_divide(x, y), takes="real numeric",
                      doc="The remainders x - floor(x / y) * y, with the sign of y.",
                      example=("[7.0, -7.0]", "3", "[1., 2.]"))


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
    """x ** y; an integer to a negative power is 0, except for 1 and -1."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    if (by_product := power_by_products(dtype, y)) is not None:
        return by_product(k, x)
    if dtype.kind != "i":
        return k.pow(x, y)
    if isinstance(x, int):  # `where` of numbers alone would have no dtype
        inverse = 1 - 2 * (y & 1) if x == -1 else int(x == 1)
        return k.where(y < 0, inverse, k.pow(x, k.maximum(y, 0)))
    unit = k.where(y % 2 == 0, x * x, x) if isinstance(y, int) else k.where(y & 1 == 0, x * x, x)
    inverse = k.where((x == 1) | (x == -1), unit, 0)
    if isinstance(y, int):
        return k.pow(x, y) if y >= 0 else inverse
    return k.where(y < 0, inverse, k.pow(x, k.maximum(y, 0)))


pow = pointwise("pow", _pow, _pow_base_vjp, _pow_exponent_vjp,
                takes="numeric", onnx="Pow", doc="The powers x ** y.",
                example=("[2.0, 3.0]", "[3.0, 2.0]", "[8., 9.]"))
square = pointwise("square", lambda k, x: x * x, lambda g, out, x: g * conj_of(x * 2),
                   takes="numeric", doc="The squares x * x.",
                   example=("[1.5, -2.0]", "[2.25, 4.  ]"))
reciprocal = pointwise("reciprocal", lambda k, x: 1 / x, lambda g, out, x: -g * conj_of(out * out),
                       takes="float", onnx="Reciprocal",
                       doc="The reciprocals 1 / x; inf or -inf of 0.",
                       example=("[0.5, -4.0]", "[ 2.  , -0.25]"))
maximum = pointwise("maximum", lambda k, x, y: k.maximum(x, y),
                    lambda g, out, x, y: _share(g, x, y), lambda g, out, x, y: _share(g, y, x),
                    takes="real", onnx="Max",
                    doc="The larger of x and y; nan where one of them is.",
                    example=("[1.0, 5.0]", "[3.0, 2.0]", "[3., 5.]"))
minimum = pointwise("minimum", lambda k, x, y: k.minimum(x, y),
                    lambda g, out, x, y: _share(g, y, x), lambda g, out, x, y: _share(g, x, y),
                    takes="real", onnx="Min",
                    doc="The smaller of x and y; nan where one of them is.",
                    example=("[1.0, 5.0]", "[3.0, 2.0]", "[1., 2.]"))


def _share(g: Tensor, x: Any, y: Any) -> Tensor:
    """The part of `g` that goes to x if the larger of x and y counts: ties are halved.

    If one of them is nan, both get all of it. A number is a bound: a tensor equal to it gets all.
    """
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return where(greater_equal(x, y), g, 0.0)
    return where(equal(x, y), g * 0.5, where(less(x, y), 0.0, g))


# ---- roots, exponentials, logarithms
sqrt = pointwise("sqrt", lambda k, x: k.sqrt(x), lambda g, out, x: g / conj_of(out * 2),
                 takes="float", onnx="Sqrt", doc="The square roots; nan of negative real numbers.",
                 example=("[4.0, 9.0]", "[2., 3.]"))
rsqrt = pointwise("rsqrt", in_float32(lambda k, x: 1 / k.sqrt(x)),
                  lambda g, out, x: g * conj_of(out * out * out * -0.5), takes="float",
                  doc="The reciprocals of square roots, 1 / sqrt(x).",
                  example=("[4.0, 0.25]", "[0.5, 2. ]"))
exp = pointwise("exp", lambda k, x: k.exp(x), lambda g, out, x: g * conj_of(out), takes="float",
                onnx="Exp", doc="The powers e ** x.", example=("[0.0, -fw.inf]", "[1., 0.]"))
exp2 = pointwise("exp2", lambda k, x: k.exp2(x),
                 lambda g, out, x: g * conj_of(out * math.log(2.0)), takes="float",
                 doc="The powers 2 ** x.", example=("[3.0, -1.0]", "[8. , 0.5]"))
expm1 = pointwise("expm1", lambda k, x: k.expm1(x), lambda g, out, x: g * conj_of(out + 1),
                  takes="float", doc="exp(x) - 1, accurate also for x near 0.",
                  example=("[0.0, 1e-8]", "[0.e+00, 1.e-08]"))
log = pointwise("log", lambda k, x: k.log(x), lambda g, out, x: g / conj_of(x), takes="float",
                onnx="Log", doc="The natural logarithms; -inf of 0, nan of negative real numbers.",
                example=("[1.0, 0.0]", "[  0., -inf]"))
log1p = pointwise("log1p", lambda k, x: k.log1p(x), lambda g, out, x: g / conj_of(x + 1),
                  takes="float", doc="log(1 + x), accurate also for x near 0; -inf at -1.",
                  example=("[0.0, 1e-8]", "[0.e+00, 1.e-08]"))
log2 = pointwise("log2", lambda k, x: k.log2(x),
                 lambda g, out, x: g / conj_of(x * math.log(2.0)), takes="float",
                 doc="The logarithms to base 2; -inf of 0.", example=("[8.0, 0.5]", "[ 3., -1.]"))
log10 = pointwise("log10", lambda k, x: k.log10(x),
                  lambda g, out, x: g / conj_of(x * math.log(10.0)), takes="float",
                  doc="The logarithms to base 10; -inf of 0.",
                  example=("[1.0, 0.0]", "[  0., -inf]"))
hypot = pointwise("hypot", lambda k, x, y: k.hypot(x, y), lambda g, out, x, y: g * (x / out),
                  lambda g, out, x, y: g * (y / out), takes="real float",
                  doc="sqrt(x * x + y * y), without overflow on the way.",
                  example=("[3.0, 5.0]", "[4.0, 12.0]", "[ 5., 13.]"))


def _logaddexp(k: Any, x: Any, y: Any) -> Any:
    """max(x, y) + log1p(exp(-|x - y|)); equal operands, even infinite ones, give x + log(2)."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    if dtypes.is_small(dtype):  # rounded once, as by NumPy
        wide = [k.cast(v, dtypes.float32) for v in (x, y)]
        return k.cast(_logaddexp(k, *wide), dtype)
    apart = k.maximum(x, y) + k.log1p(k.exp(-k.abs(x - y)))
    return k.where(x == y, x + math.log(2.0), apart)


logaddexp = pointwise("logaddexp", _logaddexp, lambda g, out, x, y: g * _share_of_sum(x, y),
                      lambda g, out, x, y: g * _share_of_sum(y, x), takes="real float",
                      impl=lambda k, x, y: k.logaddexp(x, y),
                      doc="log(exp(x) + exp(y)), without overflow.",
                      example=("[0.0, 100.0]", "[-fw.inf, 0.0]", "[  0., 100.]"))


def _share_of_sum(x: Any, y: Any) -> Tensor:
    """exp(x) / (exp(x) + exp(y))."""
    return where(equal(x, y), 0.5, sigmoid(x - y))


# ---- trigonometry
sin = pointwise("sin", lambda k, x: k.sin(x),
                lambda g, out, x: g * conj_of(cos(x)),  # type: ignore[has-type]
                takes="float", onnx="Sin", doc="The sines of angles in radians.",
                example=("[0.0, fw.pi / 2]", "[0., 1.]"))
cos = pointwise("cos", lambda k, x: k.cos(x), lambda g, out, x: -g * conj_of(sin(x)),
                takes="float", onnx="Cos", doc="The cosines of angles in radians.",
                example=("[0.0, fw.pi]", "[ 1., -1.]"))
tan = pointwise("tan", lambda k, x: k.tan(x), lambda g, out, x: g * conj_of(out * out + 1),
                takes="float", onnx="Tan", doc="The tangents of angles in radians.",
                example=("[0.0]", "[0.]"))
asin = pointwise("asin", lambda k, x: k.asin(x), lambda g, out, x: g * conj_of(rsqrt(1 - x * x)),
                 takes="float", onnx="Asin",
                 doc="The angles from -pi/2 to pi/2 whose sines are x; nan beyond -1 and 1.",
                 example=("[0.0, 1.0]", "[0.       , 1.5707964]"))
acos = pointwise("acos", lambda k, x: k.acos(x), lambda g, out, x: -g * conj_of(rsqrt(1 - x * x)),
                 takes="float", onnx="Acos",
                 doc="The angles from 0 to pi whose cosines are x; nan beyond -1 and 1.",
                 example=("[1.0, -1.0]", "[0.       , 3.1415927]"))
atan = pointwise("atan", lambda k, x: k.atan(x), lambda g, out, x: g / conj_of(x * x + 1),
                 takes="float", onnx="Atan",
                 doc="The angles from -pi/2 to pi/2 whose tangents are x.",
                 example=("[0.0, fw.inf]", "[0.       , 1.5707964]"))
atan2 = pointwise("atan2", lambda k, x, y: k.atan2(x, y),
                  lambda g, out, x, y: g * _over_square(y, x, y),
                  lambda g, out, x, y: -g * _over_square(x, x, y), takes="real float",
                  doc="The angles from -pi to pi of the points with ordinates x and abscissas y.",
                  example=("[0.0, 1.0]", "[1.0, 0.0]", "[0.       , 1.5707964]"))


def _over_square(part: Any, x: Any, y: Any) -> Tensor:
    """`part` / (x² + y²); 0 at the origin, where no direction is the steepest."""
    square = x * x + y * y
    origin = equal(square, 0)
    return where(origin, 0.0, part / where(origin, 1.0, square))


sinh = pointwise("sinh", lambda k, x: k.sinh(x),
                 lambda g, out, x: g * conj_of(cosh(x)),  # type: ignore[has-type]
                 takes="float", onnx="Sinh", doc="The hyperbolic sines.",
                 example=("[0.0, fw.inf]", "[ 0., inf]"))
cosh = pointwise("cosh", lambda k, x: k.cosh(x), lambda g, out, x: g * conj_of(sinh(x)),
                 takes="float", onnx="Cosh", doc="The hyperbolic cosines.",
                 example=("[0.0, fw.inf]", "[ 1., inf]"))
tanh = pointwise("tanh", lambda k, x: k.tanh(x), lambda g, out, x: g * conj_of(1 - out * out),
                 takes="float", onnx="Tanh", doc="The hyperbolic tangents, between -1 and 1.",
                 example=("[0.0, fw.inf]", "[0., 1.]"))
asinh = pointwise("asinh", lambda k, x: k.asinh(x),
                  lambda g, out, x: g * conj_of(rsqrt(x * x + 1)), takes="float", onnx="Asinh",
                  doc="The inverse hyperbolic sines.", example=("[0.0, fw.inf]", "[ 0., inf]"))
# Two roots, since the root of the product has another sign in the left half of the complex plane.
acosh = pointwise("acosh", lambda k, x: k.acosh(x),
                  lambda g, out, x: g * conj_of(rsqrt(x - 1) * rsqrt(x + 1)), takes="float",
                  onnx="Acosh", doc="The inverse hyperbolic cosines; nan of real numbers below 1.",
                  example=("[1.0, 0.0]", "[ 0., nan]"))
atanh = pointwise("atanh", lambda k, x: k.atanh(x), lambda g, out, x: g / conj_of(1 - x * x),
                  takes="float", onnx="Atanh",
                  doc="The inverse hyperbolic tangents; inf at 1, nan of real numbers beyond.",
                  example=("[0.0, 1.0]", "[ 0., inf]"))
erf = pointwise("erf", lambda k, x: k.erf(x),
                lambda g, out, x: g * (exp(-x * x) * (2 / math.sqrt(math.pi))), takes="real float",
                onnx="Erf", passes=16,
                doc="The error function: 2 / sqrt(pi) times the integral of exp(-t * t), 0 to x.",
                example=("[0.0, fw.inf]", "[0., 1.]"))

# ---- rounding and parts: constant between jumps
floor = pointwise("floor", lambda k, x: k.floor(x), lambda g, out, x: g * 0.0, takes="real float",
                  keeps="iu", onnx="Floor", doc="The largest whole numbers that are not above x.",
                  example=("[1.5, -1.5]", "[ 1., -2.]"))
ceil = pointwise("ceil", lambda k, x: k.ceil(x), lambda g, out, x: g * 0.0, takes="real float",
                 keeps="iu", onnx="Ceil", doc="The smallest whole numbers that are not below x.",
                 example=("[1.5, -1.5]", "[ 2., -1.]"))
trunc = pointwise("trunc", lambda k, x: k.trunc(x), lambda g, out, x: g * 0.0, takes="real float",
                  keeps="iu", doc="The whole numbers without the fractions: x rounded towards 0.",
                  example=("[1.5, -1.5]", "[ 1., -1.]"))
round = pointwise("round", lambda k, x: k.round(x), lambda g, out, x: g * 0.0, takes="float",
                  keeps="iu", onnx="Round",
                  doc="The nearest whole numbers; of two that are as near, the even one.",
                  example=("[0.5, 1.5, -1.7]", "[ 0.,  2., -2.]"))
copysign = pointwise("copysign", lambda k, x, y: k.copysign(x, y),
                     lambda g, out, x, y: _copysign_vjp(g, out, x),
                     lambda g, out, x, y: g * 0.0, takes="real float",
                     doc="Numbers with the size of x and the sign of y.",
                     example=("[1.0, -2.0]", "[-0.0, 3.0]", "[-1.,  2.]"))


def _copysign_vjp(g: Tensor, out: Tensor, x: Any) -> Tensor:
    """The gradient with the sign of the result's change; 0 at 0, as for `abs`."""
    return where(equal(x, 0), 0.0, where(equal(out, x), g, -g))


nextafter = pointwise("nextafter", lambda k, x, y: k.nextafter(x, y), lambda g, out, x, y: g,
                      lambda g, out, x, y: g * 0.0, takes="real float",
                      no_onnx="ONNX cannot see the bits of a number",
                      doc="The next number of the dtype after x in the direction of y.",
                      example=("[0.0]", "[1.0]", "[1.e-45]"))

# ---- comparisons and logic
equal = pointwise("equal", lambda k, x, y: x == y, gives="bool", onnx="Equal",
                  tests_equality=True, stored=True,
                  doc="True where x and y are equal; nan equals nothing.",
                  example=("[1.0, fw.nan]", "[1.0, fw.nan]", "[ True, False]"))
not_equal = pointwise("not_equal", lambda k, x, y: x != y, gives="bool", tests_equality=True,
                      stored=True, doc="True where x and y differ; nan differs from itself.",
                      example=("[1.0, fw.nan]", "[1.0, fw.nan]", "[False,  True]"))
less = pointwise("less", lambda k, x, y: x < y, takes="real", gives="bool", onnx="Less",
                 doc="True where x < y.", example=("[1, 2, 3]", "2", "[ True, False, False]"))
less_equal = pointwise("less_equal", lambda k, x, y: x <= y, takes="real", gives="bool",
                       onnx="LessOrEqual", doc="True where x <= y.",
                       example=("[1, 2, 3]", "2", "[ True,  True, False]"))
greater = pointwise("greater", lambda k, x, y: x > y, takes="real", gives="bool", onnx="Greater",
                    doc="True where x > y.", example=("[1, 2, 3]", "2", "[False, False,  True]"))
greater_equal = pointwise("greater_equal", lambda k, x, y: x >= y, takes="real", gives="bool",
                          onnx="GreaterOrEqual", doc="True where x >= y.",
                          example=("[1, 2, 3]", "2", "[False,  True,  True]"))
isnan = pointwise("isnan", lambda k, x: k.isnan(x), takes="float", gives="bool", onnx="IsNaN",
                  stored=True, doc="True where x is nan.",
                  example=("[1.0, fw.nan, fw.inf]", "[False,  True, False]"))
isinf = pointwise("isinf", lambda k, x: k.isinf(x), takes="float", gives="bool", onnx="IsInf",
                  doc="True where x is inf or -inf.",
                  example=("[1.0, fw.nan, fw.inf]", "[False, False,  True]"))
isfinite = pointwise("isfinite", lambda k, x: k.isfinite(x), takes="float", gives="bool",
                     doc="True where x is neither infinite nor nan.",
                     example=("[1.0, fw.nan, fw.inf]", "[ True, False, False]"))
signbit = pointwise("signbit", lambda k, x: k.signbit(x), takes="real float", gives="bool",
                    doc="True where the sign of x is negative; also of -0.0.",
                    example=("[1.0, -1.0, -0.0]", "[False,  True,  True]"))
logical_and = pointwise("logical_and", lambda k, x, y: x & y, takes="bool", onnx="And",
                        doc="True where x and y both hold.",
                        example=("[True, True]", "[True, False]", "[ True, False]"))
logical_or = pointwise("logical_or", lambda k, x, y: x | y, takes="bool", onnx="Or",
                       doc="True where x or y holds, or both.",
                       example=("[True, False]", "[False, False]", "[ True, False]"))
logical_xor = pointwise("logical_xor", lambda k, x, y: x ^ y, takes="bool", onnx="Xor",
                        doc="True where one of x and y holds, and the other does not.",
                        example=("[True, True]", "[True, False]", "[False,  True]"))
logical_not = pointwise("logical_not", lambda k, x: ~x, takes="bool", onnx="Not",
                        doc="True where x does not hold.",
                        example=("[True, False]", "[False,  True]"))
bitwise_and = pointwise("bitwise_and", lambda k, x, y: x & y, takes="bits",
                        doc="The bits that x and y have in common.",
                        example=("[12, 5]", "[10, 3]", "[8, 1]"))
bitwise_or = pointwise("bitwise_or", lambda k, x, y: x | y, takes="bits",
                       doc="The bits that x or y has.", example=("[12, 5]", "[10, 3]", "[14,  7]"))
bitwise_xor = pointwise("bitwise_xor", lambda k, x, y: x ^ y, takes="bits",
                        doc="The bits that one of x and y has.",
                        example=("[12, 5]", "[10, 3]", "[6, 6]"))
bitwise_invert = pointwise("bitwise_invert", lambda k, x: ~x, takes="bits",
                           doc="The numbers with all bits inverted; of bool, logical not.",
                           example=("[0, 5]", "[-1, -6]"))
bitwise_left_shift = pointwise("bitwise_left_shift", lambda k, x, y: x << y, takes="whole",
                               doc="x with bits moved up by y places: x * 2**y.",
                               example=("[1, 3]", "[4, 2]", "[16, 12]"))
bitwise_right_shift = pointwise("bitwise_right_shift", lambda k, x, y: x >> y, takes="whole",
                                doc="x with bits moved down by y places.",
                                example=("[16, -3]", "[3, 1]", "[ 2, -2]"))

# ---- activations
relu = pointwise("relu", lambda k, x: k.maximum(x, 0), lambda g, out, x: where(out <= 0, 0.0, g),
                 takes="real numeric", onnx="Relu", doc="max(x, 0): negative numbers become 0.",
                 example=("[-1.0, 2.0]", "[0., 2.]"))
sigmoid = pointwise("sigmoid", in_float32(lambda k, x: 1 / (1 + k.exp(-x))),
                    lambda g, out, x: g * conj_of(out * (1 - out)), takes="float", onnx="Sigmoid",
                    doc="The logistic function 1 / (1 + exp(-x)), between 0 and 1.",
                    example=("[0.0, fw.inf]", "[0.5, 1. ]"))


def _where(k: Any, c: Any, x: Any, y: Any) -> Any:
    if type(x) is int or type(y) is int:  # too large for the dtype: an error, while NumPy wraps
        x, y = _fitting(x, y), _fitting(y, x)
    return k.where(c, x, y)


def _fitting(x: Any, beside: Any) -> Any:
    kind = beside.dtype.kind if hasattr(beside, "dtype") else ""
    return beside.dtype.type(x) if type(x) is int and kind in ("i", "u") else x


where_op = define(Op(
    "where", "pointwise", result_rule("where", "same"), _where,
    lambda k, c, x, y: k.where(c, x, y),
    each(None, lambda g, out, c, x, y: where(c, g, 0.0), lambda g, out, c, x, y: where(c, 0.0, g)),
    "Where", stored=True))


def where(condition: Any, x: Any, y: Any, /) -> Tensor:
    """The elements of `x` where `condition` is true, else those of `y`; shapes broadcast.

    Args:
        condition: a tensor; numbers count as true unless they are 0.
        x, y: tensors or numbers; the result has the dtype to which they promote.

    Example:
        >>> import fusewire as fw
        >>> fw.where(fw.tensor([True, False]), fw.tensor([1.0, 2.0]), 0)
        tensor([1., 0.])
    """
    usual = type(x) is float and isinstance(condition, Tensor) and isinstance(y, Tensor) \
        and condition.dtype is dtypes.bool and y.dtype is dtypes.float32  # as in gradients
    if not usual:
        (condition,) = prepare("where", (condition,), "bool")
        x, y = prepare("where", (x, y), "any")
    return apply(where_op, (condition, x, y))


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype. A fraction or imaginary part that it cannot hold is dropped.

    Args:
        dtype: of the result.
        copy: False returns `x` itself if dtype and device fit. Default True: a new tensor.
        device: of the result. Default None: that of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([-1.5, 2.5]).astype(fw.int64)
        tensor([-1,  2])
    """
    x, target = as_tensor("astype", x), dtypes.as_dtype(dtype)
    if device is not None and devices.resolve_device(device) != x.device:
        if devices.is_elsewhere(x._data):
            return explicit_cast(transfer(x, devices.resolve_device(device)), target)
        return transfer(explicit_cast(x, target), devices.resolve_device(device))
    if x.dtype == target:
        return alias(x) if copy else x
    return explicit_cast(x, target)
