"""Builds the statements of one contraction task: packing, register tiles, and the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue
from ...ir.inline import Indices, stores_of
from ...ir.loop_ir import Expr, For, KernelBuffer, Register, Stmt, Var, const
from .coalesce import can_coalesce
from .dot_packing import PackedLanes
from .pack import fill_rows, pack_columns, pack_rows
from .plan import Contraction
from .row_access import element_index, row_and_depth_labels
from .row_plan import RowPlan
from .task import TaskPart, clipped_count, decode, if_true, times


class TileTask(TaskPart):
    """The statements of one task."""

    def __init__(self, of: Contraction, batch: Index, block: Index, row_chunk: Index) -> None:
        super().__init__(of, decode(batch, of.roles.batch, of.roles.size), block, row_chunk)
        self.columns_coalesced = _columns_are_coalesced(of)

    def statements(self) -> list[Stmt]:
        of = self.of
        if of.depth_blocks == 1:
            return self._depth_block(as_index(0))
        number = Var("kb")
        body = self._depth_block(atom(number, (0, of.depth_blocks - 1)))
        blocks = For(number, const(0), const(of.depth_blocks), tuple(body))
        return [*self._clear(), blocks, *self._finish()]

    def _depth_block(self, number: Index) -> list[Stmt]:
        first, end = self.depth_block(number)
        self.base = self.column_base(number)
        packing = [] if self.of.prepacks_columns else pack_columns(self, self.base, first, end)
        return [*packing, *self._tiles(first, end)]

    def _pack_rows(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        """Statements that pack the rows of a tile for this task alone."""
        of, summed = self.of, self.roles.summed
        sizes = {a: self.roles.size[a] for a in summed} | {summed[0]: of.depth_step}

        return [*pack_rows(self, self.batch_index, rows, as_index(0), of.packed_rows, first, sizes,
                           {summed[0]: end}),
                *fill_rows(self, rows, as_index(0), of.packed_rows, self.elements_of(end))]

    # ---- tiles
    def _tiles(self, first: Index, end: Expr) -> list[Stmt]:
        of = self.of
        full = of.rows // of.tile  # full tiles of all chunks
        tiles_per_chunk = of.rows_per_chunk // of.tile if of.row_chunks > 1 else full
        tile, local = counter("tile", tiles_per_chunk)
        number = self.row_chunk * tiles_per_chunk + local
        count = const(tiles_per_chunk)
        if of.row_chunks * tiles_per_chunk > full:
            remaining = loop_ir.call("sub", (const(full), loop_ir.call(
                "mul", (self.row_chunk.expr(), const(tiles_per_chunk)), loop_ir.INT)), loop_ir.INT)
            count = loop_ir.call("minimum", (count, remaining), loop_ir.INT)
        body = self._tile(of.tile_of(number), first, end)
        tail = [s for rows, condition in of.rest_rows_computed() for s in if_true(
            condition, [*self._prepared(rows.count), *self._tile(rows, first, end)])]
        last = loop_ir.call("eq", (self.row_chunk.expr(), const(of.row_chunks - 1)), loop_ir.BOOL)
        return [*self._prepared(of.tile), For(tile, const(0), count, tuple(body)),
                *(if_true(last, tail) if of.row_chunks > 1 and tail else tail)]

    def _prepared(self, rows: int) -> list[Stmt]:
        """The statements before tiles of so many rows."""
        return []

    def _tile(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        packed_elsewhere = self.of.packs_rows_once or self.of.reads_unpacked
        packing = [] if packed_elsewhere else self._pack_rows(rows, first, end)
        return [*packing, *self._products(rows, first, end)]

    def _products(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        """Statements that compute and use the sums of a tile at all columns of the block."""
        depth = self.elements_of(end)

        def panel(base: Index, lane: Index) -> list[Stmt]:
            return self._panel(rows, base + lane, first, depth)

        return self._panels(panel)

    def _panels(self, body: Any) -> list[Stmt]:
        """Loops over the columns of the block: full panels of two vectors, then the partial one."""
        of, panel_width = self.of, 2 * self.of.vector
        if of.panel_label is None and (of.dynamic_columns or of.column_blocks > 1):
            # the remainder differs between blocks
            lane = Var("j")
            statements = body(as_index(0), atom(lane, (0, of.columns_per_block - 1)))
            end = times(self.column_stop, self.inner_columns)
            return [For(lane, const(0), end, tuple(statements), panel_width)]
        loops = self._panel_loop(
            self.full_panels(), panel_width, body, of.columns_per_block // panel_width
        )
        rest = self.rest_columns()
        if rest is not None:
            most, count = rest
            lanes = of.vector if most <= of.vector else panel_width
            lane = Var("j")
            statements = body(self.last_panel() * panel_width, atom(lane, (0, most - 1)))
            loops += self.in_last_block([For(lane, const(0), count, tuple(statements), lanes)])
        return loops

    def _panel_loop(self, count: Expr, wide: int, body: Any, full: int) -> list[Stmt]:
        if not full:
            return []
        panel, lane = Var("panel"), Var("j")
        base = atom(panel, (0, full - 1)) * wide if full > 1 else as_index(0)
        loop = For(lane, const(0), const(wide), tuple(body(base, atom(lane, (0, wide - 1)))), wide)
        once = full == 1 and isinstance(count, loop_ir.Const)
        return [loop] if once else [For(panel, const(0), count, (loop,))]

    def _panel(self, tile: RowPlan, column: Index, first: Index, depth: Expr) -> list[Stmt]:
        """The statements that compute the sums of a tile at one column per lane, and store or use
        them."""
        of = self.of
        count, local = tile.count, self.row_chunk * of.rows_per_chunk
        registers = [Register(f"s{i}", of.dtype) for i in range(count)]
        accumulates = of.depth_blocks != 1
        row_numbers = [tile.number(i, of.rows) for i in range(count)]
        sum_indices = [((tile.start + i - local) * of.pitch + column).expr() for i in range(count)]
        # Blocks are summed apart and then added: the error of one long sum grows with its length.
        out: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, of.dtype)) for r in registers]
        k = Var("k")
        position = atom(k, (0, of.block_depth - 1))
        column_value = loop_ir.load(of.packed_columns,
                                    (self.base + of.packed_column_index(position, column)).expr())
        row = self._unpacked_row if of.reads_unpacked else self._packed_row
        rows = [row(tile, i, position, first) for i in range(count)]
        packing = None if of.lane_packing is None else of.lane_packing[0]
        out.append(sums_of_products(registers, k, depth, rows, column_value, packing))
        for i, register in enumerate(registers):
            if accumulates:
                both = loop_ir.load(of.sums, sum_indices[i]), loop_ir.read(register)
                out.append(
                    loop_ir.Store(of.sums, sum_indices[i], loop_ir.call("add", both, of.dtype))
                )
            else:
                value = ExprValue(loop_ir.read(register))
                out += tile.if_present(i, self._epilogue(row_numbers[i], column, value))
        return out

    @cached_property
    def labels(self) -> tuple[str, str] | None:
        """The labels that count rows and summed elements, found once for all rows."""
        return row_and_depth_labels(self)

    def _unpacked_row(self, rows: RowPlan, i: int, k: Index, first: Index) -> Expr:
        """Element k of row i, read from the operand; summed elements count from `first` on."""
        depth = first * self.roles.count(self.roles.summed[1:])
        assert self.labels is not None  # rows without such labels are packed
        number = rows.number(rows.readable_row(i), self.of.rows)
        where = element_index(self, self.labels, number, depth + k)
        return self.operand(self.roles.row_operand, where).expr

    def _packed_row(self, rows: RowPlan, i: int, k: Index, first: Index) -> Expr:
        """Element k of row i, read from the packed rows."""
        memory, start = self._row_memory(rows, first)
        return loop_ir.load(memory,
                            (start + self.of.packed_row_index(k, rows.readable_row(i))).expr())

    def _row_memory(self, rows: RowPlan, first: Index) -> tuple[KernelBuffer, Index]:
        """The buffer of the packed rows, and the index at which they begin."""
        of = self.of
        if not of.packs_rows_once:
            return of.packed_rows, as_index(0)
        labels = of.row_batch_labels
        batch = self.position(labels, self.batch_index) if labels else as_index(0)
        depth = first * self.roles.count(self.roles.summed[1:])
        return of.shared_rows, (batch * of.row_tiles + rows.tile) * of.row_tile_size \
            + of.packed_row_index(depth, as_index(0))

    # ---- sums accumulated over several blocks of depth
    def _clear(self) -> list[Stmt]:
        of, lane = self.of, Var("z")
        size = const(of.row_tiles * (of.tile * of.pitch) if of.dynamic_rows else of.sums.size)
        zero = loop_ir.Store(of.sums, lane, loop_ir.const(0, of.dtype))
        return [For(lane, const(0), size, (zero,), of.vector)]

    def _finish(self) -> list[Stmt]:
        of = self.of
        i = Var("r")
        local = atom(i, (0, of.rows_per_chunk - 1))
        row = self.row_chunk * of.rows_per_chunk + local
        count = clipped_count(self.row_chunk * of.rows_per_chunk, of.rows_per_chunk, of.rows)

        def body(base: Index, lane: Index) -> list[Stmt]:
            value = loop_ir.load(of.sums, (local * of.pitch + base + lane).expr())
            return self._epilogue(row, base + lane, ExprValue(value))

        return [For(i, const(0), count, tuple(self._panels(body)))]

    # ---- epilogue
    def _epilogue(self, row: Index, column: Index, value: ExprValue) -> list[Stmt]:
        """Stores of the group's members at one element, given its sum."""
        of = self.of
        return stores_of(of.group.members, of.buffers, self._result_index(row, column), value,
                         self.read)

    def _result_index(self, row: Index, column: Index) -> Indices:
        """The index of the result, from the batch element, the row and the column."""
        roles = self.roles
        indices = dict(self.batch_index) | decode(row, roles.rows, roles.size)
        at = self.first_column * self.inner_columns + column
        if self.columns_coalesced:
            # not on an axis of size 1, whose index would be read as 0, as of a broadcast axis
            wide = [a for a in roles.columns if roles.size[a] != 1] or roles.columns
            indices |= {a: as_index(0) for a in roles.columns} | {wide[-1]: at}
        else:
            indices |= decode(at, roles.columns, roles.size)
        return tuple(indices[a] for a in self.of.labels[2])


def sums_of_products(registers: Sequence[Register], k: Var, depth: Expr, rows: Sequence[Expr],
                     column: Expr, packing: PackedLanes | None = None) -> For:
    """The loop over k that adds to each register its row's element times the column's.

    With a `packing` the elements are words, and their dot product is added."""
    def multiply(row: Expr, dtype: loop_ir.DType) -> Expr:
        if packing is not None:
            return packing.dot(row, column, dtype)
        return loop_ir.call("mul", (row, column), dtype)

    steps = tuple(
        loop_ir.Update(r, "add", multiply(row, r.dtype)) for r, row in zip(registers, rows)
    )
    return For(k, const(0), depth, steps, 0, 4 if len(registers) <= 4 else 2)


def _columns_are_coalesced(plan: Contraction) -> bool:
    """True if the whole epilogue steps through the columns' labels as one."""
    return can_coalesce(
        plan.group, plan.buffers, [plan.labels[2].index(a) for a in plan.roles.columns]
    )
