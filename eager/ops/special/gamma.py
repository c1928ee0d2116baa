"""Computes relatives of the gamma function: lgamma, digamma, polygamma, zeta, incomplete gamma."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ...arguments import check_whole, names_itself
from ...arrays import cpu_kernels
from ...arrays.shapes import TensorType, broadcast
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor
from ...errors import GradientError
from .. import batching
from ..create import full
from ..declare import prepare, result_rule
from ..elementwise.pointwise import exp
from ..shape.view import expand_to
from .special import erfc_formula, polynomial, rounded_to, smooth, widened, xlogy

__all__ = ["digamma", "lgamma", "polygamma"]

# B(2), B(4), ...: Bernoulli's numbers
_BERNOULLI = [Fraction(*r) for r in (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730))]

# lgamma(2 + u) / u for |u| <= 1/2, fitted with mpmath in 60 digits: the error is below 1e-18
_NEAR_TWO = (
    -1.3219945666117874478e-7, 2.7874080521135899778e-7, -4.325239344560481638e-7,
    9.2005278949681004906e-7, -2.0439048107029906744e-6, 4.384704404598360326e-6,
    -9.4387150992115326607e-6, 0.00002050559075583345311, -0.000044926313379155697453,
    0.000099457673558194982074, -0.0002231547540052050773, 0.00050966951541154583479,
    -0.0011927539118428156859, 0.002890510331034266859, -0.0073855510286719983953,
    0.020580808427780380065, -0.06735230105319810342, 0.32246703342411323562,
    0.42278433509846713939)
_STIRLING = [float(b / (2 * j * (2 * j - 1))) for j, b in enumerate(_BERNOULLI[:9], 1)]


def _sine(k: Any, a: Any) -> Any:
    """|sin(pi a)|, from the distance of a to the nearest whole number, which is exact."""
    return k.abs(k.sin((a - k.round(a)) * math.pi))


def lgamma_formula(k: Any, x: Any) -> Any:
    """lgamma(x): Stirling's series from 8 on, else lgamma(2 + u) = u p(u) after a shift to near 2.

    Within 1/2 of 0, u is x itself; below -1/2 the reflection formula applies.
    """
    a = k.abs(x)
    t = k.minimum(a, 8.0)
    factor = t * 0.0 + 1.0
    for _ in range(6):
        high = t > 2.5
        t = k.where(high, t - 1.0, t)
        factor = k.where(high, factor * t, factor)
    inner, low = a < 0.5, a < 1.5
    u = k.where(inner, x, k.where(low, t - 1.0, t - 2.0))
    logarithm = k.log(k.where(inner, a * (1.0 + x), k.where(low, t, factor)))
    near = u * polynomial(u, _NEAR_TWO) + k.where(low, -logarithm, logarithm)
    far = k.maximum(a, 8.0)
    inverse = 1.0 / far
    stirling = (far - 0.5) * (k.log(far) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5) \
        + inverse * polynomial(inverse * inverse, _STIRLING[::-1])
    value = k.where(a < 8.0, near, stirling)
    mirrored = (math.log(math.pi) - k.log(k.maximum(a, 0.5) * _sine(k, a))) - value
    value = k.where(x <= -0.5, mirrored, value)
    return k.where(k.isinf(x), math.inf, value)


def _cotangent(k: Any, x: Any) -> Any:
    """cot(pi x)."""
    return 1.0 / k.tan((x - k.round(x)) * math.pi)


def _digamma(k: Any, x: Any) -> Any:
    """digamma(x): its asymptotic series from 10 on, after a shift; reflection below 0."""
    z = k.where(x < 0, 1.0 - x, x)
    above = k.minimum(k.abs(z), 10.0) * 0.0  # the sum of 1 / z carried, as a fraction
    below = above + 1.0
    for _ in range(10):
        low = z < 10.0
        above = k.where(low, above * z + below, above)
        below = k.where(low, below * z, below)
        z = k.where(low, z + 1.0, z)
    inverse = 1.0 / (z * z)
    series = inverse * polynomial(inverse, [float(b / (2 * j)) for j, b in
                                            enumerate(_BERNOULLI[:8], 1)][::-1])
    value = k.log(z) - 0.5 / z - series - above / below
    value = k.where(x < 0, value - math.pi * _cotangent(k, x), value)
    return k.where((x < 0) & (x == k.round(x)), math.nan, value)


def _lgamma_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    return g * digamma(x)


def _digamma_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    return g * polygamma(1, x)


lgamma = smooth("lgamma", lgamma_formula, _lgamma_vjp,
                doc="log(|gamma(x)|) of the gamma function; inf at 0, -1, -2, ...",
                example=("[1.0, 5.0, 0.0]", "[0.       , 3.1780539,       inf]"))
digamma = smooth("digamma", _digamma, _digamma_vjp,
                 doc="The derivative of lgamma; nan at -1, -2, ...",
                 example=("[1.0, -1.0]", "[-0.5772157,        nan]"))


# ---- Hurwitz's zeta function and the derivatives of digamma
def _hurwitz(s: Any, q: Any, power: Callable[[Any, float], Any]) -> Any:
    """The sum of (q + j) ** -s for j = 0, 1, ..., by Euler and Maclaurin from 10 on.

    power(v, 0.0) is v ** -s, power(v, 1.0) is v ** (1 - s).
    """
    w = q + 10.0
    integral = power(w, 1.0)
    last = integral / w
    total = last * 0.5 + integral / (s - 1.0)
    part = last * s / w
    for j, b in enumerate(_BERNOULLI, 1):
        total = total + part * float(b / math.factorial(2 * j))
        part = part * ((s + (2.0 * j - 1.0)) * (s + 2.0 * j)) / (w * w)
    for j in range(9, -1, -1):
        total = total + power(q + float(j), 0.0)
    return total


def _polygamma(k: Any, x: Any, n: int) -> Any:
    """The n-th derivative of digamma; below 0, derivatives of pi cot(pi x) reflect it."""
    wide = widened(k, x)

    def power(v: Any, more: float) -> Any:
        inverse = 1.0 / v
        total = inverse
        for _ in range(n - int(more)):
            total = total * inverse
        return total

    q = k.where(wide < 0, 1.0 - wide, wide)
    value = _hurwitz(float(n + 1), q, power) * (math.factorial(n) * (-1.0) ** (n + 1))
    mirrored = value * (-1.0) ** n - math.pi * polynomial(
        _cotangent(k, wide), _cotangent_derivative(n)[::-1])
    return rounded_to(k, k.where(k.isinf(x) & (x > 0), 0.0, k.where(wide < 0, mirrored, value)),
                      x.dtype)


def _cotangent_derivative(n: int) -> list[float]:
    """The n-th derivative of cot(pi x), as a polynomial in cot(pi x)."""
    coefficients = [0.0, 1.0]
    for _ in range(n):
        slopes = [-math.pi * i * c for i, c in enumerate(coefficients)][1:]
        coefficients = [a + b for a, b in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes])]
    return coefficients


def _polygamma_vjp(g: Tensor, out: Tensor, x: Tensor, n: int) -> Tensor:
    return g * apply(polygamma_op, (x,), {"n": n + 1})


polygamma_op = define(Op("polygamma", "pointwise", result_rule("polygamma", "same"), _polygamma,
                         _polygamma, each(_polygamma_vjp)))


@names_itself
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of `digamma` at `x`, of the shape of `x`.

    Args:
        n: a whole number of 0 or more.

    Raises:
        ArgumentError: `n` is negative or no int.

    Example:
        >>> import fusewire as fw
        >>> fw.polygamma(1, fw.tensor([1.0]))
        tensor([1.644934])
    """
    check_whole("polygamma", "n", n, 0)
    if n == 0:
        return digamma(x)
    return apply(polygamma_op, prepare("polygamma", (x,), "real float"), {"n": n})


def _zeta(k: Any, s: Any, q: Any) -> Any:
    dtype, s, q = s.dtype, widened(k, s), widened(k, q)
    value = _hurwitz(s, k.where(q > 0, q, 1.0), lambda v, more: k.pow(v, more - s))
    value = k.where(q > 0, value, math.nan)
    value = k.where((q <= 0) & (q == k.floor(q)), math.inf, value)
    value = k.where(s == 1, math.inf, k.where(k.isinf(q) & (q > 0) & (s > 1), 0.0, value))
    return rounded_to(k, k.where(s < 1, math.nan, value), dtype)


def _no_gradient(name: str) -> Callable[..., Any]:
    def rule(*args: Any, **params: Any) -> Any:
        raise GradientError(f"{name}: there is no gradient for its first argument",
                            "detach it: only the second argument may require a gradient")

    return rule


def _zeta_vjp(g: Tensor, out: Tensor, s: Tensor, q: Tensor) -> Tensor:
    return -g * s * apply(zeta_op, (s + 1, q))


zeta_op = define(Op("zeta", "pointwise", result_rule("zeta", "same"), _zeta, _zeta,
                    each(_no_gradient("zeta"), _zeta_vjp)))


def zeta(x: Any, q: Any) -> Tensor:
    """Hurwitz's zeta function, the sum of (q + j) ** -x for j = 0, 1, ...; shapes broadcast.

    nan for x < 1, and for q < 0. Gradients flow to `q`.

    Raises:
        GradientError: in the backward, if `x` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.special.zeta(fw.tensor(2.0), 1.0)
        tensor(1.644934)
    """
    return apply(zeta_op, _two("zeta", x, q))


def _two(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two tensors of one real float dtype; numbers become tensors."""
    x, y = prepare(name, (x, y), "real float")
    one = x if isinstance(x, Tensor) else y
    return tuple(v if isinstance(v, Tensor)  # type: ignore[return-value]
                 else full((), v, one.dtype, one.device) for v in (x, y))


# ---- the incomplete gamma functions, in NumPy: their loops run until they converge
_MAX_TERMS = 10_000


def _incomplete(xp: Any, a: Any, x: Any, upper: bool) -> Any:
    p, q = (np.asarray(v, np.float64).ravel() for v in np.broadcast_arrays(a, x))
    with np.errstate(all="ignore"):
        value = _corners(p, q, upper)
        usual = np.flatnonzero(np.isnan(value) & (p > 0) & (q > 0))
        value[usual] = _usual(p[usual], q[usual], upper)
    return value.reshape(np.broadcast_shapes(a.shape, x.shape)).astype(a.dtype)


def _corners(a: Any, x: Any, upper: bool) -> Any:
    """The values at 0 and infinity; nan where there is none and where other formulas apply."""
    lower = np.where((x == 0) & (a > 0) | np.isinf(a) & (a > 0) & (x >= 0) & np.isfinite(x), 0.0,
                     np.where((a == 0) & (x > 0) | np.isinf(x) & (x > 0) & np.isfinite(a)
                              & (a >= 0), 1.0, np.nan))
    return 1.0 - lower if upper else lower


def _usual(a: Any, x: Any, upper: bool) -> Any:
    out = np.empty_like(a)
    uniform = (a > 20) & (np.abs(x - a) < 0.3 * a)
    small = ~uniform & (x <= 1.1) & np.where(x <= 0.5, -0.4 / np.log(x) >= a, 0.75 * x >= a)
    series = ~uniform & ~small & ((x <= 1.1) | (x < a))
    fraction = ~uniform & ~small & ~series
    for mask, function, gives_upper in (
            (uniform, functools.partial(_uniform, upper=upper), upper), (small, _small, True),
            (series, _series, False), (fraction, _fraction, True)):
        if mask.any():
            value = function(a[mask], x[mask])
            out[mask] = value if gives_upper == upper else 1.0 - value
    return out


def _deviation(a: Any, x: Any) -> Any:
    """mu - log(1 + mu) for mu = x / a - 1, without cancellation near 0."""
    mu = (x - a) / a
    s = mu / (2.0 + mu)
    square = s * s
    tail = polynomial(square, [1.0 / (2 * j + 3) for j in range(14, -1, -1)])
    return np.where(np.abs(mu) < 0.3, mu * s - 2.0 * s * square * tail, mu - np.log(x / a))


def _power_term(a: Any, x: Any) -> Any:
    """x ** a exp(-x) / gamma(a + 1)."""
    plain = np.exp(a * np.log(x) - x - lgamma_formula(cpu_kernels, a + 1.0))
    inverse = 1.0 / np.maximum(a, 10.0)
    stirling = np.exp(-inverse * polynomial(inverse * inverse, _STIRLING[::-1]))
    large = np.exp(-a * _deviation(a, x)) * stirling / np.sqrt(2 * np.pi * a)
    return np.where(a < 10.0, plain, large)


def _series(a: Any, x: Any) -> Any:
    """The lower function by its power series."""
    term = total = np.ones_like(a)
    for n in range(1, _MAX_TERMS):
        term = term * (x / (a + n))
        total = total + term
        if (term <= 1e-17 * total).all():
            break
    return _power_term(a, x) * total


def _small(a: Any, x: Any) -> Any:
    """The upper function for small x: 1 - x ** a / gamma(a + 1), less the rest of the series."""
    term, total = np.ones_like(a), np.zeros_like(a)
    for n in range(1, _MAX_TERMS):
        term = term * (-x / n)
        total = total + term / (a + n)
        if (np.abs(term) <= 1e-17 * np.abs(total)).all():
            break
    lead = a * np.log(x) - _lgamma_of_one_more(a)
    return -np.expm1(lead) - np.exp(lead) * a * total


def _lgamma_of_one_more(a: Any) -> Any:
    """lgamma(1 + a) for small a, exact near 0."""
    return np.where(a < 0.5, a * polynomial(np.minimum(a, 0.5), _NEAR_TWO) - np.log1p(a),
                    lgamma_formula(cpu_kernels, a + 1.0))


def _fraction(a: Any, x: Any) -> Any:
    """The upper function by its continued fraction, evaluated forwards (Lentz)."""
    b = x + 1.0 - a
    c, d = np.full_like(a, 1e300), 1.0 / b
    value = d
    for n in range(1, _MAX_TERMS):
        factor = -n * (n - a)
        b = b + 2.0
        d, c = 1.0 / (factor * d + b), b + factor / c
        value = value * (c * d)
        if (np.abs(c * d - 1.0) < 1e-16).all():
            break
    return _power_term(a, x) * a * value


def _uniform(a: Any, x: Any, upper: bool) -> Any:
    """Temme's expansion (1979), for large a and x near it."""
    half_square = _deviation(a, x)
    eta = np.copysign(np.sqrt(2.0 * half_square), x - a)
    total = np.zeros_like(a)
    for row in _temme()[::-1]:
        total = total / a + polynomial(eta, row[::-1])
    rest = np.exp(-a * half_square) / np.sqrt(2 * np.pi * a) * total
    sign = 1.0 if upper else -1.0
    return erfc_formula(cpu_kernels, sign * eta * np.sqrt(a / 2)) / 2 + sign * rest


@functools.cache
def _temme() -> list[list[float]]:
    """The coefficients of eta ** n in the term a ** -k, from exact fractions."""
    alpha = [Fraction(0), Fraction(1), Fraction(1, 3)]
    while len(alpha) < 52:
        n = len(alpha)
        products = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - products) / (n + 1))
    base = [(n + 2) * alpha[n + 2] for n in range(46)]
    base[0] -= 1  # 1 / (lambda - 1) - 1 / eta begins with -1/3
    rows = [base]
    for k in range(1, 14):
        double_factorial = math.prod(range(1, 2 * k + 2, 2))
        gamma = (-1) ** k * double_factorial * alpha[2 * k + 1]
        before = rows[-1]
        rows.append([gamma * base[n] + (n + 2) * before[n + 2] for n in range(len(before) - 2)])
    return [[float(c) for c in row[:18]] for row in rows]


def _incomplete_vjp(g: Tensor, out: Tensor, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    density = exp(xlogy(a - 1, x) - x - lgamma(a))
    return -g * density if upper else g * density


incomplete_op = define(Op(
    "gammainc", "opaque", lambda a, x, upper: TensorType(broadcast("gammainc", a.shape, x.shape),
                                                         a.dtype),
    _incomplete, None, each(_no_gradient("gammainc"), _incomplete_vjp), batch=batching.leading,
    why={"meaning": "its loops run until they converge",
         "onnx": "ONNX has no loop over an element that runs until it converges"}))


def gammainc(a: Any, x: Any) -> Tensor:
    """The regularized lower incomplete gamma function of `a` at `x`, from 0 to 1; shapes broadcast.

    Gradients flow to `x`.

    Raises:
        GradientError: in the backward, if `a` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.special.gammainc(1.0, fw.tensor([0.0, 1.0]))
        tensor([0.        , 0.63212055])
    """
    return _gammainc(a, x, False)


@names_itself
def gammaincc(a: Any, x: Any) -> Tensor:
    """1 - gammainc(a, x), accurate also where it is small; shapes broadcast. See `gammainc`.

    Example:
        >>> import fusewire as fw
        >>> fw.special.gammaincc(1.0, fw.tensor([0.0, 1.0]))
        tensor([1.        , 0.36787945])
    """
    return _gammainc(a, x, True)


def _gammainc(a: Any, x: Any, upper: bool) -> Tensor:
    a, x = _two("gammainc", a, x)
    shape = broadcast("gammainc", a.shape, x.shape)
    return apply(incomplete_op, (expand_to(a, shape), expand_to(x, shape)), {"upper": upper})


# ---- sums of lgamma
@names_itself
def betaln(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function, lgamma(a) + lgamma(b) - lgamma(a + b); shapes broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.special.betaln(fw.tensor(2.0), fw.tensor(3.0))
        tensor(-2.4849067)
    """
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@names_itself
def multigammaln(a: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`, of the shape of `a`.

    Raises:
        ArgumentError: `p` is not a whole number of 1 or more.

    Example:
        >>> import fusewire as fw
        >>> fw.special.multigammaln(fw.tensor(2.0), 2)
        tensor(0.45158267)
    """
    check_whole("multigammaln", "p", p, 1)
    total = lgamma(a) + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(1, p):
        total = total + lgamma(a - j / 2)
    return total
