"""Builds the statements of a contraction task for the matrix unit: tiles of sums in its registers.

    task = one batch element, one block of columns, a chunk of the rows
        for each block of the summed axes:
            pack the columns' operand
            for each tile of up to 32 rows:
                pack the rows' operand
                for each panel of 32 columns:
                    sums of the tile and the panel, by `TileDot`
                    epilogue: the other members of the group, and the stores

The words of a row are contiguous. Packed lines end with zeros, up to a multiple of the depth of a
step. Rows and columns that do not exist have sums, too, which are not used.
"""

from __future__ import annotations

from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue
from ...ir.loop_ir import TILE_SIDE, Expr, For, Stmt, TileDot, TileShape, Var, WordMatrix, const
from .microkernel import TileTask
from .row_access import unpacked_rows
from .row_plan import RowPlan
from .task import if_true, times

_PANEL = 2 * TILE_SIDE  # columns


class MatrixUnitTask(TileTask):
    """The statements of one task."""

    def _prepared(self, rows: int) -> list[Stmt]:
        return [TileShape(rows, self.of.depth_unit)]

    def _products(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        of, depth = self.of, self.padded(self.elements_of(end))

        def panel(base: Index, most: int, count: Expr) -> list[Stmt]:
            return self._tile_panel(rows, first, depth, base, most, count)

        if of.panel_label is None and (of.dynamic_columns or of.column_blocks > 1):
            return self._panels_of_any_count(panel)
        full, rest = self.full_panels(), self.rest_columns()
        loops = self._full_panels(full, panel)
        if rest is not None:
            body = panel(self.last_panel() * _PANEL, *rest)
            loops += self.in_last_block(self._unless_empty(rest[1], body))
        return loops

    def _panels_of_any_count(self, panel: Any) -> list[Stmt]:
        """Loops over full panels and the partial one, where blocks differ in their counts."""
        columns = times(self.column_stop, self.inner_columns)
        full, rest = (loop_ir.call(op, (columns, const(_PANEL)), loop_ir.INT)
                      for op in ("idiv", "imod"))
        last = atom(full, (0, self.of.columns_per_block // _PANEL))
        body = panel(last * _PANEL, _PANEL - 1, rest)
        return [*self._full_panels(full, panel), *self._unless_empty(rest, body)]

    @staticmethod
    def _unless_empty(count: Expr, body: list[Stmt]) -> list[Stmt]:
        some = const(1) if isinstance(count, loop_ir.Const) else \
            loop_ir.call("gt", (count, const(0)), loop_ir.BOOL)
        return if_true(some, body)

    def _full_panels(self, count: Expr, panel: Any) -> list[Stmt]:
        most = self.of.columns_per_block // _PANEL
        if not most:
            return []
        number = Var("panel")
        body = panel(atom(number, (0, most - 1)) * _PANEL, _PANEL, const(_PANEL))
        return [For(number, const(0), count, tuple(body))]

    def _tile_panel(self, rows: RowPlan, first: Index, depth: Expr, base: Index, most: int,
                    count: Expr) -> list[Stmt]:
        """The sums of a tile and `count` columns from `base` on, and the epilogue."""
        of = self.of
        lanes = TILE_SIDE if most <= TILE_SIDE else _PANEL
        shape = TileShape(rows.count, of.depth_unit)
        operands = self._rows_matrix(rows, first), self._columns_matrix(base)
        if of.depth_blocks != 1:
            start = (rows.start - self.row_chunk * of.rows_per_chunk) * of.pitch + base
            return [TileDot(of.sums, start.expr(), of.pitch, *operands, shape, lanes, depth, True)]
        dot = TileDot(of.tile_sums, const(0), _PANEL, *operands, shape, lanes, depth, False)
        i, j = Var("i"), Var("j")
        row, lane = atom(i, (0, rows.count - 1)), atom(j, (0, most - 1))
        value = loop_ir.load(of.tile_sums, (row * _PANEL + lane).expr())
        body = self._epilogue(rows.number(row, of.rows), base + lane, ExprValue(value))
        columns = For(j, const(0), count, tuple(body), lanes)
        return [dot, For(i, const(0), rows.packed_count(), (columns,))]

    # ---- operands
    def _columns_matrix(self, base: Index) -> WordMatrix:
        of = self.of
        index = self.base + of.packed_column_index(as_index(0), base)
        return WordMatrix(of.packed_columns, index.expr(), of.panel_width, self._elements(1))

    def _rows_matrix(self, rows: RowPlan, first: Index) -> WordMatrix:
        of = self.of
        if of.reads_unpacked:
            element, pitch = unpacked_rows(self, rows.start, first)
            return WordMatrix(element.buffer, element.index, pitch, self._elements(0))
        memory, start = self._row_memory(rows, first)
        return WordMatrix(memory, start.expr(), of.row_pitch, self._elements(0))

    def _elements(self, number: int) -> loop_ir.DType:
        assert self.of.lane_packing is not None and self.of.lane_packing[0].elements is not None
        return self.of.lane_packing[0].elements[number]
