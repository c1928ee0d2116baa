"""One task of a contraction: packing, tiles of sums in registers, and the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue
from ...ir.inline import Indices, stores_of
from ...ir.loop_ir import Buffer, Expr, For, Register, Stmt, Var, const
from .coalesce import steps_as_one
from .dot_packing import PackedLanes
from .pack import pack_columns, pack_rows
from .plan import Contraction, RowPlan
from .row_access import counters, places
from .task import TaskPart, decode, only, stop, times


class TileTask(TaskPart):
    """The statements of one task."""

    def __init__(self, of: Contraction, batch: Index, block: Index, share: Index) -> None:
        super().__init__(of, decode(batch, of.roles.batch, of.roles.size), block, share)
        self.merged = _merged(of)

    def statements(self) -> list[Stmt]:
        of = self.of
        if of.depth_blocks == 1:
            return self._depth_block(as_index(0))
        number = Var("kb")
        body = self._depth_block(atom(number, (0, of.depth_blocks - 1)))
        blocks = For(number, const(0), of.depth_count.expr(), tuple(body))
        return [*self._clear(), blocks, *self._finish()]

    def _depth_block(self, number: Index) -> list[Stmt]:
        first, end = self.depth_block(number)
        self.base = self.column_base(number)
        packing = [] if self.of.kept_columns else pack_columns(self, self.base, first, end)
        return [*packing, *self._tiles(first, end)]

    def _pack_rows(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        """Packs rows of a tile for this task alone."""
        of, summed = self.of, self.roles.summed
        sizes = {a: self.roles.size[a] for a in summed} | {summed[0]: of.depth_step}

        return pack_rows(self, self.fixed, rows, as_index(0), of.packed_rows, first, sizes,
                         {summed[0]: end})

    # ---- tiles
    def _tiles(self, first: Index, end: Expr) -> list[Stmt]:
        of = self.of
        whole = of.rows // of.tile  # tiles that are whole, over all shares
        each = of.share // of.tile if of.shares > 1 else whole
        tile = Var("tile")
        number = self.share * each + atom(tile, (0, max(0, each - 1)))
        count = of.full_tiles.expr() if of.shares == 1 else const(each)
        if of.shares * each > whole:
            left = loop_ir.call("sub", (const(whole), loop_ir.call(
                "mul", (self.share.expr(), const(each)), loop_ir.INT)), loop_ir.INT)
            count = loop_ir.call("minimum", (count, left), loop_ir.INT)
        body = self._tile(of.tile_of(number), first, end)
        tail = [s for rows, there in of.rest_rows()
                for s in only(there, self._tile(rows, first, end))]
        last = loop_ir.call("eq", (self.share.expr(), const(of.shares - 1)), loop_ir.BOOL)
        return [For(tile, const(0), count, tuple(body)),
                *(only(last, tail) if of.shares > 1 and tail else tail)]

    def _tile(self, rows: RowPlan, first: Index, end: Expr) -> list[Stmt]:
        depth = self._depth(end)
        apart = self.of.shared or self.of.direct
        packing = [] if apart else self._pack_rows(rows, first, end)

        def panel(base: Index, lane: Index) -> list[Stmt]:
            return self._panel(rows, base + lane, first, depth)

        return [*packing, *self._panels(panel)]

    def _depth(self, end: Expr) -> Expr:
        rest = self.roles.count(self.roles.summed[1:])
        return const(end.value * rest) if isinstance(end, loop_ir.Const) else times(end, rest)

    def _panels(self, body: Any) -> list[Stmt]:
        """Loops over the columns of the block: whole panels of two vectors, then what is left."""
        of, wide = self.of, 2 * self.of.vector
        if of.cut is None and (of.column_blocks > 1 or of.open_columns):
            # what is left differs between blocks
            lane = Var("j")
            inside = body(as_index(0), atom(lane, (0, of.block - 1)))
            end = times(self.column_stop, self.inner_columns)
            return [For(lane, const(0), end, tuple(inside), wide)]
        out = self._panel_loop(self.whole_panels(), wide, body, of.block // wide)
        rest = self.rest_columns()
        if rest is not None:
            most, count = rest
            lanes = of.vector if most <= of.vector else wide
            lane = Var("j")
            inside = body(self.last_panel() * wide, atom(lane, (0, most - 1)))
            out += self.in_last_block([For(lane, const(0), count, tuple(inside), lanes)])
        return out

    def _panel_loop(self, count: Expr, wide: int, body: Any, whole: int) -> list[Stmt]:
        if not whole:
            return []
        panel, lane = Var("panel"), Var("j")
        base = atom(panel, (0, whole - 1)) * wide if whole > 1 else as_index(0)
        loop = For(lane, const(0), const(wide), tuple(body(base, atom(lane, (0, wide - 1)))), wide)
        once = whole == 1 and isinstance(count, loop_ir.Const)
        return [loop] if once else [For(panel, const(0), count, (loop,))]

    def _panel(self, tile: RowPlan, column: Index, first: Index, depth: Expr) -> list[Stmt]:
        """The sums of a tile of rows at one column per lane, and what is done with them."""
        of = self.of
        count, local = tile.count, self.share * of.share
        registers = [Register(f"s{i}", of.dtype) for i in range(count)]
        kept = of.depth_blocks > 1
        numbers = [tile.number(i, of.rows) for i in range(count)]
        at = [((tile.start + i - local) * of.pitch + column).expr() for i in range(count)]
        # Sums of blocks are added up, as a sum of very many is off by their number's root.
        out: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, of.dtype)) for r in registers]
        k = Var("k")
        position = atom(k, (0, of.block_depth - 1))
        b = loop_ir.load(of.packed_columns, (self.base + of.place(position, column)).expr())
        row = self._direct_row if of.direct else self._packed_row
        rows = [row(tile, i, position, first) for i in range(count)]
        word = None if of.words is None else of.words[0]
        out.append(sums_of_products(registers, k, depth, rows, b, word))
        for i, register in enumerate(registers):
            if kept:
                both = loop_ir.load(of.sums, at[i]), loop_ir.read(register)
                out.append(loop_ir.Store(of.sums, at[i], loop_ir.call("add", both, of.dtype)))
            else:
                value = ExprValue(loop_ir.read(register))
                out += tile.only(i, self._results(numbers[i], column, value))
        return out

    @cached_property
    def counters(self) -> tuple[str, str] | None:
        """The letters that count rows and summed elements, found once for all rows."""
        return counters(self)

    def _direct_row(self, rows: RowPlan, i: int, k: Index, first: Index) -> Expr:
        """Element k of row i where it lies, with the summed elements from `first` on."""
        depth = first * self.roles.count(self.roles.summed[1:])
        assert self.counters is not None  # or they were packed
        number = rows.number(rows.there(i), self.of.rows)
        where = places(self, self.counters, number, depth + k)
        return self.operand(self.roles.row_operand, where).expr

    def _packed_row(self, rows: RowPlan, i: int, k: Index, first: Index) -> Expr:
        """The same of a row that is packed."""
        memory, start = self._row_memory(rows, first)
        return loop_ir.load(memory, (start + self.of.row_place(k, rows.there(i))).expr())

    def _row_memory(self, rows: RowPlan, first: Index) -> tuple[Buffer, Index]:
        """Where the packed rows begin, with the summed elements from `first` on."""
        of = self.of
        if not of.shared:
            return of.packed_rows, as_index(0)
        letters = of.row_letters
        batch = self.position(letters, self.fixed) if letters else as_index(0)
        depth = first * self.roles.count(self.roles.summed[1:])
        return of.shared_rows, (batch * of.row_tiles + rows.tile) * of.row_area \
            + of.row_place(depth, as_index(0))

    # ---- sums kept over several blocks of depth
    def _clear(self) -> list[Stmt]:
        of, lane = self.of, Var("z")
        size = times(of.row_tiles.expr(), of.tile * of.pitch) if of.open else const(of.sums.size)
        zero = loop_ir.Store(of.sums, lane, loop_ir.const(0, of.dtype))
        return [For(lane, const(0), size, (zero,), of.vector)]

    def _finish(self) -> list[Stmt]:
        of = self.of
        i = Var("r")
        local = atom(i, (0, of.share - 1))
        row = self.share * of.share + local
        count = stop(self.share * of.share, of.share, of.rows, of.machine)

        def body(base: Index, lane: Index) -> list[Stmt]:
            value = loop_ir.load(of.sums, (local * of.pitch + base + lane).expr())
            return self._results(row, base + lane, ExprValue(value))

        return [For(i, const(0), count, tuple(self._panels(body)))]

    # ---- epilogue
    def _results(self, row: Index, column: Index, value: ExprValue) -> list[Stmt]:
        """Stores of the group's members at one element, from the sum there."""
        of = self.of
        return stores_of(of.group.members, of.buffers, self._element(row, column), value,
                         self.leaf)

    def _element(self, row: Index, column: Index) -> Indices:
        """The element of the result: letters of the batch, of the row, and of the column."""
        roles = self.roles
        letters = dict(self.fixed) | decode(row, roles.rows, roles.size)
        at = self.first_column * self.inner_columns + column
        if self.merged:
            # on an axis of size 1 it would read as a broadcast one, so not on the last of these
            wide = [a for a in roles.columns if roles.size[a] > 1] or roles.columns
            letters |= {a: as_index(0) for a in roles.columns} | {wide[-1]: at}
        else:
            letters |= decode(at, roles.columns, roles.size)
        return tuple(letters[a] for a in self.of.letters[2])


def sums_of_products(registers: Sequence[Register], k: Var, depth: Expr, rows: Sequence[Expr],
                     column: Expr, word: PackedLanes | None = None) -> For:
    """The loop over k that adds to each register its row's element times the column's, or the
    product of the words that they are."""
    def times(row: Expr, dtype: loop_ir.DType) -> Expr:
        if word is not None:
            return word.times(row, column, dtype)
        return loop_ir.call("mul", (row, column), dtype)

    steps = tuple(loop_ir.Update(r, "add", times(row, r.dtype)) for r, row in zip(registers, rows))
    return For(k, const(0), depth, steps, 0, 4 if len(registers) <= 4 else 2)


def _merged(of: Contraction) -> bool:
    """Whether the columns' letters can be stepped through as one by everything in the epilogue."""
    return steps_as_one(of.group, of.buffers, [of.letters[2].index(a) for a in of.roles.columns])
