"""Emits functions of floats: float32 here, float64 in `math64`, the others as calls of the C
library.

Results lie within 4 units in the last place, with nan, infinities, signed zeros and subnormals as
in NumPy. Without fused multiply-add the splittings below are not exact, and the C library is called
as well. Arguments are reduced with a number that pushes the integer part into the low bits, which
needs no conversion instruction: x * c + MAGIC.
"""

from __future__ import annotations

from collections.abc import Callable

from . import math64
from .ir_builder import LlvmBuilder, Value, constant, suffix
from .libm import corrected, outlined, per_lane
from .math64 import clamp, fma, log1p_of, polynomial, tanh_of

MathFunction = Callable[..., Value]

_MAGIC = 12582912.0  # 1.5 * 2**23: added to a small number, it leaves the nearest integer
_MAGIC_BITS = 0x4B400000
_LOG2E, _LOG2E_LOW = 1.4426950408889634, 1.9259629911266175e-08
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 0.16666665459, 0.5)
_EXP2 = (
    0.00015476270345970988, 0.001340023591183126, 0.009618003852665424,
    0.055503278970718384, 0.24022650718688965, 0.6931471824645996,
)  # fmt: skip
_EXPM1 = (
    0.00019914117001462728, 0.0013940967619419098, 0.008333273231983185,
    0.04166635498404503, 0.1666666716337204, 0.5,
)  # fmt: skip
_ATAN = (
    -0.0017936122603714466, 0.01091456413269043, -0.031177770346403122, 0.057957518845796585,
    -0.08403445780277252, 0.10952184349298477, -0.14264240860939026, 0.19998548924922943,
    -0.33333298563957214,
)  # fmt: skip
_ASIN = (
    0.03756524249911308, 0.014402579516172409, 0.03181761875748634, 0.04451571777462959,
    0.07500510662794113, 0.16666659712791443,
)  # fmt: skip
_SIN = (2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
_COS = (2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1.0)
_HALF_PI, _HALF_PI_LOW, _PI, _PI_LOW = 1.57079637, -4.37113883e-8, 3.14159274, -8.74227766e-8
_FAR = 1e6  # beyond this the three parts of pi/2 are not enough


# exp and its relatives


def _nearest(k: LlvmBuilder, x: Value, factor: float) -> tuple[Value, Value]:
    """The integer nearest to x * factor, as a float and as an integer."""
    shifted = fma(k, x, factor, _MAGIC)
    bits = k.cast("bitcast", shifted, "i32")
    return k.binary("fsub", shifted, _MAGIC), k.binary("sub", bits, _MAGIC_BITS)


def _power_of_two(k: LlvmBuilder, n: Value) -> Value:
    """2**n for -127 < n < 128."""
    return k.cast("bitcast", k.binary("shl", k.binary("add", n, 127), 23), "float")


def _times_power(k: LlvmBuilder, y: Value, n: Value) -> Value:
    """y * 2**n, also where that overflows or is subnormal."""
    if y.lanes and k.module.target.vector_bytes == 64:
        return k.call(f"llvm.ldexp.{suffix(y)}.{suffix(n)}", [y, n], y.type, y.lanes)
    half = k.binary("ashr", n, 1)
    y = k.binary("fmul", y, _power_of_two(k, half))
    return k.binary("fmul", y, _power_of_two(k, k.binary("sub", n, half)))


def _ln2_reduced(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """r and n with x = n ln 2 + r."""
    n, whole = _nearest(k, x, _LOG2E)
    return fma(k, n, -_LN2_LOW, fma(k, n, -_LN2_HIGH, x)), whole


def _exp_reduced(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """exp(r) and n with x = n ln 2 + r."""
    r, n = _ln2_reduced(k, x)
    return polynomial(k, r, (*_EXP, 1.0, 1.0)), n


def _exp(k: LlvmBuilder, x: Value) -> Value:
    return _times_power(k, *_exp_reduced(k, clamp(k, x, -104.0, 89.0)))


def _exp2(k: LlvmBuilder, x: Value) -> Value:
    x = clamp(k, x, -151.0, 129.0)
    n, whole = _nearest(k, x, 1.0)
    r = k.binary("fsub", x, n)
    return _times_power(k, fma(k, polynomial(k, r, _EXP2), r, 1.0), whole)


def _expm1(k: LlvmBuilder, x: Value) -> Value:
    r, n = _ln2_reduced(k, clamp(k, x, -20.0, 89.0))
    p = fma(k, polynomial(k, r, _EXPM1), k.binary("fmul", r, r), r)
    scale = _power_of_two(k, k.binary("sub", n, 1))  # half of 2**n, which may be too large
    half = fma(k, scale, p, k.binary("fsub", scale, 0.5))
    return k.intrinsic("copysign", k.binary("fadd", half, half), x)


def _tanh(k: LlvmBuilder, x: Value) -> Value:
    return tanh_of(k, x, 9.1, _expm1)


def _erf(k: LlvmBuilder, x: Value) -> Value:
    """Near 0 a polynomial, else 1 - exp of one."""
    t = k.intrinsic("fabs", x)
    t = k.select(k.compare("ogt", t, 4.0), 4.0, t)
    square = k.binary("fmul", t, t)
    r = fma(k, -1.72853470e-5, t, 3.83197126e-4)
    u = fma(k, -3.88396438e-3, t, 2.42546219e-2)
    r = polynomial(k, t, (fma(k, r, square, u), -1.06777877e-1, -6.34846687e-1, -1.28717512e-1))
    y, n = _exp_reduced(k, k.binary("fsub", k.binary("fmul", r, t), t))
    far = k.binary("fsub", 1.0, k.binary("fmul", y, _power_of_two(k, n)))
    q = polynomial(k, square, _ERF_NEAR)
    near = fma(k, q, t, t)
    result = k.select(k.compare("ogt", t, 0.927734375), far, near)
    return k.intrinsic("copysign", result, x)


_ERF_NEAR = (
    -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1,
)  # fmt: skip


# log and its relatives


def _log_parts(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """e and log(m) with x = 2**e * m and m near 1."""
    tiny = k.compare("olt", x, 1.17549435e-38)
    bits = k.cast("bitcast", k.select(tiny, k.binary("fmul", x, 8388608.0), x), "i32")
    exponent = k.binary("ashr", k.binary("sub", bits, 0x3F2AAAAB), 23)
    m = k.cast("bitcast", k.binary("sub", bits, k.binary("shl", exponent, 23)), "float")
    e = k.binary("fadd", k.cast("sitofp", exponent, "float"), k.select(tiny, _of(x, -23.0), 0.0))
    f = k.binary("fsub", m, 1.0)
    s = k.binary("fmul", f, f)
    r, u = fma(k, -0.130310059, f, 0.140869141), fma(k, -0.121483512, f, 0.139814854)
    r = polynomial(
        k, f, (fma(k, r, s, u), -0.166846126, 0.200120345, -0.249996200, 0.333331972, -0.5)
    )
    return e, fma(k, r, s, f)


def _of(x: Value, number: float) -> Value:
    return constant(number, x.type)


def _log(k: LlvmBuilder, x: Value) -> Value:
    e, m = _log_parts(k, x)
    return math64.log_special(k, x, fma(k, e, 0.693147182, m))


def _log2(k: LlvmBuilder, x: Value) -> Value:
    e, m = _log_parts(k, x)
    low = k.binary("fmul", m, _LOG2E_LOW)
    return math64.log_special(k, x, fma(k, m, 1.44269502, k.binary("fadd", e, low)))


def _log10(k: LlvmBuilder, x: Value) -> Value:
    e, m = _log_parts(k, x)
    return math64.log_special(k, x, fma(k, e, 0.301029995664, k.binary("fmul", m, 0.4342944819)))


def _log1p(k: LlvmBuilder, x: Value) -> Value:
    return log1p_of(k, x, _log)


# Circular functions


def _quarter_turns(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """r and n with x = n pi/2 + r and |r| <= pi/4; only the low bits of n count."""
    n, whole = _nearest(k, x, 0.636619772)
    r = fma(k, n, -1.57079601, x)
    return fma(k, n, -5.39030253e-15, fma(k, n, -3.13916473e-07, r)), whole


def _sin_cos(k: LlvmBuilder, r: Value) -> tuple[Value, Value]:
    square = k.binary("fmul", r, r)
    sine = k.binary("fmul", polynomial(k, square, _SIN), square)
    return fma(k, sine, r, r), polynomial(k, square, _COS)


def _wave(name: str, shift: int) -> MathFunction:
    """sin, or cos as sin shifted by a quarter turn."""

    def write(k: LlvmBuilder, x: Value) -> Value:
        r, n = _quarter_turns(k, x)
        n = k.binary("add", n, shift)
        sine, cosine = _sin_cos(k, r)
        odd = k.compare("ne", k.binary("and", n, 1), 0)
        sign = k.binary("shl", k.binary("and", n, 2), 30)
        bits = k.cast("bitcast", k.select(odd, cosine, sine), "i32")
        fast = k.cast("bitcast", k.binary("xor", bits, sign), "float")
        if not shift:
            fast = k.select(k.compare("oeq", x, 0.0), x, fast)  # -0.0
        return _near(k, name, x, fast)

    return lambda k, x: outlined(k, name, [x], write)


def _near(k: LlvmBuilder, name: str, x: Value, fast: Value) -> Value:
    far = k.compare("ogt", k.intrinsic("fabs", x), _FAR)
    return corrected(k, fast, far, lambda: per_lane(k, name, x))


def _tan(k: LlvmBuilder, x: Value) -> Value:
    def write(k: LlvmBuilder, x: Value) -> Value:
        r, n = _quarter_turns(k, x)
        sine, cosine = _sin_cos(k, r)
        odd = k.compare("ne", k.binary("and", n, 1), 0)
        minus = k.emit(f"fneg {cosine.typed}", x.type, x.lanes, 0)
        top, bottom = k.select(odd, minus, sine), k.select(odd, sine, cosine)
        fast = k.binary("fdiv", top, bottom)
        return _near(k, "tan", x, k.select(k.compare("oeq", x, 0.0), x, fast))

    return outlined(k, "tan", [x], write)


def _atan_of_ratio(k: LlvmBuilder, t: Value) -> Value:
    """atan for 0 <= t <= 1."""
    square = k.binary("fmul", t, t)
    return fma(k, k.binary("fmul", polynomial(k, square, _ATAN), square), t, t)


def _minus_from(k: LlvmBuilder, high: float, low: float, r: Value) -> Value:
    """(high + low) - r."""
    return k.binary("fadd", k.binary("fsub", high, r), low)


def _atan(k: LlvmBuilder, x: Value) -> Value:
    t = k.intrinsic("fabs", x)
    large = k.compare("ogt", t, 1.0)
    r = _atan_of_ratio(k, k.select(large, k.binary("fdiv", 1.0, t), t))
    r = k.select(large, _minus_from(k, _HALF_PI, _HALF_PI_LOW, r), r)
    return k.intrinsic("copysign", r, x)


def _atan2(k: LlvmBuilder, y: Value, x: Value) -> Value:
    a, b = k.intrinsic("fabs", y), k.intrinsic("fabs", x)
    steep = k.compare("ogt", a, b)
    low, high = k.select(steep, b, a), k.select(steep, a, b)
    t = k.binary("fdiv", low, high)
    t = k.select(k.compare("oeq", high, 0.0), 0.0, t)
    t = k.select(k.compare("oeq", low, float("inf")), 1.0, t)
    r = _atan_of_ratio(k, t)
    r = k.select(steep, _minus_from(k, _HALF_PI, _HALF_PI_LOW, r), r)
    left = k.compare("slt", k.cast("bitcast", x, "i32"), 0)
    r = k.intrinsic("copysign", k.select(left, _minus_from(k, _PI, _PI_LOW, r), r), y)
    return k.select(k.compare("uno", x, y), k.binary("fadd", x, y), r)


def _asin_parts(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """The condition |x| > 1/2, and asin(|x|), or of sqrt((1 - |x|) / 2) if it holds."""
    t = k.intrinsic("fabs", x)
    large = k.compare("ogt", t, 0.5)
    s = k.select(large, fma(k, t, -0.5, 0.5), k.binary("fmul", t, t))
    z = k.select(large, k.intrinsic("sqrt", s), t)
    return large, fma(k, k.binary("fmul", polynomial(k, s, _ASIN), s), z, z)


def _asin(k: LlvmBuilder, x: Value) -> Value:
    large, p = _asin_parts(k, x)
    flipped = _minus_from(k, _HALF_PI, _HALF_PI_LOW, k.binary("fadd", p, p))
    return k.intrinsic("copysign", k.select(large, flipped, p), x)


def _acos(k: LlvmBuilder, x: Value) -> Value:
    large, p = _asin_parts(k, x)
    double = k.binary("fadd", p, p)
    negative = k.compare("olt", x, 0.0)
    outer = k.select(negative, _minus_from(k, _PI, _PI_LOW, double), double)
    inner = _minus_from(k, _HALF_PI, _HALF_PI_LOW, k.intrinsic("copysign", p, x))
    return k.select(large, outer, inner)


# The choice between implementations


def _through_double(function: MathFunction) -> MathFunction:
    """A function of float32 computed in float64."""

    def write(k: LlvmBuilder, *xs: Value) -> Value:
        wide = [k.cast("fpext", x, "double") for x in xs]
        return k.cast("fptrunc", function(k, *wide), "float")

    return write


_FLOAT: dict[str, MathFunction] = {
    "exp": _exp, "exp2": _exp2, "expm1": _expm1, "tanh": _tanh, "erf": _erf,
    "log": _log, "log2": _log2, "log10": _log10, "log1p": _log1p,
    "sin": _wave("sin", 0), "cos": _wave("cos", 1), "tan": _tan,
    "asin": _asin, "acos": _acos, "atan": _atan, "atan2": _atan2,
    **{name: _through_double(f) for name, f in math64.FOR_FLOAT.items()},
}  # fmt: skip
_LONG = frozenset(("pow", "sinh", "cosh", "asinh", "acosh", "atanh"))


def function(name: str) -> MathFunction:
    """The function of that name, of floats of any size, scalars or vectors."""

    def call(k: LlvmBuilder, *args: Value | float) -> Value:
        xs = k.match(*args)
        table = _FLOAT if xs[0].type == "float" else math64.DOUBLE
        own = table.get(name) if k.module.target.fma else None
        if own is None:
            return per_lane(k, name, *xs)
        return outlined(k, name, xs, own) if name in _LONG else own(k, *xs)

    return call
