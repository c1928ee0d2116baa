"""Small kernels by hand, and the comparison of native code with the interpreter."""

import numpy as np

from fusewire.codegen.interpret import run
from fusewire.codegen.llvm.program import Argument, Step, build
from fusewire.codegen.llvm.target import named
from fusewire.codegen.loops import INT, For, Kernel, Var, call, const

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


def filled(buffer, rng):
    """Values of all sizes, with the special ones among them."""
    kind, size = buffer.dtype.kind, buffer.size
    if kind == "b":
        return rng.random(size) < 0.5
    if kind == "f":
        values = (rng.standard_normal(size) * 3).astype(buffer.dtype)
        specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 1e30], buffer.dtype)
        places = rng.random(size) < 0.4
        values[places] = rng.choice(specials, places.sum())
        return values
    info = np.iinfo(buffer.dtype)
    values = rng.integers(info.min, info.max, size, buffer.dtype, endpoint=True)
    small = rng.random(size) < 0.6
    values[small] = rng.integers(-3 if info.min else 0, 7, small.sum()).astype(buffer.dtype)
    return values


def check_all(kernels, target="", seed=0, rtol=0.0, given=None):
    """Compiles the kernels as one program and compares every array with the interpreter's."""
    rng = np.random.default_rng(seed)
    arrays, steps = [], []
    for k in kernels:
        own = {b: given[b] if given and b in given else filled(b, rng) for b in k.arguments}
        steps.append(Step(k, [Argument(len(arrays) + i) for i in range(len(own))]))
        arrays += [own[b].copy() for b in k.arguments]
    wanted = [a.copy() for a in arrays]
    table = np.array([a.ctypes.data for a in arrays])
    program = build(steps, "test", named(target))
    for k, step in zip(kernels, steps, strict=True):
        run(k, {b: wanted[slot.index] for b, slot in zip(k.arguments, step.slots, strict=True)})
    program.run(table.ctypes.data, 0)
    for k, step in zip(kernels, steps, strict=True):
        own = {b: wanted[slot.index] for b, slot in zip(k.arguments, step.slots, strict=True)}
        for b, slot in zip(k.arguments, step.slots, strict=True):
            same(arrays[slot.index], own[b], rtol, f"{k.name}: {b.name}")
    return program


def same(got, wanted, rtol, name):
    if got.dtype.kind == "f" and rtol:
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol, err_msg=name)
    else:
        np.testing.assert_array_equal(got, wanted, err_msg=name)
        if got.dtype.kind == "f":
            zero = (got == 0) & (wanted == 0)
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]), name)
