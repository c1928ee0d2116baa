"""Attention, and the shares of long rows put together.

    task = some rows of a unit, and a share of their keys
        the queries in shared memory; sums = 0
        for each tile of keys:
            scores and their powers, as in `online.py`
            sums = sums * factor of the row + powers @ values
        result = sums / sum of powers
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cpu.attention.shape import AttentionShape, smaller
from ...cpu.partition_work import buffers_of, chunk_bounds
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.loop_ir import BOOL, Buffer, For, Kernel, Register, Stmt, const
from .online_softmax import Online, finite
from .rows import NEVER, ScoreRows
from .tiles import ENOUGH, FLOAT, OWN, SHARED, Sums, Thread, Tile, Weights, chosen, fits, guarded
from .tiles import block as blocks_of

_LONG = 128  # keys that are worth a team
TILES = (Tile(64, 32, 128), Tile(32, 32, 128), Tile(16, 16, 64))


def tile_of(heads: AttentionShape) -> Tile | None:
    """The tile of an attention; None where none fits."""
    def teams(tile: Tile) -> int:
        rows = ScoreRows(heads, tile.rows // 2)
        return rows.units * -(-rows.count // tile.rows) if rows.count > tile.rows // 2 else 0

    return chosen(TILES, lambda tile: fits(tile, heads.values) and _bytes(heads, tile) <= SHARED,
                  teams)


def _bytes(heads: AttentionShape, tile: Tile) -> int:
    (queries,) = blocks_of("", tile.rows, heads.width)
    keys = blocks_of("", tile.columns, heads.width, heads.values)[0]
    mask = tile.across * tile.rows if heads.masked else 0
    return 4 * (queries.buffer.size + keys.buffer.size + Weights("", tile).buffer.size
                + tile.across * tile.rows) + mask


class AttentionForward:
    """The kernels of an attention."""

    def __init__(self, heads: AttentionShape) -> None:
        self.heads, h = heads, heads
        tile = tile_of(heads)
        assert tile is not None
        self.tile, self.rows = tile, ScoreRows(heads, tile.rows // 2)
        self.blocks = -(-self.rows.count // tile.rows)
        teams = self.rows.units * self.blocks
        wanted = min(-(-2 * ENOUGH // teams), h.keys // _LONG) if teams < ENOUGH else 1
        self.columns = -(-h.keys // tile.columns)  # tiles of keys
        self.each = -(-self.columns // max(1, wanted))  # of a share
        self.shares = -(-self.columns // self.each)
        self.var, self.task = counter("task", teams * self.shares)
        self.share, team = self.task % self.shares, self.task // self.shares
        self.unit = team // self.blocks
        self.first = (self.blocks - 1 - team % self.blocks) * tile.rows  # long rows come first
        self.online = Online(self.rows, tile, self.unit, self.first, h.values)
        self.powers, self.sums = Weights("powers", tile), Sums("sums", tile, h.values)
        count = self.shares * h.heads * h.queries
        self.partial, self.tops, self.totals = (
            Buffer(f"{h.name}_{n}", FLOAT, count * size)
            for n, size in (("sums", h.values), ("tops", 1), ("totals", 1)))
        self.some = Buffer(f"{h.name}_some", BOOL, count)

    def kernels(self) -> list[Kernel]:
        h, thread = self.heads, Thread(self.tile)
        seen = self.rows.seen(self.first, self.tile.rows)
        count = (seen + (self.tile.columns - 1)) // self.tile.columns
        var, number = counter("tile", self.columns)
        limits = chunk_bounds(self.share, self.each, count)
        body = (*self.online.begin(), thread.loop(self.sums.filled(thread, 0)),
                For(var, *limits, tuple(self._step(number))), self.online.end(), self._end())
        memory = (*self.online.memory, self.powers.buffer, self.sums.buffer)
        made = h.kernel(self.var, self.task.range()[1] + 1, body, memory,
                        h.pairs * (h.width + h.values) / 10)
        return [made] if self.shares == 1 else [made, self._together()]

    def _step(self, number: Index) -> list[Stmt]:
        h, (values,) = self.heads, self.online.others
        of_keys, columns = self.rows.keys(self.unit), self.tile.columns
        return [*self.online.step(number, self.powers.store),
                values.filled(self.tile, columns, number * columns, h.keys,
                              lambda c, j: h.element(h.operands[2], *of_keys, c, j)),
                self.powers.added(self.sums, values, lambda thread: [
                    self.online.factor.load(thread, i) for i in range(OWN)])]

    def _end(self) -> For:
        thread = Thread(self.tile)
        body, totals, some = self.online.known(thread)
        known = (self._divided if self.shares == 1 else self._kept)(thread, totals, some)
        return thread.loop([*body, *known])

    def _place(self, thread: Thread, i: int) -> Index:
        """The number of one of a thread's rows, among all."""
        row = smaller(self.first + thread.row + i, self.rows.count - 1)
        return as_index(row + self.unit * self.rows.count)

    def _inside(self, thread: Thread, i: int) -> object:
        return self.first + thread.row + i < self.rows.count

    def _divided(self, thread: Thread, totals: list[ExprValue],
                 some: list[ExprValue]) -> Iterator[Stmt]:
        h = self.heads
        by = [Register(f"by{i}", FLOAT) for i in range(OWN)]
        for r, total in zip(by, totals):
            yield loop_ir.Assign(r, (ExprValue(loop_ir.const(1, FLOAT)) / total).expr)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            value = value * ExprValue(loop_ir.read(by[i]))
            value = call("where", some[i], value, 0.0) if some else value
            return loop_ir.Store(h.out, (self._place(thread, i) * h.values + column).expr(),
                                 value.expr)

        yield from self.sums.stores(thread, lambda i: self._inside(thread, i), store)

    # ---- shares
    def _kept(self, thread: Thread, totals: list[ExprValue],
              some: list[ExprValue]) -> Iterator[Stmt]:
        """Writes what a share knows of its rows."""
        h, rows = self.heads, self.heads.heads * self.heads.queries

        def place(i: int) -> Index:
            return as_index(self._place(thread, i) + self.share * rows)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            return loop_ir.Store(self.partial, (place(i) * h.values + column).expr(), value.expr)

        yield from self.sums.stores(thread, lambda i: self._inside(thread, i), store)
        for i in range(OWN):
            told = {self.tops: self.online.top.load(thread, i), self.totals: totals[i]}
            told |= {self.some: some[i]} if some else {}
            alone = call("and", self._inside(thread, i), call("eq", thread.place.value(), 0))
            yield from guarded(alone, [loop_ir.Store(b, place(i).expr(), value.expr)
                                       for b, value in told.items()])

    def _together(self) -> Kernel:
        """The shares of each row, added up in order."""
        h, rows = self.heads, self.heads.heads * self.heads.queries
        var, row = counter("task", rows)
        top, total = Register("top", FLOAT), Register("total", FLOAT)
        some = Register("some", BOOL)
        number, s = counter("s", self.shares)
        at = (s * rows + row).expr()

        def over(*body: Stmt) -> Stmt:
            return For(number, const(0), const(self.shares), body, 0, 4)

        factor = call("exp2", ExprValue(loop_ir.load(self.tops,
                                                     at)) - finite(ExprValue(loop_ir.read(top))))
        column, c = counter("c", h.values)
        place = ((s * rows + row) * h.values + c).expr()
        mine = Register("sum", FLOAT)
        value = ExprValue(loop_ir.read(mine)) / ExprValue(loop_ir.read(total))
        body: tuple[Stmt, ...] = (
            loop_ir.Assign(top, loop_ir.const(NEVER, FLOAT)),
            over(loop_ir.Update(top, "maximum", loop_ir.load(self.tops, at))),
            loop_ir.Assign(total, loop_ir.const(0, FLOAT)),
            over(loop_ir.Update(total, "add",
                                (ExprValue(loop_ir.load(self.totals, at)) * factor).expr)))
        if h.masked:
            body += (loop_ir.Assign(some, loop_ir.const(False, BOOL)),
                     over(loop_ir.Update(some, "or", loop_ir.load(self.some, at))))
            value = call("where", ExprValue(loop_ir.read(some)), value, 0.0)
        added = (ExprValue(loop_ir.load(self.partial, place)) * factor).expr
        lanes = (loop_ir.Assign(mine, loop_ir.const(0, FLOAT)),
                 over(loop_ir.Update(mine, "add", added)),
                 loop_ir.Store(h.out, (row * h.values + c).expr(), value.expr))
        body += (For(column, const(0), const(h.values), lanes, 32),)
        return Kernel(f"{h.name}_total", *buffers_of(body), (), var, rows, body,
                      float(h.values * self.shares), h.sites)
