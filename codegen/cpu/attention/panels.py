"""Stores matrices as panels of columns, and multiplies tiles with them, with sums in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import Expr, For, KernelBuffer, Register, Stmt, Var, const
from ..gemm.microkernel import sums_of_products
from ..gemm.pack_loops import pack_loops
from .shape import AttentionShape

_MAX_STACK_ELEMENTS = 1 << 16  # of one matrix


@dataclass(frozen=True, eq=False)
class Panels:
    """A matrix of `rows` rows and `columns` columns, as [panel][row][column of the panel].

    It begins at element `base` of a buffer."""

    buffer: KernelBuffer
    base: Index
    rows: int
    columns: int
    wide: int  # columns of a panel, two vectors

    def index_of(self, panel: Index, row: Index, lane: Index) -> Expr:
        """The index of an element in the buffer."""
        return (self.base + (panel * self.rows + row) * self.wide + lane).expr()

    def load(self, panel: Index, row: Index, lane: Index) -> Expr:
        """The load of an element."""
        return loop_ir.load(self.buffer, self.index_of(panel, row, lane))

    def packed(self, element: Callable[[Index, Index], ExprValue]) -> list[Stmt]:
        """Statements that fill the matrix with element(row, column), and the rest of the last panel
        with 0."""
        full, rest = divmod(self.columns, self.wide)
        statements: list[Stmt] = []
        if rest:
            (r, row), (j, lane) = counter("r", self.rows), counter("j", self.wide)
            zero = loop_ir.Store(self.buffer, self.index_of(as_index(full), row, lane),
                                 loop_ir.const(0, self.buffer.dtype))
            statements.append(For(r, const(0), const(self.rows), (
                For(j, const(rest), const(self.wide), (zero,), self.wide // 2),)))
        for first, count, size in ((0, full, self.wide), (full, 1, rest)):
            if count and size and self.rows:
                statements += self._pack_panels(element, as_index(first), count, size)
        return statements

    def _pack_panels(self, element: Callable[[Index, Index], ExprValue], first: Index, count: int,
                     size: int) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loop_ir.Store:
            panel, row, lane = local["p"] + first, local["r"], local["j"]
            value = element(row, panel * self.wide + lane)
            return loop_ir.Store(self.buffer, self.index_of(panel, row, lane), value.expr)

        return pack_loops({"p": count, "r": self.rows, "j": size}, {}, store, self.wide // 2)

    def for_each_column(self, body: Callable[[Index, Index], list[Stmt]]) -> list[Stmt]:
        """Loops that run body(panel, lane) for all columns, with those of a panel as lanes."""
        full, rest = divmod(self.columns, self.wide)
        p, panel = counter("p", full)
        loops: list[Stmt] = []
        if full:
            loops.append(For(p, const(0), const(full),
                             (lane_loop(self.wide, self.wide, panel, body),)))
        if rest:
            vector = self.wide // 2
            width = vector if rest <= vector else self.wide
            loops.append(lane_loop(rest, width, as_index(full), body))
        return loops


def allocate_panels(shape: AttentionShape, name: str, task: Index, rows: int,
                    columns: int) -> Panels:
    """Memory of a task for such a matrix: on its thread's stack, if it fits."""
    wide = shape.panel_width
    size = -(-columns // wide) * rows * wide
    if size <= _MAX_STACK_ELEMENTS:
        return Panels(shape.scratch(name, size), as_index(0), rows, columns, wide)
    tasks = task.range()[1] + 1
    shared = KernelBuffer(f"{shape.name}_{name}", shape.dtype, tasks * size)
    return Panels(shared, task * size, rows, columns, wide)


def lane_loop(count: int, width: int, panel: Index,
              body: Callable[[Index, Index], list[Stmt]]) -> For:
    """The loop that runs body(panel, lane) for the first columns of a panel."""
    var, lane = counter("j", count)
    return For(var, const(0), const(count), tuple(body(panel, lane)), width)


def tile_sums(begin: Sequence[Expr], depth: Index, row: Callable[[int, Index], Expr],
              column: Callable[[Index], Expr], end: Callable[[int, Expr], list[Stmt]]
              ) -> list[Stmt]:
    """Statements for a tile of sums over k < depth of row(i, k) * column(k).

    The sum of row i starts from `begin[i]`; end(i, sum) uses it."""
    registers = [Register(f"s{i}", e.dtype) for i, e in enumerate(begin)]
    k = Var("k")
    depth_index = atom(k, (0, max(0, depth.range()[1] - 1)))
    out: list[Stmt] = [loop_ir.Assign(r, e) for r, e in zip(registers, begin)]
    out.append(sums_of_products(registers, k, depth.expr(),
                                [row(i, depth_index) for i in range(len(begin))],
                                column(depth_index)))
    for i, r in enumerate(registers):
        out += end(i, loop_ir.read(r))
    return out
