"""Rows of the pointwise functions that are made of other ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, Make, arrays, b1, c8, f2, f4, f8, i4, i8, row, special, u1

import fusewire as fw

PAIRS = [arrays((3, 5), (5,)), arrays((2, 3), (2, 3), dtypes=f8), arrays((), (2, 3)), special(2),
         special(2, f8)]
WHOLE = [arrays((9,), (9,), dtypes=i8), arrays((9,), (9,), dtypes=(i4, i8))]


def wide(reference: Any) -> Any:
    """`reference` of operands that are floats, even if one is an integer."""
    return lambda *xs: reference(*[x.astype(f8) for x in xs])


# ---- remainders and fractions
row("remainder", fw.fmod, PAIRS, np.fmod, label="fmod", smooth=False, errors=(
    Bad(lambda: fw.fmod(fw.tensor([True]), True), "fmod: takes real numbers, not bool"),
    Bad(lambda: fw.fmod(fw.zeros(2), fw.zeros(3)), "fmod: shapes (2,) and (3,) do not"),))
row("remainder", fw.fmod, [arrays((9,), (9,), dtypes=i8), lambda rng: (
    np.array([7, -7, 7, -7, 6, -128], "i1"), np.array([3, 3, -3, -3, -3, -1], "i1"))],
    np.fmod, label="fmod of integers")
row("remainder", lambda x: fw.fmod(x, 2), [special(1), arrays((9,), dtypes=i8)],
    lambda x: np.fmod(x, 2), label="fmod by 2", grad=False)
row("trunc", fw.frac, [arrays((3, 5)), special(1), arrays((), dtypes=f8)],
    lambda x: x - np.trunc(x), label="frac", smooth=False, errors=(
        Bad(lambda: fw.frac(fw.tensor([1j])), "frac: takes real floating point numbers"),))
for name in ("gcd", "lcm"):
    row(name, getattr(fw, name), [*WHOLE, arrays((3, 1), (4,), dtypes=u1, high=30),
                                  arrays((), (0,), dtypes=i8)], getattr(np, name), errors=(
        Bad(lambda f=name: getattr(fw, f)(fw.ones(2), 2), f"{name}: takes integers, not float32"),
        Bad(lambda f=name: getattr(fw, f)(fw.tensor([1, 2]), fw.tensor([1, 2, 3])),
            f"{name}: shapes (2,) and (3,) do not")))

# ---- extremes, steps and interpolation
for name, op in (("fmax", "maximum"), ("fmin", "minimum")):
    row(op, getattr(fw, name), [*PAIRS, *WHOLE, arrays((3,), (3,), dtypes=b1)], getattr(np, name),
        label=name, smooth=False, errors=(
            Bad(lambda f=name: getattr(fw, f)(fw.tensor([1j]), 1), f"{name}: takes real numbers"),))
row("where", fw.heaviside, [*PAIRS, *WHOLE, arrays((3,), (3,), dtypes=b1)],
    lambda x, v: np.heaviside(x, v), label="heaviside", smooth=False, errors=(
        Bad(lambda: fw.heaviside(fw.tensor([1j]), 1), "heaviside: takes real numbers and bool"),))
for weight in (0, 0.25, 0.75, 1, -1.5):
    row("multiply", lambda x, y, w=weight: fw.lerp(x, y, w), [arrays((2, 3), (3,), dtypes=f8)],
        lambda x, y, w=weight: x + w * (y - x), label=f"lerp by {weight}")
row("multiply", fw.lerp, [arrays((2, 3), (3,), (2, 1), dtypes=f8)],
    lambda x, y, w: x + w * (y - x), label="lerp by a tensor", errors=(
        Bad(lambda: fw.lerp(fw.ones(2), fw.ones(3), 1), "lerp: shapes (2,) and (3,) do not"),))

# ---- scales
row("multiply", fw.deg2rad, [arrays((3, 5), low=-360, high=360), arrays((3,), dtypes=i8),
                             special(1)], wide(np.deg2rad), label="deg2rad")
row("pow", fw.float_power, [arrays((2, 3), (3,), low=0.5), arrays((3,), (3,), dtypes=i8, low=1),
                            arrays((2,), (2,), dtypes=c8, low=1)],
    lambda x, y: np.float_power(x, y), label="float_power", grad=False)
row("exp2", fw.logaddexp2, [*PAIRS[:3], special(2, f8), arrays((3,), (3,), dtypes=i8)],
    wide(np.logaddexp2), label="logaddexp2", tolerance=1e-5)


# ---- mantissas and exponents
def all_exponents(dtype: Any) -> Make:
    """Every power of 2 of a dtype, its neighbours on both sides, and numbers between."""
    info = np.finfo(dtype)
    powers = np.ldexp(np.ones((), dtype), np.arange(info.minexp - info.nmant, info.maxexp))
    powers = powers.astype(dtype)
    odd = np.concatenate([powers, np.nextafter(powers, dtype.type(0)),
                          np.nextafter(powers, dtype.type(np.inf)), [0, np.inf, np.nan]])
    return lambda rng: (np.concatenate([odd, -odd]).astype(dtype),)


for part in (0, 1):
    row("exp2", lambda x, part=part: fw.frexp(x)[part],
        [all_exponents(f4), all_exponents(f8), all_exponents(f2), arrays((2, 3)), arrays(())],
        lambda x, part=part: np.frexp(x)[part], label=f"frexp, {part}",
        grad=False, tolerance=0.0)
row("exp2", lambda x: fw.frexp(x).mantissa, [arrays((2, 3), dtypes=f8)], lambda x: np.frexp(x)[0],
    label="frexp, gradient")


def scaled(dtype: Any) -> Make:
    """Numbers of all sizes, and exponents that make them subnormal, 0 and infinite."""
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        (x,) = all_exponents(dtype)(rng)
        x = np.concatenate([x, rng.uniform(-1, 1, 4000).astype(dtype) * x[:1].dtype.type(1)])
        reach = 2 * (np.finfo(dtype).maxexp - np.finfo(dtype).minexp)
        return x, rng.integers(-reach, reach, x.shape)

    return make


def ldexp_reference(dtype: Any) -> Any:
    return lambda x, n: np.ldexp(x.astype(dtype), n.astype(np.int32))


for dtype in (f2, f4, f8):
    row("exp2", fw.ldexp, [scaled(dtype)] * 4, ldexp_reference(dtype), label=f"ldexp, {dtype}",
        grad=False, tolerance=0.0)
row("exp2", lambda x: fw.ldexp(x, fw.tensor([[1], [-2]], device=x.device)),
    [arrays((2, 3), dtypes=f8)],
    lambda x: x * [[2], [0.25]], label="ldexp, gradient", errors=(
        Bad(lambda: fw.ldexp(fw.ones(2), 0.5), "ldexp: exponents are integers, not float32"),))

# ---- comparisons
CLOSE = [special(2), special(2, f8), arrays((9,), (9,), dtypes=i8), arrays((3,), (3,), dtypes=b1),
         arrays((3, 1), (4,), dtypes=c8),
         lambda rng: (np.array([1.0, 1.0, 0, 100]), np.array([1 + 9e-6, 1 + 2e-5, 1e-8, 100.001])),
         lambda rng: (np.array([2 ** 62, 2 ** 62, -2 ** 63]),
                      np.array([2 ** 62 + 1, 0, 2 ** 63 - 1]))]
for equal_nan in (False, True):
    row("equal", lambda x, y, e=equal_nan: fw.isclose(x, y, equal_nan=e), CLOSE,
        lambda x, y, e=equal_nan: np.isclose(x, y, equal_nan=e), grad=False,
        label=f"isclose, equal_nan={equal_nan}", errors=(
            Bad(lambda: fw.isclose(fw.ones(2), 1, rtol=-1), "isclose: rtol must be at least 0"),
            Bad(lambda: fw.isclose(fw.ones(2), fw.ones(3)), "isclose: shapes (2,) and (3,)"),
            Bad(lambda: fw.allclose(fw.ones(2), 1, atol=fw.nan), "allclose: atol must be at")))
row("equal", lambda x, y: fw.isclose(x, y, rtol=0, atol=0),
    [lambda rng: (np.array([2 ** 53, -2 ** 63, 5]), np.array([2 ** 53 + 1, 2 ** 63 - 1, 5]))],
    lambda x, y: np.equal(x, y), label="isclose of large integers", grad=False)
row("equal", fw.allclose, CLOSE, np.allclose, label="allclose", grad=False)
for name in ("isneginf", "isposinf"):
    row("isinf", getattr(fw, name), [special(1), arrays((3,), dtypes=i8), arrays(())],
        getattr(np, name), label=name, grad=False, errors=(
            Bad(lambda f=name: getattr(fw, f)(fw.tensor([1j])), f"{name}: complex numbers have"),))
row("equal", fw.isreal, [lambda rng: (np.array([1, 1j, 0, np.nan, 1j * np.nan]),)], np.isreal,
    label="isreal", grad=False)
row("full", fw.isreal, [arrays((2, 3)), arrays((), dtypes=i8)], np.isreal, label="isreal, real",
    grad=False)
