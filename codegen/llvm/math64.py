"""Emits mathematical functions of float64, and the helpers that they share with float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .ir_builder import LlvmBuilder, Value, constant

MathFunction = Callable[..., Value]

_MAGIC = 6755399441055744.0  # 1.5 * 2**52
_MAGIC_BITS = 0x4338000000000000
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))  # of (exp(r) - 1 - r) / r**2
_LOG = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
    2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
    6.666666666666735130e-01,
)  # fmt: skip


# Of either size


def fma(k: LlvmBuilder, a: Value | float, b: Value | float, c: Value | float) -> Value:
    """a * b + c, rounded once."""
    return k.intrinsic("fma", a, b, c)


def polynomial(k: LlvmBuilder, x: Value, coefficients: Sequence[Value | float]) -> Value:
    """The polynomial with these coefficients, highest first."""
    result: Value | float = coefficients[0]
    for c in coefficients[1:]:
        result = fma(k, result, x, c)
    assert isinstance(result, Value)
    return result


def clamp(k: LlvmBuilder, x: Value, low: float, high: float) -> Value:
    """x between low and high; nan stays."""
    x = k.select(k.compare("ogt", x, high), high, x)
    return k.select(k.compare("olt", x, low), low, x)


def log_special(k: LlvmBuilder, x: Value, result: Value) -> Value:
    """The result of a logarithm, corrected for 0, infinite, negative and nan arguments."""
    infinite = k.compare("ueq", x, float("inf"))
    result = k.select(infinite, k.binary("fadd", x, x), result)
    result = k.select(k.compare("olt", x, 0.0), float("nan"), result)
    return k.select(k.compare("oeq", x, 0.0), float("-inf"), result)


def log1p_of(k: LlvmBuilder, x: Value, log: MathFunction) -> Value:
    """log(1 + x), corrected by the rounding error of the sum."""
    u = k.binary("fadd", x, 1.0)
    lost = k.binary("fdiv", k.binary("fsub", x, k.binary("fsub", u, 1.0)), u)
    lost = k.select(k.compare("ord", lost, lost), lost, 0.0)  # of infinity and of -1
    return k.intrinsic("copysign", k.binary("fadd", log(k, u), lost), x)


def tanh_of(k: LlvmBuilder, x: Value, limit: float, expm1: MathFunction) -> Value:
    """tanh, which is 1 beyond the limit, as t / (t + 2) with t = exp(2|x|) - 1."""
    a = k.intrinsic("fabs", x)
    a = k.select(k.compare("ogt", a, limit), limit, a)
    t = expm1(k, k.binary("fadd", a, a))
    return k.intrinsic("copysign", k.binary("fdiv", t, k.binary("fadd", t, 2.0)), x)


# Of float64


def _power_of_two(k: LlvmBuilder, n: Value) -> Value:
    return k.cast("bitcast", k.binary("shl", k.binary("add", n, 1023), 52), "double")


def _ln2_reduced(k: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """r and n with x = n ln 2 + r."""
    shifted = fma(k, x, 1.4426950408889634, _MAGIC)
    n = k.binary("fsub", shifted, _MAGIC)
    r = fma(k, n, -_LN2_LOW, fma(k, n, -_LN2_HIGH, x))
    return r, k.binary("sub", k.cast("bitcast", shifted, "i64"), _MAGIC_BITS)


def _expm1_reduced(k: LlvmBuilder, r: Value) -> Value:
    return fma(k, polynomial(k, r, _TAYLOR), k.binary("fmul", r, r), r)


def exp(k: LlvmBuilder, x: Value) -> Value:
    """exp."""
    r, n = _ln2_reduced(k, clamp(k, x, -746.0, 710.0))
    y = k.binary("fadd", _expm1_reduced(k, r), 1.0)
    half = k.binary("ashr", n, 1)
    y = k.binary("fmul", y, _power_of_two(k, half))
    return k.binary("fmul", y, _power_of_two(k, k.binary("sub", n, half)))


def expm1(k: LlvmBuilder, x: Value) -> Value:
    """exp(x) - 1."""
    r, n = _ln2_reduced(k, clamp(k, x, -40.0, 710.0))
    scale = _power_of_two(k, k.binary("sub", n, 1))
    half = fma(k, scale, _expm1_reduced(k, r), k.binary("fsub", scale, 0.5))
    return k.intrinsic("copysign", k.binary("fadd", half, half), x)


def _log_parts(k: LlvmBuilder, x: Value) -> tuple[Value, Value, Value]:
    """e, f and c with log x = e ln 2 + (f - c)."""
    tiny = k.compare("olt", x, 2.2250738585072014e-308)
    bits = k.cast("bitcast", k.select(tiny, k.binary("fmul", x, 2.0**54), x), "i64")
    exponent = k.binary("ashr", k.binary("sub", bits, 0x3FE6A09E00000000), 52)
    m = k.cast("bitcast", k.binary("sub", bits, k.binary("shl", exponent, 52)), "double")
    whole = k.cast("bitcast", k.binary("add", exponent, _MAGIC_BITS), "double")
    e = k.binary("fsub", whole, _MAGIC)
    e = k.binary("fsub", e, k.select(tiny, constant(54.0, "double"), 0.0))
    f = k.binary("fsub", m, 1.0)
    s = k.binary("fdiv", f, k.binary("fadd", f, 2.0))
    z = k.binary("fmul", s, s)
    rest = k.binary("fmul", polynomial(k, z, _LOG), z)
    square = k.binary("fmul", k.binary("fmul", f, f), 0.5)
    return e, f, k.binary("fsub", square, k.binary("fmul", s, k.binary("fadd", square, rest)))


def log(k: LlvmBuilder, x: Value) -> Value:
    """The natural logarithm."""
    e, f, c = _log_parts(k, x)
    low = k.binary("fsub", fma(k, e, _LN2_LOW, k.binary("fsub", 0.0, c)), k.binary("fsub", 0.0, f))
    return log_special(k, x, fma(k, e, _LN2_HIGH, low))


def log2(k: LlvmBuilder, x: Value) -> Value:
    """The logarithm to base 2."""
    e, f, c = _log_parts(k, x)
    return log_special(k, x, fma(k, k.binary("fsub", f, c), 1.4426950408889634, e))


def log10(k: LlvmBuilder, x: Value) -> Value:
    """The logarithm to base 10."""
    e, f, c = _log_parts(k, x)
    m = k.binary("fmul", k.binary("fsub", f, c), 0.4342944819032518)
    return log_special(k, x, fma(k, e, 0.30102999566398120, m))


def log1p(k: LlvmBuilder, x: Value) -> Value:
    """log(1 + x)."""
    return log1p_of(k, x, log)


def tanh(k: LlvmBuilder, x: Value) -> Value:
    """The hyperbolic tangent."""
    return tanh_of(k, x, 20.0, expm1)


# Good for results that are rounded to float32


def _sinh(k: LlvmBuilder, x: Value) -> Value:
    t = expm1(k, clamp(k, k.intrinsic("fabs", x), 0.0, 100.0))
    sum_ = k.binary("fadd", t, k.binary("fdiv", t, k.binary("fadd", t, 1.0)))
    return k.intrinsic("copysign", k.binary("fmul", sum_, 0.5), x)


def _cosh(k: LlvmBuilder, x: Value) -> Value:
    e = exp(k, clamp(k, k.intrinsic("fabs", x), 0.0, 100.0))
    return k.binary("fmul", k.binary("fadd", e, k.binary("fdiv", 1.0, e)), 0.5)


def _asinh(k: LlvmBuilder, x: Value) -> Value:
    a = k.intrinsic("fabs", x)
    square = k.binary("fmul", a, a)
    root = k.intrinsic("sqrt", k.binary("fadd", square, 1.0))
    more = k.binary("fdiv", square, k.binary("fadd", root, 1.0))
    y = log1p(k, k.binary("fadd", a, more))
    return k.intrinsic("copysign", k.select(k.compare("oeq", a, float("inf")), a, y), x)


def _acosh(k: LlvmBuilder, x: Value) -> Value:
    t = k.binary("fsub", x, 1.0)
    root = k.intrinsic("sqrt", k.binary("fmul", t, k.binary("fadd", t, 2.0)))
    y = log1p(k, k.binary("fadd", t, root))
    return k.select(k.compare("olt", x, 1.0), float("nan"), y)


def _atanh(k: LlvmBuilder, x: Value) -> Value:
    ratio = k.binary("fdiv", k.binary("fadd", x, x), k.binary("fsub", 1.0, x))
    return k.intrinsic("copysign", k.binary("fmul", log1p(k, ratio), 0.5), x)


def _hypot(k: LlvmBuilder, x: Value, y: Value) -> Value:
    length = k.intrinsic("sqrt", fma(k, x, x, k.binary("fmul", y, y)))
    largest = [k.compare("oeq", k.intrinsic("fabs", v), float("inf")) for v in (x, y)]
    return k.select(k.binary("or", *largest), float("inf"), length)


def _pow(k: LlvmBuilder, x: Value, y: Value) -> Value:
    a = k.intrinsic("fabs", x)
    result = exp(k, k.binary("fmul", log(k, a), y))
    half = k.binary("fmul", y, 0.5)
    whole = k.compare("oeq", k.intrinsic("trunc", y), y)
    odd = k.binary("and", whole, k.compare("une", k.intrinsic("trunc", half), half))
    negative = k.compare("slt", k.cast("bitcast", x, "i64"), 0)
    flipped = k.emit(f"fneg {result.typed}", result.type, result.lanes, result.depth)
    result = k.select(k.binary("and", negative, odd), flipped, result)
    nowhere = k.binary(
        "and", k.compare("olt", x, 0.0), k.compare("one", k.intrinsic("trunc", y), y)
    )
    finite = k.compare("olt", a, float("inf"))
    result = k.select(k.binary("and", nowhere, finite), float("nan"), result)
    unit = k.binary(
        "and", k.compare("oeq", a, 1.0), k.compare("oeq", k.intrinsic("fabs", y), float("inf"))
    )
    one = k.binary("or", k.compare("oeq", x, 1.0), k.compare("oeq", y, 0.0))
    return k.select(k.binary("or", one, unit), 1.0, result)


DOUBLE: dict[str, MathFunction] = {
    "exp": exp, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p,
    "tanh": tanh,
}  # fmt: skip
FOR_FLOAT: dict[str, MathFunction] = {
    "sinh": _sinh, "cosh": _cosh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "hypot": _hypot, "pow": _pow,
}  # fmt: skip
