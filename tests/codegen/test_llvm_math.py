"""Functions stay within 4 units in the last place and treat special values as NumPy does."""

import numpy as np
import pytest
from vector_math import BITS, F32, F64, UNARY, UNITS, Functions, errors, wrong

BINARY = {"atan2": np.arctan2, "pow": np.power, "hypot": np.hypot}


def compute(operations, dtype, arrays, target="", lanes=16):
    """Each operation on the arrays, by one native program."""
    run = Functions(operations, dtype, arrays[0].size, target, lanes, len(arrays))
    return run(*arrays)


def everywhere(dtype, rng, count=4000):
    """Numbers of all sizes and signs, with those at which functions are hard."""
    info = np.iinfo(BITS[dtype])
    any_bits = rng.integers(info.min, info.max, count, BITS[dtype]).view(dtype)
    scales = np.repeat([1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4], count)
    usual = rng.standard_normal(scales.size) * scales
    near_one = 1 + rng.standard_normal(count) * np.resize([1e-6, 1e-3, 0.3], count)
    quarters = np.arange(-count, count) * (np.pi / 2)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1e-40, -1e-45, 5e-324, 88.7]
    special += [88.73, -87.4, -103.5, -104.5, 709.7, 709.9, -745.0, -746.0, 1e6, 1e7, 3e38, 1e300]
    with np.errstate(over="ignore"):
        parts = [any_bits, usual, near_one, quarters, special, rng.uniform(-1, 1, count)]
        return np.concatenate([np.asarray(p).astype(dtype) for p in parts])


def check(name, got, arrays, function, units=UNITS):
    """Compares with the function in higher precision."""
    with np.errstate(all="ignore"):
        exact = np.asarray(function(*(a.astype(np.longdouble) for a in arrays)), np.longdouble)
    off = errors(got, exact)
    worst = int(np.argmax(off))
    assert off[worst] <= units, f"{name}{[a[worst] for a in arrays]}: {off[worst]} units"
    places = np.flatnonzero(wrong(got, exact))[:3]
    assert not places.size, f"{name}: {[(a[places]) for a in arrays]} gave {got[places]}"


def test_functions_of_a_sample_of_all_float32():
    """Bit patterns the same way apart, other ones on each processor: `exhaustive_math.py` tries
    all of them."""
    for start, target in enumerate(("", "x86-64-v3")):
        bits = np.arange(start * 19999, 1 << 32, 39983, dtype=np.int64)
        x = bits.astype(np.uint32).view(F32)
        for name, got in compute(list(UNARY), F32, [x], target).items():
            check(name, got, [x], UNARY[name])


@pytest.mark.parametrize("target", ["", "x86-64-v3"])
def test_functions_of_float32(target):
    x = everywhere(F32, np.random.default_rng(0))
    for name, got in compute(list(UNARY), F32, [x], target).items():
        check(name, got, [x], UNARY[name])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_functions_without_fused_multiply_add(dtype):
    x = everywhere(dtype, np.random.default_rng(0), 100)
    names = [n for n in UNARY if dtype == F32 or n != "erf"]  # no exact erf for float64 here
    for name, got in compute(names, dtype, [x], "x86-64").items():
        check(name, got, [x], UNARY[name])


def test_functions_of_float64():
    x = everywhere(F64, np.random.default_rng(0), 2000)
    names = [n for n in UNARY if n != "erf"]
    for name, got in compute(names, F64, [x], lanes=8).items():
        check(name, got, [x], UNARY[name])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_functions_of_two_numbers(dtype):
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 3, -3, -2, 1e-40, 1e30, -0.5]
    grid = np.meshgrid(np.array(special, dtype), np.array(special, dtype))
    usual = rng.standard_normal((2, 4000)) * 4
    powers = [np.abs(1 + rng.standard_normal(4000) * 0.3), rng.standard_normal(4000) * 60]
    pairs = [
        np.concatenate([grid[i].ravel(), usual[i].astype(dtype), powers[i].astype(dtype)])
        for i in range(2)
    ]
    for name, got in compute(list(BINARY), dtype, pairs).items():
        check(name, got, pairs, BINARY[name])


@pytest.mark.parametrize("name", ["int8", "uint8", "int64"])
def test_powers_of_integers_wrap_and_negative_ones_are_whole(name):
    dtype = np.dtype(name)
    bases, exponents = np.arange(-3, 10).astype(dtype), np.arange(-3, 12).astype(dtype)
    x, y = (a.ravel() for a in np.meshgrid(bases, exponents))
    one = np.where(np.abs(x) == 1, x, 0).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = np.where(y < 0, one ** np.abs(y), x ** np.abs(y))
    np.testing.assert_array_equal(compute(["pow"], dtype, [x, y])["pow"], wanted)


def test_scalars_give_what_vectors_give():
    x = everywhere(F32, np.random.default_rng(1), 50)
    names = list(UNARY)
    scalars, vectors = (compute(names, F32, [x], lanes=lanes) for lanes in (0, 8))
    for name in names:
        np.testing.assert_array_equal(scalars[name], vectors[name], name)
