"""Long sums of floats in blocks, so that their error does not grow with their length.

A register that takes one element after the other rounds each time: of 1e8 equal numbers only two
digits are right. Here a loop adds at most `TURNS` elements to one register. The sum of such a
block is added to a total in float64, which is rounded once, at the end. Totals of float64 have no
wider dtype: their blocks are added in blocks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from . import loop_ir
from .affine_index import Index, atom, counter
from .axis_coalescing import linear
from .loop_ir import INT, Assign, Call, Const, Expr, For, If, Register, Stmt, Update, const
from .target_info import Machine

TURNS = 32  # elements that one register takes, one after the other
WIDE = np.dtype(np.float64)

Replaced = Mapping[Register, Register]


def in_blocks(body: Iterable[Stmt], machine: Machine) -> tuple[Stmt, ...]:
    """`body` with every long sum in blocks."""
    return Blocks(machine).body(body)


class Blocks:
    """The statements of a kernel, rewritten for a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """Statements with every long sum in blocks."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For) and self._is_long(s, sums := _sums(s)):
                out += self._by_totals(s, sums)
            elif isinstance(s, (For, If)):
                out.append(replace(s, body=self.body(s.body)))
            else:
                out.append(s)
        return tuple(out)

    def _by_totals(self, s: For, sums: Iterable[Register]) -> list[Stmt]:
        """A loop that adds to `sums` by way of totals."""
        totals = {r: Register(f"{r.name}_total", WIDE) for r in sums}
        added: Iterable[Stmt] = self._adding(s, totals)
        if any(r.dtype == WIDE for r in totals):
            added = self.body(added)
        return [*_cleared(totals), *added, *_added({t: r for r, t in totals.items()})]

    def _adding(self, s: For, totals: Replaced) -> list[Stmt]:
        """A loop that adds to totals, block by block, where a loop inside is not long itself."""
        if any(self._is_long(x, totals) for x in loop_ir.walk(s.body) if isinstance(x, For)):
            return [replace(s, body=tuple(self._statements(s.body, totals)))]
        blocks = {r: Register(f"{r.name}_block", r.dtype) for r in totals}
        each = max(1, TURNS // self._row(s.body, totals)) * max(1, s.lanes)
        inner = replace(s, body=tuple(_renamed(s.body, blocks)))
        fold = _added({b: totals[r] for r, b in blocks.items()})
        return self.cut(inner, each, _cleared(blocks), fold)

    def cut(self, s: For, each: int, before: Iterable[Stmt], after: Iterable[Stmt]) -> list[Stmt]:
        """A loop in blocks of at most `each` turns, with statements around every block."""
        most = self.turns(s)
        if most <= each:
            return [*before, s, *after]
        each = each if self.machine.open else _divisor(most, each, max(1, s.lanes))
        var, block = self._block(s, each, most)
        return [For(var, const(0), self._count(s, each, most), (*before, block, *after))]

    def _statements(self, body: Iterable[Stmt], totals: Replaced) -> Iterable[Stmt]:
        """What stands around loops that add to totals."""
        for s in body:
            if isinstance(s, For) and self._row((s,), totals):
                yield from self._adding(s, totals)
            elif isinstance(s, If):
                yield replace(s, body=tuple(self._statements(s.body, totals)))
            else:
                yield from _renamed((s,), totals)

    # ---- pieces of a loop
    def _block(self, s: For, size: int, most: int) -> tuple[loop_ir.Var, For]:
        """A loop over one block of `size` turns, and the variable that numbers the blocks."""
        var, number = counter(f"{s.var.name}_block", -(-most // size))
        start = Index(*linear(s.start)) + number * size
        stop = (start + size).expr()
        if self._length(s) is None or most % size:
            stop = loop_ir.call("minimum", (stop, s.stop), INT)
        return var, replace(s, start=start.expr(), stop=stop)

    def _count(self, s: For, size: int, most: int) -> Expr:
        """How many blocks there are."""
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
        """How many turns a loop always has; None where that varies."""
        length = Index(*linear(s.stop)) - Index(*linear(s.start))
        return None if self.machine.open or length.terms else length.const

    # ---- how many additions follow one another
    def _is_long(self, s: For, sums: Collection[Register]) -> bool:
        """Whether one register takes too many elements of a loop, one after the other."""
        turns = -(-self.turns(s) // max(1, s.lanes))
        return bool(sums) and turns * self._row(s.body, sums) > TURNS

    def _row(self, body: Iterable[Stmt], sums: Iterable[Register]) -> int:
        """How many elements one of the registers takes in these statements."""
        body = tuple(body)
        return max(sum(self._added_by(s, r) for s in body) for r in sums)

    def _added_by(self, s: Stmt, r: Register) -> int:
        """How many elements a register takes in a statement; a lane loop gives it its sum."""
        if isinstance(s, For):
            each = self._row(s.body, (r,))
            return min(each, 1) if s.lanes else self.turns(s) * each
        if isinstance(s, If):
            return self._row(s.body, (r,))
        return int(isinstance(s, Update) and s.register is r)

    def turns(self, s: For) -> int:
        """The most turns that a loop can have."""
        by_minimum = isinstance(s.stop, Call) and s.stop.op == "minimum"
        stops = s.stop.args if by_minimum and isinstance(s.stop, Call) else (s.stop,)
        start = Index(*linear(s.start))
        lengths = [(Index(*linear(stop)) - start).range()[1] for stop in stops]
        return max(0, min(map(self.machine.most, lengths)))


def _sums(s: For) -> dict[Register, None]:
    """The registers from outside to which a loop adds floats."""
    inside = list(loop_ir.walk(s.body))
    own = {x.register for x in inside if isinstance(x, Assign)}
    return {x.register: None for x in inside if isinstance(x, Update) and x.op == "add"
            and x.register.dtype.kind == "f" and x.register not in own}


def _cleared(registers: Replaced) -> list[Stmt]:
    return [Assign(r, const(0, r.dtype)) for r in registers.values()]


def _added(targets: Replaced) -> list[Stmt]:
    """Adds each register to its target."""
    return [Update(target, "add", loop_ir.read(r)) for r, target in targets.items()]


def _renamed(body: Iterable[Stmt], registers: Replaced) -> Iterable[Stmt]:
    """Statements that add to other registers."""
    for s in body:
        if isinstance(s, (For, If)):
            yield replace(s, body=tuple(_renamed(s.body, registers)))
        elif isinstance(s, Update) and s.register in registers:
            yield replace(s, register=registers[s.register])
        else:
            yield s


def _divisor(turns: int, most: int, lanes: int) -> int:
    """The size of blocks, which are all equal where that is possible."""
    sizes = range(most, most // 4, -lanes)
    return next((n for n in sizes if turns % n == 0), most)
