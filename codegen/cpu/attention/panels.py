"""Matrices as panels of columns, and products of tiles with them whose sums stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import Buffer, Expr, For, Register, Stmt, Var, const
from ..gemm.microkernel import sums_of_products
from ..gemm.pack_loops import pack_loops
from .shape import AttentionShape

_ON_STACK = 1 << 16  # elements of a matrix at most


@dataclass(frozen=True, eq=False)
class Panels:
    """A matrix of so many rows and `columns`, in panels: [panel][row][column of the panel]; from
    element `base` of a buffer on."""

    buffer: Buffer
    base: Index
    rows: int
    columns: int
    wide: int  # columns of a panel, two vectors

    def place(self, panel: Index, row: Index, lane: Index) -> Expr:
        return (self.base + (panel * self.rows + row) * self.wide + lane).expr()

    def load(self, panel: Index, row: Index, lane: Index) -> Expr:
        return loop_ir.load(self.buffer, self.place(panel, row, lane))

    def packed(self, element: Callable[[Index, Index], ExprValue]) -> list[Stmt]:
        """Statements that fill it with element(row, column), and with 0 what is left of the last
        panel."""
        whole, rest = divmod(self.columns, self.wide)
        out: list[Stmt] = []
        if rest:
            (r, row), (j, lane) = counter("r", self.rows), counter("j", self.wide)
            zero = loop_ir.Store(self.buffer, self.place(as_index(whole), row, lane),
                                 loop_ir.const(0, self.buffer.dtype))
            out.append(For(r, const(0), const(self.rows), (
                For(j, const(rest), const(self.wide), (zero,), self.wide // 2),)))
        for first, count, size in ((0, whole, self.wide), (whole, 1, rest)):
            if count and size and self.rows:
                out += self._packed(element, as_index(first), count, size)
        return out

    def _packed(self, element: Callable[[Index, Index], ExprValue], first: Index, count: int,
                size: int
                ) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loop_ir.Store:
            panel, row, lane = local["p"] + first, local["r"], local["j"]
            value = element(row, panel * self.wide + lane)
            return loop_ir.Store(self.buffer, self.place(panel, row, lane), value.expr)

        return pack_loops({"p": count, "r": self.rows, "j": size}, {}, store, self.wide // 2)

    def each(self, body: Callable[[Index, Index], list[Stmt]]) -> list[Stmt]:
        """Runs body(panel, lane) for all columns, those of a panel as lanes."""
        whole, rest = divmod(self.columns, self.wide)
        p, panel = counter("p", whole)
        out: list[Stmt] = []
        if whole:
            out.append(For(p, const(0), const(whole), (lanes(self.wide, self.wide, panel, body),)))
        if rest:
            vector = self.wide // 2
            width = vector if rest <= vector else self.wide
            out.append(lanes(rest, width, as_index(whole), body))
        return out


def panels(heads: AttentionShape, name: str, task: Index, rows: int, columns: int) -> Panels:
    """Memory of a task for such a matrix: on its thread's stack, if there is room."""
    wide = heads.wide
    size = -(-columns // wide) * rows * wide
    if size <= _ON_STACK:
        return Panels(heads.scratch(name, size), as_index(0), rows, columns, wide)
    tasks = task.range()[1] + 1
    shared = Buffer(f"{heads.name}_{name}", heads.dtype, tasks * size)
    return Panels(shared, task * size, rows, columns, wide)


def lanes(count: int, width: int, panel: Index, body: Callable[[Index, Index], list[Stmt]]) -> For:
    """Runs body(panel, lane) for the first columns of a panel."""
    var, lane = counter("j", count)
    return For(var, const(0), const(count), tuple(body(panel, lane)), width)


def sums(begin: Sequence[Expr], depth: Index, row: Callable[[int, Index], Expr],
         column: Callable[[Index], Expr], end: Callable[[int, Expr], list[Stmt]]) -> list[Stmt]:
    """A tile of sums over k < depth of row(i, k) * column(k), which begin with a value for each
    row: what end(i, sum) does with them."""
    registers = [Register(f"s{i}", e.dtype) for i, e in enumerate(begin)]
    k = Var("k")
    place = atom(k, (0, max(0, depth.range()[1] - 1)))
    out: list[Stmt] = [loop_ir.Assign(r, e) for r, e in zip(registers, begin)]
    out.append(sums_of_products(registers, k, depth.expr(),
                                [row(i, place) for i in range(len(begin))], column(place)))
    for i, r in enumerate(registers):
        out += end(i, loop_ir.read(r))
    return out
