"""Computes modified Bessel functions of the second kind, and the first spherical Bessel function.

The formulas are computed in float64 and rounded once, as in `special.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ..elementwise.pointwise import abs, cos, where
from .special import polynomial, smooth

__all__: list[str] = []

# Chebyshev coefficients of sqrt(x) exp(x) K(x) in 4 / x - 1, for x from 2 to infinity.
_LARGE = (
    (2.4403030820659555, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
     1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07,
     -4.660489897687948e-08, 8.574034017414225e-09, -1.6975345093890614e-09,
     3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
     -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13,
     8.032890775068375e-14, -2.2275133267462965e-14, 6.340076476276646e-15,
     -1.848593377920907e-15, 5.5120559994043335e-16, -1.6782311257549006e-16,
     5.2103917776435543e-17, -1.6475805939842632e-17, 5.3004337711773354e-18,
     -1.7331712005821001e-18),
    (2.7206261904844427, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
     -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07,
     5.7410841254500495e-08, -1.0345762465678097e-08, 2.0150497551970347e-09,
     -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11,
     5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13,
     -8.976705182010146e-14, 2.4771544242195988e-14, -7.0198370892147685e-15,
     2.038703166239861e-15, -6.057047270643018e-16, 1.8380935752430455e-16,
     -5.689462849193648e-17, 1.7940510478863572e-17, -5.7567444820733025e-18,
     1.8778651901623268e-18))
_TERMS = 16  # of the power series in (x / 2) ** 2, up to 1


def _chebyshev(t: Any, coefficients: Sequence[float]) -> Any:
    """c[0] / 2 + c[1] T_1(t) + ... + c[n] T_n(t), by Clenshaw's rule."""
    *rest, before, last = coefficients
    next_sum, total = last, before + 2.0 * t * last
    for c in reversed(rest[1:]):
        next_sum, total = total, 2.0 * t * total - next_sum + c
    return t * total - next_sum + rest[0] * 0.5


def _digamma(n: int) -> float:
    """The digamma function at a whole number from 1 on."""
    return math.fsum(1.0 / j for j in range(1, n)) - 0.57721566490153286061


def _series(k: Any, x: Any, order: int) -> Any:
    """K of order 0 or 1 for x from 0 to 2, by its power series."""
    square = x * x * 0.25
    first = [1.0 / (math.factorial(j) * math.factorial(j + order)) for j in range(_TERMS)]
    if order == 0:
        other = [_digamma(j + 1) * c for j, c in enumerate(first)]
        return polynomial(square, other[::-1]) - k.log(x * 0.5) * polynomial(square, first[::-1])
    other = [0.5 * (_digamma(j + 1) + _digamma(j + 2)) * c for j, c in enumerate(first)]
    half = x * 0.5
    return 1.0 / x + half * (k.log(half) * polynomial(square, first[::-1])
                             - polynomial(square, other[::-1]))


def _bessel_k(order: int, scaled: bool) -> Any:
    """The formula of K of order 0 or 1; scaled: of exp(x) K(x)."""
    def formula(k: Any, x: Any) -> Any:
        near = k.where(x > 0, k.minimum(x, 2.0), 1.0)
        far = k.maximum(x, 2.0)
        small = _series(k, near, order)
        large = _chebyshev(4.0 / far - 1.0, _LARGE[order]) / k.sqrt(far)
        if scaled:
            small = small * k.exp(near)
        else:
            large = large * k.exp(-far)
        value = k.where(x <= 2.0, small, large)
        return k.where(x == 0, math.inf, k.where(x < 0, math.nan, value))

    return formula


modified_bessel_k0: Callable[..., Tensor] = smooth(
    "modified_bessel_k0", _bessel_k(0, False), lambda g, out, x: -g * modified_bessel_k1(x),
    doc="The modified Bessel function of the second kind of order 0; inf at 0, nan below.",
    example=("[1.0, 2.0]", "[0.42102444, 0.11389387]"))
modified_bessel_k1: Callable[..., Tensor] = smooth(
    "modified_bessel_k1", _bessel_k(1, False),
    lambda g, out, x: -g * (modified_bessel_k0(x) + out / x),
    doc="The modified Bessel function of the second kind of order 1; inf at 0, nan below.",
    example=("[1.0, 2.0]", "[0.60190725, 0.13986588]"))
scaled_modified_bessel_k0: Callable[..., Tensor] = smooth(
    "scaled_modified_bessel_k0", _bessel_k(0, True),
    lambda g, out, x: g * (out - scaled_modified_bessel_k1(x)),
    doc="exp(x) * modified_bessel_k0(x), which does not vanish for large x.",
    example=("[1.0, 200.0]", "[1.1444631 , 0.08856746]"))
scaled_modified_bessel_k1: Callable[..., Tensor] = smooth(
    "scaled_modified_bessel_k1", _bessel_k(1, True),
    lambda g, out, x: g * (out - scaled_modified_bessel_k0(x) - out / x),
    doc="exp(x) * modified_bessel_k1(x), which does not vanish for large x.",
    example=("[1.0, 200.0]", "[1.6361535, 0.0887886]"))


# ---- sin(x) / x
_SPHERICAL = [(-1) ** j / math.factorial(2 * j + 1) for j in range(10)]
_SPHERICAL_SLOPE = [(-1) ** (j + 1) * (2 * j + 2) / math.factorial(2 * j + 3) for j in range(10)]


def _spherical_j0(k: Any, x: Any) -> Any:
    small = k.abs(x) < 1.0
    near = k.where(small, x, 0.0)
    far = k.where(small, 1.0, x)
    value = k.where(small, polynomial(near * near, _SPHERICAL[::-1]), k.sin(far) / far)
    return k.where(k.isinf(x), 0.0, value)


def _spherical_j0_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    small = abs(x) < 1.0
    near, far = where(small, x, 0.0), where(small, 1.0, x)
    slope = where(small, near * polynomial(near * near, _SPHERICAL_SLOPE[::-1]),
                  (cos(far) - out) / far)
    return g * slope


spherical_bessel_j0 = smooth(
    "spherical_bessel_j0", _spherical_j0, _spherical_j0_vjp,
    doc="The spherical Bessel function of the first kind of order 0: sin(x) / x, and 1 at 0.",
    example=("[0.0, 1.0]", "[1.       , 0.84147096]"))
