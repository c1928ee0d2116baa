"""Builds small kernels by hand, and compares native code with the interpreter."""

import numpy as np

from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Store,
    Update,
    Var,
    call,
    const,
    load,
    read,
)
from fusewire.codegen.ir.loop_ir_interpreter import run
from fusewire.codegen.ir.scalar_ops import PREDICATES, SCALAR, TRANSCENDENTAL
from fusewire.codegen.program.native_program import Argument, ProgramStep, build
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.dtypes import bfloat16

F32, F64, BOOL = np.dtype("float32"), np.dtype("float64"), np.dtype("bool")
INTS = [np.dtype(name) for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()]
DTYPES = [BOOL, *INTS, F32, F64]
X86 = named("").triple.startswith(("x86_64", "amd64"))
TARGETS = ["", "x86-64-v3", "x86-64"]
TASK = Var("task")


def add(a, b):
    return call("add", (a, b), INT)


def times(a, factor):
    return call("mul", (a, const(factor)), INT)


def kernel(inputs, outputs, body, tasks=1, scratch=()):
    return Kernel("test", tuple(inputs), tuple(outputs), tuple(scratch), TASK, tasks, tuple(body))


def loop(var, stop, *body, lanes=0, unroll=1, start=0):
    return For(var, const(start), const(stop), body, lanes, unroll)


# Kernels of one thing each


def one_op(op, dtypes, result, lanes, size=27):
    inputs = [KernelBuffer(f"x{i}", t, size) for i, t in enumerate(dtypes)]
    out, j = KernelBuffer("y", result, size), Var("j")
    value = call(op, tuple(load(b, j) for b in inputs), result)
    body = [loop(j, size, Store(out, j, value), lanes=lanes)]
    return Kernel(f"{op} {dtypes}", tuple(inputs), (out,), (), TASK, 1, tuple(body))


ARITY = {name: 2 for name in SCALAR} | dict.fromkeys(
    "neg abs sign floor ceil trunc round sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh erf isnan isinf isfinite signbit not bits "
    "from_bits".split(),
    1,
)
FLOAT_ONLY = {*TRANSCENDENTAL, "div", "sqrt", "copysign", "nextafter"}
BITS = {"and", "or", "xor", "not"}


def accepts(op, dtype):
    """True if kernels use an operation with a dtype."""
    if op in FLOAT_ONLY or op in ("floor", "ceil", "trunc", "round"):
        return dtype.kind == "f"
    if op in BITS:
        return dtype.kind != "f"
    if op in ("shl", "shr"):
        return dtype.kind in "iu"
    if op in ("pair", "dot2", "pair16", "dot16", "quad8", "dot8"):
        return False  # tested with products in pairs
    if op in ("mulhi", "from_bits"):
        return dtype == np.dtype("uint32")
    if op == "bits":
        return dtype in (F32, np.dtype("float64"))
    if dtype.kind == "b":
        return op in "add mul maximum minimum lt le gt ge eq ne".split()
    return op not in ("where", "cast", "idiv", "imod") and not (op == "pow" and dtype.kind != "f")


def result_of(op, dtype):
    """The dtype of the result of an operation on `dtype`."""
    if op == "bits":
        return np.dtype(f"u{dtype.itemsize}")
    if op == "from_bits":
        return F32
    return BOOL if op in PREDICATES else dtype


REDUCTIONS = ["add", "mul", "maximum", "minimum"]


def reduction(op, dtype, size, unroll, masked, lanes=8):
    """y[0] = x[0] op x[1] op ..., over the elements whose flag is set."""
    x, y = KernelBuffer("x", dtype, size), KernelBuffer("y", dtype, 1)
    flags = KernelBuffer("flags", BOOL, size)
    j, r = Var("j"), Register("r", dtype)
    inner = Update(r, op, load(x, j))
    inner = If(load(flags, j), (inner,)) if masked else inner
    start = Assign(r, const(1, dtype))
    body = [start, loop(j, size, inner, lanes=lanes, unroll=unroll), Store(y, const(0), read(r))]
    return kernel([x, flags], [y], body)


def tile(rows, columns, depth, lanes, unroll, columns_known=True):
    """c = a @ b for one tile: a register per row and lane, a serial loop inside the lane loop."""
    a, b = KernelBuffer("a", F32, rows * depth), KernelBuffer("b", F32, depth * columns)
    c, n = KernelBuffer("c", F32, rows * columns), KernelBuffer("n", np.dtype("int64"), 1)
    j, k = Var("j"), Var("k")
    sums = [Register(f"sum{i}", F32) for i in range(rows)]
    column = Register("column", F32)
    inner = [Assign(column, load(b, add(times(k, columns), j)))]
    for i, r in enumerate(sums):
        product = call("mul", (load(a, add(const(i * depth), k)), read(column)), F32)
        inner.append(Update(r, "add", product))
    body = [Assign(r, const(0, F32)) for r in sums]
    body.append(loop(k, depth, *inner, unroll=unroll))
    body += [Store(c, add(const(i * columns), j), read(r)) for i, r in enumerate(sums)]
    stop = const(columns) if columns_known else load(n, const(0))
    outer = For(j, const(0), stop, tuple(body), lanes)
    return kernel([a, b, n], [c], [outer]), {n: np.array([columns])}


# Comparison


def filled(buffer, rng):
    """Random values of all magnitudes, with special ones among them."""
    kind, size = buffer.dtype.kind, buffer.size
    if kind == "b":
        return rng.random(size) < 0.5
    if kind == "f":
        values = (rng.standard_normal(size) * 3).astype(buffer.dtype)
        specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 1e30], buffer.dtype)
        special = rng.random(size) < 0.4
        values[special] = rng.choice(specials, special.sum())
        return values
    info = np.iinfo(buffer.dtype)
    values = rng.integers(info.min, info.max, size, buffer.dtype, endpoint=True)
    small = rng.random(size) < 0.6
    values[small] = rng.integers(-3 if info.min else 0, 7, small.sum()).astype(buffer.dtype)
    return values


def check_all(kernels, target="", seed=0, rtol=0.0, given=None):
    """Compiles the kernels as one program and compares every array with the interpreter's."""
    programs = []

    def run_native(kernels, memory):
        numbers = iter(range(sum(map(len, memory))))
        steps = [ProgramStep(k, [Argument(next(numbers)) for _ in k.arguments]) for k in kernels]
        table = np.array([own[b].ctypes.data for own, k in zip(memory, kernels)
                          for b in k.arguments])
        programs.append(build(steps, "test", named(target)))
        programs[0].run(table.ctypes.data, 0)

    compare_all(kernels, run_native, seed, rtol, given)
    return programs[0]


def compare_all(kernels, run_all, seed=0, rtol=0.0, given=None):
    """Compares every array after run_all(kernels, arrays of each by buffer) with the array that the
    interpreter leaves."""
    rng = np.random.default_rng(seed)
    memory = [{b: given[b].copy() if given and b in given else filled(b, rng)
               for b in k.arguments} for k in kernels]
    expected = [{b: a.copy() for b, a in own.items()} for own in memory]
    for k, own in zip(kernels, expected):
        run(k, own)
    run_all(kernels, memory)
    for k, got, own in zip(kernels, memory, expected):
        for b in k.arguments:
            same(got[b], own[b], rtol, f"{k.name}: {b.name}")


def same(got, expected, rtol, name):
    if got.dtype == bfloat16:  # NumPy does not know its nans
        got, expected = got.astype(F32), expected.astype(F32)
    if got.dtype.kind == "f" and rtol:
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol, err_msg=name)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=name)
        if got.dtype.kind == "f":
            zero = (got == 0) & (expected == 0)
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]), name)
