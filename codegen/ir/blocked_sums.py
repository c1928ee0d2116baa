"""Splits long sums of floats into blocks, so that their error does not grow with their length.

A register that takes one element after the other rounds each time: of 1e8 equal numbers only two
digits are right. Here a loop adds at most `MAX_SEQUENTIAL_ADDS` elements to one register. The sum
of such a block is added to a total in float64, which is rounded once, at the end. No dtype is wider
than float64, so the blocks of a float64 total are added in blocks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from . import loop_ir
from .affine_index import Index, atom, counter
from .axis_coalescing import linear_form
from .loop_ir import (
    INT,
    Assign,
    Call,
    Const,
    Expr,
    For,
    If,
    Register,
    SizeValue,
    Stmt,
    Update,
    const,
)
from .sizes import is_dynamic, upper_bound

MAX_SEQUENTIAL_ADDS = 32  # elements added to one register one by one
TOTAL_DTYPE = np.dtype(np.float64)

Replacements = Mapping[Register, Register]


def block_sums(body: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """`body` with every long sum in blocks."""
    return SumBlocker().body(body)


class SumBlocker:
    """Rewrites the statements of a kernel."""

    def body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """The statements with every long sum in blocks."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For) and self._is_long(s, sums := _float_sums(s)):
                out += self._with_totals(s, sums)
            elif isinstance(s, (For, If)):
                out.append(replace(s, body=self.body(s.body)))
            else:
                out.append(s)
        return tuple(out)

    def _with_totals(self, s: For, sums: Iterable[Register]) -> list[Stmt]:
        """The loop, with `sums` accumulated in wider totals."""
        totals = {r: Register(f"{r.name}_total", TOTAL_DTYPE) for r in sums}
        statements: Iterable[Stmt] = self._add_to_totals(s, totals)
        if any(r.dtype == TOTAL_DTYPE for r in totals):
            statements = self.body(statements)
        return [*_clear(totals), *statements, *_add_registers({t: r for r, t in totals.items()})]

    def _add_to_totals(self, s: For, totals: Replacements) -> list[Stmt]:
        """The loop that adds to the totals block by block. A long inner loop is blocked instead."""
        if any(self._is_long(x, totals) for x in loop_ir.walk(s.body) if isinstance(x, For)):
            return [replace(s, body=tuple(self._rewrite(s.body, totals)))]
        blocks = {r: Register(f"{r.name}_block", r.dtype) for r in totals}
        iterations = max(1, MAX_SEQUENTIAL_ADDS // self._adds_per_iteration(s.body, totals)) * max(
            1, s.lanes
        )
        inner = replace(s, body=tuple(_redirect(s.body, blocks)))
        fold = _add_registers({b: totals[r] for r, b in blocks.items()})
        return self.split_into_blocks(inner, iterations, _clear(blocks), fold)

    def split_into_blocks(self, s: For, each: int, before: Iterable[Stmt],
                          after: Iterable[Stmt]) -> list[Stmt]:
        """The loop in blocks of at most `each` iterations, with statements around every block."""
        most = self.max_iterations(s)
        if most <= each:
            return [*before, s, *after]
        each = each if _has_dynamic_bounds(s) else _divisor(most, each, max(1, s.lanes))
        var, block = self._block(s, each, most)
        return [For(var, const(0), self._block_count(s, each, most), (*before, block, *after))]

    def _rewrite(self, body: Iterable[Stmt], totals: Replacements) -> Iterable[Stmt]:
        """The statements around the loops that add to the totals."""
        for s in body:
            if isinstance(s, For) and self._adds_per_iteration((s,), totals):
                yield from self._add_to_totals(s, totals)
            elif isinstance(s, If):
                yield replace(s, body=tuple(self._rewrite(s.body, totals)))
            else:
                yield from _redirect((s,), totals)

    # ---- blocks of a loop
    def _block(self, s: For, size: int, most: int) -> tuple[loop_ir.Var, For]:
        """A loop over one block of `size` iterations, and the variable that numbers the blocks."""
        var, number = counter(f"{s.var.name}_block", -(-most // size))
        start = Index(*linear_form(s.start)) + number * size
        stop = (start + size).expr()
        if self._length(s) is None or most % size:
            stop = loop_ir.call("minimum", (stop, s.stop), INT)
        return var, replace(s, start=start.expr(), stop=stop)

    def _block_count(self, s: For, size: int, most: int) -> Expr:
        """The number of blocks."""
        if self._length(s) is not None:
            return const(-(-most // size))
        length = s.stop
        if not isinstance(s.start, Const) or s.start.value:
            length = loop_ir.call("maximum", (loop_ir.call("sub", (s.stop, s.start), INT),
                                              const(0)),
                                  INT)
        rounded_up = loop_ir.call("add", (length, const(size - 1)), INT)
        count = loop_ir.call("idiv", (rounded_up, const(size)), INT)
        return atom(count, (0, -(-most // size))).expr()

    def _length(self, s: For) -> int | None:
        """The number of iterations of a loop, or None where it varies."""
        length = Index(*linear_form(s.stop)) - Index(*linear_form(s.start))
        return None if length.terms or is_dynamic(length.const) else length.const

    # ---- how many additions follow one another
    def _is_long(self, s: For, sums: Collection[Register]) -> bool:
        """True if one register takes too many elements of the loop one by one."""
        iterations = -(-self.max_iterations(s) // max(1, s.lanes))
        return (
            bool(sums) and iterations * self._adds_per_iteration(s.body, sums) > MAX_SEQUENTIAL_ADDS
        )

    def _adds_per_iteration(self, body: Iterable[Stmt], sums: Iterable[Register]) -> int:
        """The most elements that one of the registers takes in these statements."""
        body = tuple(body)
        return max(sum(self._adds_of(s, r) for s in body) for r in sums)

    def _adds_of(self, s: Stmt, r: Register) -> int:
        """The number of elements that register `r` takes in a statement. A lane loop counts as one.
        """
        if isinstance(s, For):
            adds = self._adds_per_iteration(s.body, (r,))
            return min(adds, 1) if s.lanes else self.max_iterations(s) * adds
        if isinstance(s, If):
            return self._adds_per_iteration(s.body, (r,))
        return int(isinstance(s, Update) and s.register is r)

    def max_iterations(self, s: For) -> int:
        """The largest number of iterations of a loop."""
        by_minimum = isinstance(s.stop, Call) and s.stop.op == "minimum"
        stops = s.stop.args if by_minimum and isinstance(s.stop, Call) else (s.stop,)
        start = Index(*linear_form(s.start))
        lengths = [(Index(*linear_form(stop)) - start).range()[1] for stop in stops]
        return max(0, min(map(upper_bound, lengths)))


def _has_dynamic_bounds(s: For) -> bool:
    """True if the bounds of a loop depend on dynamic sizes."""
    return any(isinstance(e, SizeValue) for e in loop_ir.subexpressions((s.start, s.stop)))


def _float_sums(s: For) -> dict[Register, None]:
    """The registers assigned outside a loop to which the loop adds floats."""
    inside = list(loop_ir.walk(s.body))
    assigned_inside = {x.register for x in inside if isinstance(x, Assign)}
    return {x.register: None for x in inside if isinstance(x, Update) and x.op == "add"
            and x.register.dtype.kind == "f" and x.register not in assigned_inside}


def _clear(registers: Replacements) -> list[Stmt]:
    return [Assign(r, const(0, r.dtype)) for r in registers.values()]


def _add_registers(targets: Replacements) -> list[Stmt]:
    """Statements that add each register to its target."""
    return [Update(target, "add", loop_ir.read(r)) for r, target in targets.items()]


def _redirect(body: Iterable[Stmt], registers: Replacements) -> Iterable[Stmt]:
    """The statements with sums redirected to other registers."""
    for s in body:
        if isinstance(s, (For, If)):
            yield replace(s, body=tuple(_redirect(s.body, registers)))
        elif isinstance(s, Update) and s.register in registers:
            yield replace(s, register=registers[s.register])
        else:
            yield s


def _divisor(iterations: int, most: int, lanes: int) -> int:
    """The block size: the largest that gives equal blocks, or else `most`."""
    sizes = range(most, most // 4, -lanes)
    return next((n for n in sizes if iterations % n == 0), most)
