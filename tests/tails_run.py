"""Runs loops whose last vector is partial, every array beside a guard page, and compares each with
the loop interpreter. It runs in a process of its own; the last line that it prints names the loops
that crashed.

    python tests/tails_run.py <processor> <end|start> [seed]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from guarded import guarded
from loop_kernels import BOOL, DTYPES, TASK, add, same, times
from sampling import sample

from fusewire.codegen.ir.loop_ir import (
    INT,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Stmt,
    Store,
    Var,
    call,
    const,
    load,
)
from fusewire.codegen.ir.loop_ir_interpreter import run
from fusewire.codegen.program.native_program import Argument, ProgramStep, build
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.dtypes import bfloat16

TYPES = [*DTYPES, np.dtype("float16"), bfloat16]
LANES = [4, 8, 16, 32, 64]
BATCH = 20  # kernels in one program
SHARE = 150  # loops in each half of the sample
FLAGS, COUNT = KernelBuffer("flags", BOOL, 64), KernelBuffer("n", np.dtype("int64"), 1)
J = Var("j")


class Tail(NamedTuple):
    """A loop over `used` elements by vectors of `lanes`.

    `form`: how the loop masks the other lanes
    `source`, `stored`: the dtypes in memory
    `offset`, `step`, `target_step`: the first element, and the distances of elements
    """

    form: str
    source: np.dtype[Any]
    stored: np.dtype[Any]
    lanes: int
    used: int
    offset: int
    step: int
    target_step: int

    def __str__(self) -> str:
        steps = f"{self.step}:{self.target_step}"
        return f"{self.form} {self.source}->{self.stored} {self.used}/{self.lanes} " \
               f"at {self.offset} by {steps}"

    def kernel(self) -> Kernel:
        """The kernel y[offset + step * j] = x[...] + x[...] for the lanes in use."""
        ends = [self.offset + step * (self.used - 1) + 1 for step in (self.step, self.target_step)]
        x, y = KernelBuffer("x", self.source, ends[0]), KernelBuffer("y", self.stored, ends[1])
        at, to = (add(times(J, step), const(self.offset)) for step in (self.step, self.target_step))

        def moved(mask: Expr | None = None) -> Stmt:
            element = load(x, at, mask) if mask is None else \
                load(x, at, mask, const(0, self.source))
            twice = call("add", (element, element), self.source)
            return Store(y, to, call("cast", (twice,), self.stored))

        loop = FORMS[self.form](self, moved)
        return Kernel(str(self), (x, FLAGS, COUNT), (y,), (), TASK, 1, (loop,))

    def arrays(self, kernel: Kernel, rng: np.random.Generator) -> dict[KernelBuffer, Any]:
        """Arrays of small integers, which fit into every dtype, as their sums do."""
        arrays = {b: rng.integers(1, 60, b.size).astype(b.dtype) for b in kernel.arguments}
        arrays[FLAGS][:] = rng.random(FLAGS.size) < rng.random()
        arrays[FLAGS][self.used:] = False
        arrays[COUNT][0] = self.used
        return arrays


def _loop(tail: Tail, stop: Expr, body: Stmt) -> For:
    return For(J, const(0), stop, (body,), tail.lanes)


def _guarded(op: str, limit: Callable[[Tail], int]) -> Callable[[Tail, Any], For]:
    """A loop over all lanes, in which the index decides which lanes store."""
    return lambda t, moved: _loop(t, const(t.lanes), If(
        call(op, (J, const(limit(t))), BOOL), (moved(),)))


FORMS: dict[str, Callable[[Tail, Any], For]] = {
    "known": lambda t, moved: _loop(t, const(t.used), moved()),
    "counted": lambda t, moved: _loop(t, load(COUNT, const(0)), moved()),
    "below": _guarded("lt", lambda t: t.used),
    "last": _guarded("eq", lambda t: t.used - 1),
    "remainder": lambda t, moved: _loop(t, const(t.used), If(
        call("eq", (call("imod", (J, const(t.lanes)), INT), const(t.used // 2)), BOOL),
        (moved(),))),
    "flagged": lambda t, moved: _loop(t, const(t.lanes), If(load(FLAGS, J), (moved(),))),
    "read flagged": lambda t, moved: _loop(t, const(t.used), moved(load(FLAGS, J))),
}


def tails() -> list[Tail]:
    """All loops."""
    types = list(product(TYPES, TYPES))
    return [Tail(form, source, stored, lanes, used, *shape)
            for form in FORMS for source, stored in types for lanes in LANES
            for used in range(1, lanes + 1) for shape in _shapes(used)]


def _shapes(used: int) -> list[tuple[int, int, int]]:
    """Offsets and steps, which vary with the number of lanes in use."""
    return [(used % 5, 1, 1), *([(used % 3, 2 + used % 2, 1)] if used % 4 == 1 else []),
            *([(used % 3, 1, 2)] if used % 4 == 2 else [])]


def single(tail: Tail) -> bool:
    """True if a loop stores a single narrowed lane, which is known at compile time."""
    return tail.form in ("known", "last", "remainder") and tail.used <= 2 \
        and tail.stored.itemsize < tail.source.itemsize and tail.step == tail.target_step == 1


def chosen(seed: int, most: int) -> list[Tail]:
    """A sample of the loops with at most `most` lanes; half of them store a single lane."""
    all_tails = [tail for tail in tails() if tail.lanes <= most]
    chosen_tails = sample([t for t in all_tails if single(t)], SHARE, seed)
    chosen_tails += sample(all_tails, SHARE, seed)
    return list(dict.fromkeys(chosen_tails))


def check(batch: list[Tail], cpu: str, at_end: bool, rng: np.random.Generator) -> None:
    """Runs some loops as one program, and compares them with the interpreter."""
    kernels = [tail.kernel() for tail in batch]
    expected = [tail.arrays(k, rng) for tail, k in zip(batch, kernels)]
    memory = [{b: guarded(a.size, a.dtype, at_end) for b, a in own.items()} for own in expected]
    for k, own, copies in zip(kernels, expected, memory):
        for b, a in own.items():
            copies[b][:] = a
        run(k, own)
    argument_numbers = iter(range(sum(map(len, memory))))
    steps = [ProgramStep(k, [Argument(next(argument_numbers)) for _ in k.arguments])
             for k in kernels]
    table = np.array([own[b].ctypes.data for k, own in zip(kernels, memory) for b in k.arguments])
    build(steps, "tails", named(cpu)).run(table.ctypes.data, 0)
    for k, own, got in zip(kernels, expected, memory):
        for b in k.arguments:
            same(got[b], own[b], 0.0, f"{k.name}: {b.name}")


def batches(items: list[Tail]) -> Iterator[list[Tail]]:
    """The items in batches."""
    return (items[n:n + BATCH] for n in range(0, len(items), BATCH))


def main(cpu: str, where: str, seed: str = "0") -> None:
    items = chosen(int(seed), named(cpu).vector_bytes)
    rng = np.random.default_rng(int(seed))
    for batch in batches(items):
        print(*batch, sep="; ", flush=True)
        check(batch, cpu, where == "end", rng)
    print(len(items))


if __name__ == "__main__":
    main(*sys.argv[1:])
