"""Generates random small kernels of the loop IR, with all forms of statements, indices, masks."""

import numpy as np
from loop_kernels import BOOL, DTYPES, F32, TASK, add, kernel, loop, times

from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    If,
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


def random_index(rng, variables, limit, depth=0):
    """An index expression in range(limit) over variables with known bounds, and its bound."""
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
    selected = call("where", (call("lt", (a, const(5)), BOOL), a, b), INT)
    return selected, max(high_a, high_b)


class Maker:
    """A generator of random kernels."""

    def __init__(self, rng):
        self.rng = rng
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        if self.dtype.kind == "b":
            self.dtype = F32
        self.x = KernelBuffer("x", self.dtype, 200)
        self.i = KernelBuffer("i", np.dtype("int64"), 50)
        self.flags = KernelBuffer("flags", BOOL, 60)
        self.y = KernelBuffer("y", self.dtype, 1500)
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
            operands = (self.value(variables, depth + 1), self.value(variables, depth + 1))
            return call("where", (self.condition(variables), *operands), self.dtype)
        op = str(self.rng.choice(self.ops))
        operands = (self.value(variables, depth + 1), self.value(variables, depth + 1))
        return call(op, operands, self.dtype)

    def statements(self, variables, where, depth=0):
        registers, body = list(self.registers), []
        for _ in range(self.rng.integers(1, 4)):
            body.append(self.statement(variables, where, depth))
        value = self.value(variables)
        if self.rng.random() < 0.3:  # in place
            value = call("sub", (load(self.y, where), value), self.dtype)
        body.append(Store(self.y, where, value))
        self.registers = registers
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
        """A kernel of tasks, rows and lanes, in which each lane stores its own element of `y`."""
        rng, row, j = self.rng, Var("row"), Var("j")
        rows, columns = int(rng.integers(1, 3)), int(rng.integers(1, 70))
        tasks = int(rng.integers(1, 4))
        start = int(rng.integers(0, 2)) * int(rng.integers(columns))
        lane = [(TASK, tasks), (row, rows), (j, columns)]
        where = add(times(add(times(TASK, rows), row), columns), j)
        inner = self.statements(lane, where)
        unroll = int(rng.integers(1, 4))
        inside = loop(j, columns, *inner, lanes=self.lanes, unroll=unroll, start=start)
        body = [loop(row, rows, inside)]
        return kernel([self.x, self.i, self.flags, self.y], [self.y], body, tasks)
