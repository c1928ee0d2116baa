"""Rows of the special functions. The references are sums, quadratures and Newton's method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, f4, f8, i8, row, special, strided, unary_inputs

import fusewire as fw
from fusewire.eager.ops.special import bessel_k, gamma
from fusewire.eager.ops.special import special as functions


def each(function: Any) -> Any:
    """`function` of one Python float, over arrays; of other dtypes as of floats."""
    return lambda x: np.vectorize(function, otypes=[f8])(x.astype(f8))


def smooth(name: str, reference: Any, low: float, high: float, module: Any = functions,
           op: str = "", **more: Any) -> None:
    """A row of a function of one number."""
    call = getattr(module, name)
    makers = [arrays(shape, low=low, high=high) for shape in ((3, 5), (), (0, 4), (2, 1, 7))]
    makers += [arrays((2, 3), dtypes=f8, low=low, high=high), strided(1, f8, low, high)]
    row(op or name, call, makers, reference,
        **{"label": name if op else "", "errors": (
            Bad(lambda: call("x"), "takes tensors, not str"),
            Bad(lambda: call(fw.zeros(2, dtype=fw.complex64)), "takes real floating point"),),
           **more})


def quadrature(function: Any, start: float, stop: float) -> float:
    """The integral of a smooth function, by Gauss and Legendre."""
    at, weights = np.polynomial.legendre.leggauss(60)
    half = (stop - start) / 2
    return float((function(start + half * (at + 1)) * weights).sum() * half)


def inverted(function: Any, slope: Any) -> Any:
    """Newton's method for the inverse of an increasing function of one number."""
    def inverse(y: float) -> float:
        x = 0.0
        for _ in range(60):
            x -= (function(x) - y) / slope(x)
        return x

    return inverse


def carried_up(x: float, n: int) -> float:
    """The n-th derivative of digamma, by its recurrence from far away."""
    sign = (-1.0) ** (n + 1) * math.factorial(n)
    terms = [sign / (x + j) ** (n + 1) for j in range(60)]
    z = x + 60
    if n == 0:
        far = math.log(z) - 1 / (2 * z) - 1 / (12 * z ** 2) + 1 / (120 * z ** 4)
    else:
        far = sign * (1 / (n * z ** n) + 1 / (2 * z ** (n + 1)) + (n + 1) / (12 * z ** (n + 2))
                      - (n + 1) * (n + 2) * (n + 3) / (720 * z ** (n + 4)))
    return math.fsum(terms) + far


def normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


# ---- error functions
smooth("erfc", each(math.erfc), -3, 3)
row("erfc", functions.erfc, [special(1), special(1, f8), arrays((4,), dtypes=i8)], each(math.erfc),
    label="specials")
smooth("erfcx", each(lambda x: math.exp(x * x) * math.erfc(x)), -2, 3)
smooth("erfinv", each(inverted(math.erf, lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x))),
       -0.9, 0.9)
smooth("ndtr", each(normal), -3, 3)
smooth("ndtri", each(inverted(normal, lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi))),
       0.02, 0.98)
smooth("log_ndtr", each(lambda x: math.log(normal(x))), -4, 3)

# ---- sinc and its derivatives
SINC = unary_inputs("float", -4, 4, False)
row("sinc", functions.sinc, [*SINC, lambda rng: (np.array([0.0, 1, -2, 0.3]),)],
    lambda x: np.sinc(x.astype(f8)), errors=(
        Bad(lambda: functions.sinc(fw.zeros(1, dtype=fw.complex64)), "sinc: takes real floating"),))
for order in (1, 2, 3):
    row("sinc", lambda x, n=order: fw.eager.core.dispatch.apply(functions.sinc_op, (x,),
                                                                {"order": n}),
        [arrays((9,), dtypes=f8), lambda rng: (np.array([0.0, 1e-9, 0.5, -1, 1]),)],
        each(lambda x, n=order: quadrature(
            lambda t: (math.pi * t) ** n * np.cos(math.pi * x * t + n * math.pi / 2), 0, 1)),
        label=f"derivative {order}")

# ---- Bessel functions
for name, order in (("i0", 0), ("i1", 1), ("i0e", 0), ("i1e", 1)):
    def bessel(x: float, order: int = order, scaled: bool = name.endswith("e")) -> float:
        return quadrature(lambda t: np.exp(x * np.cos(t) - scaled * abs(x)) * np.cos(order * t),
                          0, math.pi) / math.pi

    smooth(name, each(bessel), 0.2, 4, op="bessel_i")
    row("bessel_i", getattr(functions, name), [arrays((40,), dtypes=f8, low=-60, high=60)],
        each(bessel), label=f"{name} far")

for name, order in (("modified_bessel_k0", 0), ("modified_bessel_k1", 1),
                    ("scaled_modified_bessel_k0", 0), ("scaled_modified_bessel_k1", 1)):
    def second_kind(x: float, order: int = order, scaled: bool = name[0] == "s") -> float:
        t = np.arange(-300, 301) * 0.04
        return float(np.exp(x * scaled - x * np.cosh(t) + order * t).sum() * 0.02)

    smooth(name, each(second_kind), 0.2, 5, module=bessel_k)
    row(name, getattr(bessel_k, name), [arrays((40,), dtypes=f8, low=1e-4, high=60)],
        each(second_kind), label="far")
    row(name, getattr(bessel_k, name), [lambda rng: (np.array([0.0, -1.0, np.nan, np.inf]),)],
        lambda x: np.array([np.inf, np.nan, np.nan, 0.0]), label="specials", grad=False)
smooth("spherical_bessel_j0", lambda x: np.sinc(x.astype(f8) / np.pi), -9, 9, module=bessel_k)
row("spherical_bessel_j0", bessel_k.spherical_bessel_j0,
    [lambda rng: (np.array([0.0, 1e-9, -1.0, 0.999]),)], lambda x: np.sinc(x / np.pi), label="near")

# ---- logarithms
XLOG = [arrays((3, 5), (3, 5), low=0.2), arrays((2, 1), (3,), dtypes=f8, low=0.2),
        strided(2, low=1), arrays((), (4,), dtypes=(f4, f8), low=0.2), arrays((0, 2), (2,))]
for name, reference in (("xlogy", lambda x, y: x * np.log(y)),
                        ("xlog1py", lambda x, y: x * np.log1p(y))):
    row(name, getattr(functions, name), XLOG, reference, errors=(
        Bad(lambda f=name: getattr(functions, f)(fw.zeros(2), fw.zeros(3)),
            f"{name}: shapes (2,) and (3,) do not broadcast"),))
smooth("entr", lambda x: -x.astype(f8) * np.log(x.astype(f8)), 0.2, 3)

# ---- the gamma function's relatives
smooth("lgamma", each(math.lgamma), 0.1, 9, module=gamma)
row("lgamma", gamma.lgamma, [lambda rng: (np.array([-0.3, -1.5, -2.7, 20.0, 1.0, 2.0, 1e9]),)],
    each(math.lgamma), label="places", grad=False)
smooth("digamma", each(lambda x: carried_up(x, 0)), 0.1, 9, module=gamma)
for n in (1, 2, 4):
    row("polygamma", lambda x, n=n: gamma.polygamma(n, x),
        [arrays((3, 4), dtypes=f8, low=0.3, high=9), arrays((5,), low=0.5), arrays((0,)),
         lambda rng: (np.array([-0.3, -1.6, -2.25]),)],
        each(lambda x, n=n: carried_up(x, n)), label=f"{n}", tolerance=5e-6, errors=(
            Bad(lambda: gamma.polygamma(-1, fw.ones(2)), "polygamma: n must be at least 0"),
            Bad(lambda: gamma.polygamma(fw.ones(2), 1), "polygamma: n must be a whole number")))


def zeta(s: Array, q: Array) -> Array:
    j = np.arange(400.0)
    s, q = np.broadcast_arrays(s, q)
    far = q + 400
    return (q[..., None] + j).__pow__(-s[..., None]).sum(-1) + far ** (1 - s) / (s - 1) \
        + far ** -s / 2 + s * far ** (-s - 1) / 12


row("zeta", lambda q: gamma.zeta(2.5, q), [arrays((3, 4), low=0.3), arrays((2,), dtypes=f8, low=1)],
    lambda q: zeta(np.array(2.5), q), label="of q")
row("zeta", gamma.zeta, [arrays((3, 1), (4,), low=1.5), arrays((2,), (2,), dtypes=f8, low=1.5)],
    zeta, grad=False, errors=(
        Bad(lambda: gamma.zeta(fw.zeros(2), fw.zeros(3)), "zeta: shapes (2,) and (3,) do not"),
        Bad(lambda: gamma.zeta(fw.tensor(2.0, requires_grad=True), 1.0).backward(),
            "zeta: there is no gradient for its first argument")))


def lower_gamma(a: Array, x: Array) -> Array:
    terms = [x ** n / np.prod([a + j for j in range(n + 1)], axis=0) for n in range(120)]
    return x ** a * np.exp(-x) * sum(terms) / np.vectorize(math.gamma, otypes=[f8])(a)


GAMMAINC = [arrays((3, 4), (3, 4), low=0.5), arrays((2, 1), (3,), dtypes=f8, low=0.5, high=9),
            arrays((0,), (1,)), arrays((), (), dtypes=f8, low=0.5)]
for name, reference in (("gammainc", lower_gamma),
                        ("gammaincc", lambda a, x: 1 - lower_gamma(a, x))):
    row("gammainc", getattr(gamma, name), GAMMAINC, reference, label=name, grad=False, errors=(
        Bad(lambda f=name: getattr(gamma, f)(fw.zeros(2), fw.zeros(3)),
            f"{name}: shapes (2,) and (3,) do not"),))
    row("gammainc", lambda x, f=name: getattr(gamma, f)(1.7, x), [arrays((6,), dtypes=f8, low=0.3)],
        lambda x, r=reference: r(np.full(x.shape, 1.7), x), label=f"{name} of x")
