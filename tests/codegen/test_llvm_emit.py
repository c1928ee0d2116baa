"""Kernels written by hand and at random give the same results as LLVM code and as `interpret` runs them."""

import numpy as np
import pytest

from fusewire.codegen.interpret import run
from fusewire.codegen.llvm import scalar as llvm_scalar
from fusewire.codegen.llvm.program import Argument, Step, build
from fusewire.codegen.llvm.target import named
from fusewire.codegen.loops import (
    INT,
    Assign,
    Buffer,
    For,
    If,
    Kernel,
    Register,
    Store,
    Update,
    Var,
    call,
    const,
    load,
    read,
    walk,
)
from fusewire.codegen.scalar import SCALAR

F32, F64, BOOL = np.dtype("float32"), np.dtype("float64"), np.dtype("bool")
INTS = [np.dtype(name) for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()]
DTYPES = [BOOL, *INTS, F32, F64]
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
        places = rng.random(size) < 0.15
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
        own = {b: (given or {}).get(b, filled(b, rng)) for b in k.arguments}
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


# Operations


def one_op(op, dtypes, result, lanes, size=37):
    inputs = [Buffer(f"x{i}", t, size) for i, t in enumerate(dtypes)]
    out, j = Buffer("y", result, size), Var("j")
    value = call(op, tuple(load(b, j) for b in inputs), result)
    body = [loop(j, size, Store(out, j, value), lanes=lanes)]
    return Kernel(f"{op} {dtypes}", tuple(inputs), (out,), (), TASK, 1, tuple(body))


ARITY = {name: 2 for name in SCALAR} | dict.fromkeys(
    "neg abs sign floor ceil trunc round sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh erf isnan isinf isfinite signbit not".split(),
    1,
)
FLOAT_ONLY = {*llvm_scalar.TRANSCENDENTAL, "div", "sqrt", "copysign", "nextafter"}
BITS = {"and", "or", "xor", "not"}


def accepts(op, dtype):
    """Whether an operation is used with a dtype."""
    if op in FLOAT_ONLY or op in ("floor", "ceil", "trunc", "round"):
        return dtype.kind == "f"
    if op in BITS:
        return dtype.kind != "f"
    if op in ("shl", "shr"):
        return dtype.kind in "iu"
    if op == "mulhi":
        return dtype == np.dtype("uint32")
    if dtype.kind == "b":
        return op in "add mul maximum minimum lt le gt ge eq ne".split()
    return op not in ("where", "cast", "idiv", "imod") and not (op == "pow" and dtype.kind != "f")


def test_every_operation_has_a_row():
    assert llvm_scalar.SCALAR.keys() == SCALAR.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_every_exact_operation_on_every_dtype(target):
    inexact = {*llvm_scalar.TRANSCENDENTAL, "pow"}
    kernels = []
    for op in sorted(SCALAR.keys() - inexact):
        for dtype in DTYPES:
            if accepts(op, dtype):
                predicate = op in llvm_scalar._PREDICATES
                kernels.append(one_op(op, [dtype] * ARITY[op], BOOL if predicate else dtype, 8))
    check_all(kernels, target)


def cast_kernels(lanes):
    def values(source):
        return Buffer("x", source, 37)

    for source in DTYPES:
        for to in DTYPES:
            x, y, j = values(source), Buffer("y", to, 37), Var("j")
            body = [loop(j, 37, Store(y, j, call("cast", (load(x, j),), to)), lanes=lanes)]
            yield source, to, Kernel(f"{source} to {to}", (x,), (y,), (), TASK, 1, tuple(body))


@pytest.mark.parametrize("target", TARGETS)
def test_casts_between_all_dtypes(target):
    """What a float has no integer for is left open, so floats are small and positive here."""
    rng = np.random.default_rng(1)
    kernels = [k for _, _, k in cast_kernels(16)]
    given = {}
    for k in kernels:
        x = k.inputs[0]
        if x.dtype.kind == "f" and k.outputs[0].dtype.kind in "iu":
            given[x] = (rng.random(37) * 100).astype(x.dtype)
    check_all(kernels, target, given=given)


# Loops


@pytest.mark.parametrize("target", TARGETS)
def test_lane_loops_of_any_length(target):
    kernels = []
    for size in (0, 1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100):
        for unroll in (1, 3):
            x, y, j = Buffer("x", F32, size + 3), Buffer("y", F32, size + 3), Var("j")
            value = call("add", (load(x, j), const(1.5, F32)), F32)
            body = [loop(j, size + 3, Store(y, j, value), lanes=16, unroll=unroll, start=3)]
            kernels.append(kernel([x], [y], body))
    check_all(kernels, target)


def random_index(rng, variables, limit, depth=0):
    """An index expression within 0 <= e < limit, over variables with known bounds."""
    if depth > 2 or rng.random() < 0.35:
        var, bound = variables[rng.integers(len(variables))]
        e, high = var, bound
    else:
        e, high = random_sum(rng, variables, depth)
    if high > limit:
        e, high = call("imod", (e, const(limit)), INT), limit
    return e, high


def random_sum(rng, variables, depth):
    a, high_a = random_index(rng, variables, 200, depth + 1)
    b, high_b = random_index(rng, variables, 200, depth + 1)
    kind = rng.integers(5)
    if kind == 0:
        factor = int(rng.integers(1, 40))
        return call("add", (times(a, factor), b), INT), (high_a - 1) * factor + high_b
    if kind == 1:
        by = int(rng.choice([1, 2, 3, 4, 7, 8, 16, 24, 32]))
        return call("idiv", (a, const(by)), INT), (high_a - 1) // by + 1
    if kind == 2:
        by = int(rng.choice([1, 2, 3, 4, 7, 8, 16, 24, 32]))
        return call("imod", (a, const(by)), INT), by
    if kind == 3:
        flipped = call("sub", (const(high_a - 1), a), INT)
        return flipped, high_a
    chosen = call("where", (call("lt", (a, const(5)), BOOL), a, b), INT)
    return chosen, max(high_a, high_b)


class Maker:
    """Makes random kernels; every statement form, index form and mask occurs in some of them."""

    def __init__(self, rng):
        self.rng = rng
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        if self.dtype.kind == "b":
            self.dtype = F32
        self.x = Buffer("x", self.dtype, 200)
        self.i = Buffer("i", np.dtype("int64"), 50)
        self.flags = Buffer("flags", BOOL, 60)
        self.y = Buffer("y", self.dtype, 1500)
        self.lanes = int(rng.choice([4, 8, 16, 32]))
        self.registers = []
        self.ops = ["add", "sub", "mul", "maximum", "minimum"]

    def index(self, variables, limit):
        if self.rng.random() < 0.15:
            at, _ = random_index(self.rng, variables, 50)
            e = call("imod", (call("and", (load(self.i, at), const(255)), INT), const(limit)), INT)
            return e
        return random_index(self.rng, variables, limit)[0]

    def condition(self, variables):
        if self.rng.random() < 0.5:
            return load(self.flags, self.index(variables, 60))
        op = str(self.rng.choice(["lt", "ge", "eq", "ne", "le", "gt"]))
        at = random_index(self.rng, variables, 200)[0]
        return call(op, (at, const(int(self.rng.integers(20)))), BOOL)

    def value(self, variables, depth=0):
        roll = self.rng.random()
        if depth > 3 or roll < 0.25:
            return load(self.x, self.index(variables, 200))
        if roll < 0.4 and self.registers:
            return read(self.registers[self.rng.integers(len(self.registers))])
        if roll < 0.5:
            other = const(1, self.dtype)
            return load(self.x, self.index(variables, 200), self.condition(variables), other)
        if roll < 0.6:
            both = (self.value(variables, depth + 1), self.value(variables, depth + 1))
            return call("where", (self.condition(variables), *both), self.dtype)
        op = str(self.rng.choice(self.ops))
        both = (self.value(variables, depth + 1), self.value(variables, depth + 1))
        return call(op, both, self.dtype)

    def statements(self, variables, where, depth=0):
        kept, body = list(self.registers), []
        for _ in range(self.rng.integers(1, 4)):
            body.append(self.statement(variables, where, depth))
        body.append(Store(self.y, where, self.value(variables)))
        self.registers = kept
        return body

    def statement(self, variables, where, depth):
        roll = self.rng.random()
        if roll < 0.25 and depth < 2:
            inner = self.statements(variables, where, depth + 1)
            return If(self.condition(variables), tuple(inner))
        if roll < 0.5 and depth < 2:
            var, trips = Var("k"), int(self.rng.integers(0, 6))
            inner = self.statements([*variables, (var, trips or 1)], where, depth + 1)
            return loop(var, trips, *inner, unroll=int(self.rng.integers(1, 4)))
        if roll < 0.75 and self.registers:
            r = self.registers[self.rng.integers(len(self.registers))]
            return Update(r, str(self.rng.choice(["maximum", "minimum"])), self.value(variables))
        value = self.value(variables)
        if self.registers and self.rng.random() < 0.3:
            return Assign(self.registers[self.rng.integers(len(self.registers))], value)
        r = Register("r", self.dtype)
        self.registers.append(r)
        return Assign(r, value)

    def kernel(self):
        """Tasks, rows and lanes, each lane with an element of `y` of its own."""
        rng, row, j = self.rng, Var("row"), Var("j")
        rows, columns = int(rng.integers(1, 4)), int(rng.integers(1, 120))
        tasks = int(rng.integers(1, 4))
        start = int(rng.integers(0, 2)) * int(rng.integers(columns))
        lane = [(TASK, tasks), (row, rows), (j, columns)]
        where = add(times(add(times(TASK, rows), row), columns), j)
        inner = self.statements(lane, where)
        unroll = int(rng.integers(1, 4))
        inside = loop(j, columns, *inner, lanes=self.lanes, unroll=unroll, start=start)
        body = [loop(row, rows, inside)]
        return kernel([self.x, self.i, self.flags, self.y], [self.y], body, tasks)


@pytest.mark.parametrize("target", TARGETS)
def test_random_kernels(target):
    rng = np.random.default_rng(7)
    check_all([Maker(rng).kernel() for _ in range(25)], target)
