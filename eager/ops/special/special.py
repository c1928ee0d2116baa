"""Computes error functions, their inverses, Bessel's functions I, and functions of statistics.

Each is a formula over the builder `k`, computed in float64 and rounded once at its end. So its
results are equal eager, compiled and in an ONNX model. `gamma.py` has the relatives of the gamma
function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arguments import check_number, names_itself
from ...arrays.cpu_kernels import ERFC_P, ERFC_Q, TAIL_P, TAIL_Q
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..declare import in_float32, pointwise, prepare, result_rule
from ..elementwise.pointwise import exp, log, log1p, where

__all__ = ["entr", "erfc", "erfcx", "erfinv", "i0", "logit", "sinc", "xlogy"]

WIDE = np.dtype("float64")
Formula = Callable[..., Any]


def in_float64(formula: Formula) -> Formula:
    """`formula` of one number, computed in float64 and rounded to the dtype of the number."""
    def rounded(k: Any, x: Any) -> Any:
        return rounded_to(k, formula(k, widened(k, x)), x.dtype)

    return rounded


def widened(k: Any, x: Any) -> Any:
    """`x` in float64; a Python number unchanged."""
    return k.cast(x, WIDE) if hasattr(x, "dtype") and x.dtype != WIDE else x


def rounded_to(k: Any, x: Any, dtype: Any) -> Any:
    """`x` in the dtype of a result."""
    return x if dtype == WIDE else k.cast(x, dtype)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """c[0] x**n + ... + c[n], by Horner's rule."""
    total = coefficients[0] * x + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def smooth(name: str, formula: Formula, vjp: Any, doc: str, example: tuple[str, ...],
           ) -> Callable[..., Tensor]:
    """Declares a pointwise function of one real floating point number."""
    return pointwise(name, in_float64(formula), vjp, takes="real float", doc=doc, example=example,
                     space="fw.special")


# ---- the error function's complement
_SQRT_PI = math.sqrt(math.pi)
_SMALL, _FAR = 0.46875, 30.0  # erfc(30) is 0 in float64


def _squared_exp(k: Any, t: Any, sign: float) -> Any:
    """exp(sign * t * t) for 0 <= t <= 40, with the square split to avoid its rounding error."""
    s = k.floor(t * 16.0) * 0.0625
    return k.exp(sign * (s * s)) * k.exp(sign * ((t - s) * (t + s)))


def _scaled_tail(k: Any, t: Any) -> Any:
    """exp(t * t) erfc(t) for t of at least 0.46875, by Cody's rational approximations."""
    inverse = 1.0 / (t * t)
    tail = inverse * polynomial(inverse, TAIL_P) / polynomial(inverse, TAIL_Q)
    near = k.minimum(t, 4.0)
    middle = polynomial(near, ERFC_P) / polynomial(near, ERFC_Q)
    return k.where(t <= 4.0, middle, (1 / _SQRT_PI - tail) / t)


def erfc_formula(k: Any, x: Any) -> Any:
    t = k.minimum(k.maximum(k.abs(x), _SMALL), _FAR)
    tail = _squared_exp(k, t, -1.0) * _scaled_tail(k, t)
    return k.where(k.abs(x) <= _SMALL, 1.0 - k.erf(x), k.where(x < 0, 2.0 - tail, tail))


def erfcx_formula(k: Any, x: Any) -> Any:
    t = k.maximum(k.abs(x), _SMALL)
    tail = _scaled_tail(k, t)
    grown = _squared_exp(k, k.minimum(t, _FAR), 1.0)
    small = k.exp(x * x) * (1.0 - k.erf(x))
    return k.where(k.abs(x) <= _SMALL, small, k.where(x < 0, 2.0 * grown - tail, tail))


erfc = smooth("erfc", erfc_formula, lambda g, out, x: g * (exp(-x * x) * (-2 / _SQRT_PI)),
              doc="1 - erf(x), accurate also where it is small.",
              example=("[0.0, 1.0]", "[1.       , 0.1572992]"))
erfcx = smooth("erfcx", erfcx_formula, lambda g, out, x: g * (out * x * 2 - 2 / _SQRT_PI),
               doc="exp(x * x) * erfc(x), accurate also where erfc(x) is 0 in its dtype.",
               example=("[0.0, 10.0]", "[1.        , 0.05614099]"))

# ---- inverses. Coefficients of M. J. Wichura, "Algorithm AS 241" (1988), routine PPND16.
_CENTRE_P = (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
             4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
             1.3314166789178437745e2, 3.3871328727963666080)
_CENTRE_Q = (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
             2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
             4.2313330701600911252e1, 1.0)
_OUTER_P = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
            1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
            4.63033784615654529590, 1.42343711074968357734)
_OUTER_Q = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
            1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
            2.05319162663775882187, 1.0)
_LAST_P = (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
           2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
           5.46378491116411436990, 6.65790464350110377720)
_LAST_Q = (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
           7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
           5.99832206555887937690e-1, 1.0)


def _normal_quantile(k: Any, q: Any, rest: Any) -> Any:
    """The quantile of the normal distribution at 1/2 + q; `rest` is 1/2 - |q|, exactly."""
    r = 0.180625 - q * q
    centre = q * (polynomial(r, _CENTRE_P) / polynomial(r, _CENTRE_Q))
    far = k.sqrt(-k.log(rest))
    near = k.minimum(far, 5.0) - 1.6
    last = k.where(rest <= 0, 5.0, far) - 5.0
    tail = k.where(far <= 5.0, polynomial(near, _OUTER_P) / polynomial(near, _OUTER_Q),
                   polynomial(last, _LAST_P) / polynomial(last, _LAST_Q))
    tail = k.where(rest == 0, math.inf, k.where(rest < 0, math.nan, tail))
    return k.where(k.abs(q) <= 0.425, centre, k.where(q < 0, -tail, tail))


def _erfinv(k: Any, y: Any) -> Any:
    return _normal_quantile(k, y * 0.5, (1.0 - k.abs(y)) * 0.5) * math.sqrt(0.5)


def _ndtri(k: Any, p: Any) -> Any:
    return _normal_quantile(k, p - 0.5, k.minimum(p, 1.0 - p))


erfinv = smooth("erfinv", _erfinv, lambda g, out, x: g * (exp(out * out) * (_SQRT_PI / 2)),
                doc="The numbers whose error function is x; inf at 1, nan beyond.",
                example=("[0.0, 0.5, 1.0]", "[0.        , 0.47693628,        inf]"))
ndtri = smooth("ndtri", _ndtri,
               lambda g, out, x: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
               doc="The quantiles of the normal distribution, the inverse of ndtr.",
               example=("[0.5, 0.975]", "[0.       , 1.9599644]"))


# ---- the normal distribution function
def ndtr_formula(k: Any, x: Any) -> Any:
    t = k.minimum(k.abs(x), 40.0)
    scaled = k.maximum(t * math.sqrt(0.5), _SMALL)
    tail = _squared_exp(k, t, -0.5) * _scaled_tail(k, scaled) * 0.5
    centre = 0.5 + 0.5 * k.erf(x * math.sqrt(0.5))
    return k.where(scaled <= _SMALL, centre, k.where(x < 0, tail, 1.0 - tail))


def _log_ndtr(k: Any, x: Any) -> Any:
    scaled = k.maximum(x * -math.sqrt(0.5), 0.0)
    lower = k.log(erfcx_formula(k, scaled) * 0.5) - x * x * 0.5
    return k.where(x < -1.0, lower, k.log1p(-ndtr_formula(k, -x)))


ndtr = smooth("ndtr", ndtr_formula,
              lambda g, out, x: g * (exp(x * x * -0.5) * math.sqrt(0.5 / math.pi)),
              doc="The probabilities that a standard normal number is below x.",
              example=("[0.0, 1.0]", "[0.5      , 0.8413448]"))
log_ndtr = smooth("log_ndtr", _log_ndtr, lambda g, out, x: g * (
    math.sqrt(2 / math.pi) / erfcx(x * -math.sqrt(0.5))),
    doc="log(ndtr(x)), also where ndtr(x) is too small for its dtype.",
    example=("[0.0, -50.0]", "[-6.9314718e-01, -1.2548314e+03]"))


# ---- sin(pi x) / (pi x) and its derivatives
def _sinc(k: Any, x: Any, order: int) -> Any:
    """The derivative of sinc of that order: a power series near 0, else by x f' = cos - f."""
    x_wide = widened(k, x)
    near_zero = k.abs(x_wide) < (1.0 if order else 0.5)
    t = k.where(near_zero, x_wide, 0.0)
    terms = [(-1) ** j * math.pi ** (2 * j) / math.factorial(2 * j + 1)
             * math.perm(2 * j, order) for j in range((order + 1) // 2, 24 + order)]
    near = polynomial(t * t, terms[::-1])
    near = near * t if order % 2 else near
    whole = k.round(x_wide)
    sign = 1.0 - 2.0 * (whole - 2.0 * k.floor(whole * 0.5))  # exact zeros at whole numbers
    angle = (x_wide - whole) * math.pi
    waves = (k.sin(angle) * sign, k.cos(angle) * sign)
    divisor = k.where(near_zero, 1.0, x_wide)
    far = waves[0] / (divisor * math.pi)
    for n in range(1, order + 1):
        wave = waves[n % 2] * (-1.0 if n % 4 in (2, 3) else 1.0)
        far = (wave * math.pi ** (n - 1) - far * float(n)) / divisor
    return rounded_to(k, k.where(near_zero, near, far), x.dtype)


def _sinc_vjp(g: Tensor, out: Tensor, x: Tensor, order: int) -> Tensor:
    return g * apply(sinc_op, (x,), {"order": order + 1})


sinc_op = define(Op("sinc", "pointwise", result_rule("sinc", "same"), _sinc, _sinc,
                    each(_sinc_vjp)))


def sinc(x: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0, of the shape of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.sinc(fw.tensor([0.0, 0.25, 0.5]))
        tensor([1.        , 0.9003163 , 0.63661975])
    """
    return apply(sinc_op, prepare("sinc", (x,), "real float"), {"order": 0})


# ---- modified Bessel functions of the first kind
def _bessel_i(k: Any, x: Any, order: int, scaled: bool) -> Any:
    """I of a whole order: its series up to 20, and its asymptotic expansion beyond.

    All terms of the series are positive, so that none cancel.
    """
    size = k.abs(widened(k, x))
    t = k.minimum(size, 20.0) * 0.5
    series = polynomial(t * t, [1.0 / (math.factorial(j) * math.factorial(j + order))
                                for j in range(45, -1, -1)])
    for _ in range(order):
        series = series * t
    far = k.maximum(size, 20.0)
    asymptotic = polynomial(1.0 / far, _hankel(order)[::-1]) / k.sqrt(far * (2 * math.pi))
    if scaled:
        value = k.where(size <= 20.0, series * k.exp(-size), asymptotic)
    else:  # in two steps: exp overflows before its product with the small factor does
        half = k.exp(size * 0.5)
        value = k.where(size <= 20.0, series, asymptotic * half * half)
        value = k.where(k.isinf(size), math.inf, value)
    if order % 2:
        value = k.where(x < 0, -value, value)
    return rounded_to(k, value, x.dtype)


def _hankel(order: int) -> list[float]:
    """The first coefficients of the expansion of sqrt(2 pi x) exp(-x) I(x) in powers of 1 / x."""
    coefficients = [1.0]
    for j in range(1, 31):
        coefficients.append(coefficients[-1] * -(4 * order * order - (2 * j - 1) ** 2) / (8 * j))
    return coefficients


def _bessel_i_vjp(g: Tensor, out: Tensor, x: Tensor, order: int, scaled: bool) -> Tensor:
    slope = (_bessel(x, abs(order - 1), scaled) + _bessel(x, order + 1, scaled)) * 0.5
    if scaled:
        slope = where(x < 0, slope + out, where(x > 0, slope - out, slope))
    return g * slope


bessel_op = define(Op("bessel_i", "pointwise", result_rule("bessel_i", "same"), _bessel_i,
                      _bessel_i, each(_bessel_i_vjp)))


def _bessel(x: Any, order: int, scaled: bool) -> Tensor:
    return apply(bessel_op, prepare("bessel_i", (x,), "real float"),
                 {"order": order, "scaled": scaled})


@names_itself
def i0(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0, of the shape of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.i0(fw.tensor([0.0, 1.0]))
        tensor([1.       , 1.2660658])
    """
    return _bessel(x, 0, False)


@names_itself
def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) * i0(x), of the shape of `x`; it does not overflow.

    Example:
        >>> import fusewire as fw
        >>> fw.special.i0e(fw.tensor([0.0, 1.0]))
        tensor([1.       , 0.4657596])
    """
    return _bessel(x, 0, True)


@names_itself
def i1(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1, of the shape of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.special.i1(fw.tensor([0.0, 1.0]))
        tensor([0.       , 0.5651591])
    """
    return _bessel(x, 1, False)


@names_itself
def i1e(x: Tensor) -> Tensor:
    """exp(-|x|) * i1(x), of the shape of `x`; it does not overflow.

    Example:
        >>> import fusewire as fw
        >>> fw.special.i1e(fw.tensor([0.0, 1.0]))
        tensor([0.        , 0.20791042])
    """
    return _bessel(x, 1, True)


# ---- logarithms that are 0 where their factor is
@names_itself
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of the shape of `x`.

    Args:
        eps: limits `x` to the range from eps to 1 - eps first. Default None: no limit.

    Raises:
        ArgumentError: `eps` is not in the range from 0 to 0.5.

    Example:
        >>> import fusewire as fw
        >>> fw.logit(fw.tensor([0.25, 0.5]))
        tensor([-1.0986123,  0.       ])
    """
    if eps is not None:
        if not 0 <= check_number("logit", "eps", eps) <= 0.5:
            raise ArgumentError(f"logit: eps is from 0 to 0.5, not {eps}",
                                "leave it out, or use 1e-6")
        (x,) = prepare("logit", (x,), "real float")
        x = x.clip(eps, 1 - eps)  # type: ignore[attr-defined]
    return log(x) - log1p(-x)


def _times_log(function: str) -> Formula:
    def formula(k: Any, x: Any, y: Any) -> Any:
        value = x * getattr(k, function)(y)
        silent = (x == 0) & (y == y)
        return k.where(silent, x * x, value)  # 0 of the dtype of x, not a float64 as for bfloat16

    return formula


def _of_arrays(formula: Formula) -> Formula:
    """`formula` for eager, with Python numbers cast to the dtype of the arrays first.

    Otherwise the log of a number would be a float64 and widen the result.
    """
    def impl(k: Any, x: Any, y: Any) -> Any:
        dtype = x.dtype if hasattr(x, "dtype") else y.dtype
        return formula(k, k.asarray(x, dtype), k.asarray(y, dtype))

    return impl


xlogy = pointwise(
    "xlogy", _times_log("log"),
    lambda g, out, x, y: g * where((x == 0) & (y <= 0), 0.0, log(y)),
    lambda g, out, x, y: g * (x / y), takes="real float", impl=_of_arrays(_times_log("log")),
    doc="x * log(y); 0 where x is 0, nan where y is.",
    example=("[0.0, 2.0]", "[0.0, 1.0]", "[0., 0.]"), space="fw.special")
xlog1py = pointwise(
    "xlog1py", _times_log("log1p"),
    lambda g, out, x, y: g * where((x == 0) & (y <= -1), 0.0, log1p(y)),
    lambda g, out, x, y: g * (x / (y + 1)), takes="real float",
    impl=_of_arrays(_times_log("log1p")), doc="x * log(1 + y); 0 where x is 0, nan where y is.",
    example=("[0.0, 2.0]", "[-1.0, 0.0]", "[0., 0.]"), space="fw.special")


@in_float32
def _entr(k: Any, x: Any) -> Any:
    return k.where(x == 0, 0.0, k.where(x < 0, -math.inf, -x * k.log(x)))


entr = pointwise("entr", _entr, lambda g, out, x: g * (-log(x) - 1), takes="real float",
                 doc="-x * log(x); 0 at 0 and -inf below.", example=("[0.0, -1.0]", "[  0., -inf]"),
                 space="fw.special")
