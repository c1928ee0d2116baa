"""Describes the rows of a tile."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.loop_ir import BOOL, INT, Expr, If, Stmt, const


@dataclass(frozen=True)
class RowPlan:
    """`count` rows of a tile.

    `tile`: number of the tile
    `start`: number of the first row
    `remaining`: how many of the rows exist, or None if all do
    """

    tile: Index
    count: int
    start: Index
    remaining: Index | None = None

    def number(self, i: Index | int, rows: int) -> Index:
        """The number of row `i` among all `rows`."""
        number = self.start + i
        return number if self.remaining is None else atom(number.expr(), (0, rows - 1))

    def readable_row(self, i: int) -> Index:
        """The row of the tile that is read as row `i`: a missing row is replaced by the last
        existing one."""
        if self.remaining is None or i == 0:
            return as_index(i)
        last = loop_ir.call("sub", (self.remaining.expr(), const(1)), INT)
        return atom(loop_ir.call("minimum", (const(i), last), INT), (0, i))

    def if_present(self, i: int, body: list[Stmt]) -> list[Stmt]:
        """The statements for row `i`, run if the row exists."""
        if self.remaining is None or i == 0:
            return body
        return [If(loop_ir.call("gt", (self.remaining.expr(), const(i)), BOOL), tuple(body))]

    def packed_count(self) -> Expr:
        """The number of rows to pack."""
        if self.remaining is None:
            return const(self.count)
        return loop_ir.call("minimum", (const(self.count), self.remaining.expr()), INT)
