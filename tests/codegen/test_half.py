"""float16 and bfloat16 in native code: 16 bits in memory, float32 arithmetic, rounded after each
operation, on processors with instructions for it and without."""

import numpy as np
import pytest
from loop_kernels import BOOL, F32, F64, INTS, TARGETS, TASK, loop

from fusewire.codegen.ir.loop_ir import Kernel, KernelBuffer, Store, Var, call, load
from fusewire.codegen.program.native_program import Argument, ProgramStep, build
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.dtypes import bfloat16, float16

SMALL = {"float16": float16, "bfloat16": bfloat16}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of nan and inf


def compute(op, arrays, dtype, result, target="", lanes=16):
    """`op`, computed in `dtype`, of arrays, as one native loop."""
    inputs = [KernelBuffer(f"x{i}", a.dtype, a.size) for i, a in enumerate(arrays)]
    out, j = KernelBuffer("y", result, arrays[0].size), Var("j")
    value = call(op, tuple([load(b, j) for b in inputs]), dtype)
    body = (loop(j, out.size, Store(out, j, value), lanes=lanes),)
    kernel = Kernel("test", tuple(inputs), (out,), (), TASK, 1, body)
    made = np.empty(out.size, result)
    arrays = [np.ascontiguousarray(a) for a in (*arrays, made)]
    table = np.array([a.ctypes.data for a in arrays])
    steps = [ProgramStep(kernel, [Argument(i) for i in range(len(arrays))])]
    build(steps, "test", named(target)).run(table.ctypes.data, 0)
    return arrays[-1]


def every(dtype):
    """All 65,536 numbers of a dtype of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def assert_bits(got, wanted, why=""):
    """Equal to the sign of zero; one nan is as good as another."""
    both = np.isnan(got) & np.isnan(wanted)
    off = np.flatnonzero((got.view(np.uint16) != wanted.view(np.uint16)) & ~both)
    assert not off.size, (why, off.size, got[off[:5]], wanted[off[:5]])


def hard_to_round(dtype, wide):
    """Every number of a small dtype, those in the middle between two of them, and what lies right
    beside, in a wider dtype; and numbers of all sizes, beyond the small dtype's too."""
    numbers = np.sort(every(dtype)[np.isfinite(every(dtype))].astype(F64))
    middle = (numbers[1:] + numbers[:-1]) / 2
    end = numbers[-1] + (numbers[-1] - numbers[-2]) / 2  # from here on it is infinite
    exact = np.concatenate([numbers, middle, [end, -end]]).astype(wide)
    beside = [np.nextafter(exact, wide.type(way)) for way in (-np.inf, np.inf)]
    bits = np.random.default_rng(0).integers(0, 1 << 63, 1 << 15).astype(np.uint64)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45], wide)
    least = np.array([np.finfo(wide).max, np.finfo(wide).tiny, 1 + 2.0**-8 + 2.0**-40], wide)
    return np.concatenate([exact, *beside, special, least, bits.view(wide)])


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_every_number_becomes_the_float_that_it_is(name, target, lanes):
    x = every(SMALL[name])
    for wide in (F32, F64):
        got = compute("cast", [x], wide, wide, target, lanes)
        np.testing.assert_array_equal(got, x.astype(wide))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x.astype(wide)))


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wide", [F32, F64], ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_floats_are_rounded_to_the_nearest(name, wide, target, lanes):
    x = hard_to_round(SMALL[name], wide)
    wanted = x.astype(SMALL[name])
    assert_bits(compute("cast", [x], SMALL[name], SMALL[name], target, lanes), wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_every_number_comes_back_from_memory_as_it_was(name, target):
    x = every(SMALL[name])
    assert_bits(compute("maximum", [x, x], SMALL[name], SMALL[name], target), x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_casts_from_and_to_other_dtypes(name, target):
    dtype, rng = SMALL[name], np.random.default_rng(0)
    numbers = every(dtype)[np.isfinite(every(dtype))]
    for other in (BOOL, *INTS):
        low, top = (0, 1) if other == BOOL else (np.iinfo(other).min, np.iinfo(other).max)
        bits = rng.integers(0, 1 << 63, 5000) >> rng.integers(0, 64, 5000)
        x = np.append(bits, [0, 1, -1]).astype(other)  # of all sizes
        x[:2] = low, top
        wanted = x.astype(dtype)
        assert_bits(compute("cast", [x], dtype, dtype, target), wanted, str(other))
        inside = numbers[(numbers.astype(F64) > low - 1.0) & (numbers.astype(F64) < top + 1.0)]
        inside = inside if other != BOOL else numbers
        got = compute("cast", [inside], other, other, target)
        np.testing.assert_array_equal(got, inside.astype(other), str(other))
    other = SMALL["bfloat16" if name == "float16" else "float16"]
    wanted = every(other).astype(F32).astype(dtype)
    assert_bits(compute("cast", [every(other)], dtype, dtype, target), wanted)


EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
         "nextafter": np.nextafter, "copysign": np.copysign, "minimum": np.minimum}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_operations_round_as_numpy_does(name, target):
    rng = np.random.default_rng(0)
    x, y = rng.permutation(every(SMALL[name])), rng.permutation(every(SMALL[name]))
    y[:1000] = x[:1000]
    for op, function in EXACT.items():
        wanted = function(x, y)
        assert_bits(compute(op, [x, y], SMALL[name], SMALL[name], target), wanted, op)
    assert_bits(compute("sqrt", [x], SMALL[name], SMALL[name], target), np.sqrt(x))
