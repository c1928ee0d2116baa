"""The forward kernels of attention, with the keys of long rows split among blocks (split-KV).

    task = some rows of a unit, and a split of their keys
        the queries in shared memory; sums = 0
        for each tile of keys:
            scores and their powers, as in `online_softmax.py`
            sums = sums * rescaling factor of the row + powers @ values
        result = sums / sum of powers
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cpu.attention.shape import AttentionShape, smaller
from ...cpu.partition_work import buffers_of, chunk_bounds
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.loop_ir import BOOL, For, Kernel, KernelBuffer, Register, Stmt, const
from ...ir.sizes import ceil_div, upper_bound
from .online_softmax import OnlineSoftmax, finite_maximum
from .rows import MASKED_SCORE, QueryRows
from .tiles import (
    FLOAT,
    MIN_BLOCKS,
    ROWS_PER_THREAD,
    SHARED_BYTES,
    ScoreTile,
    SharedWeights,
    Thread,
    ThreadAccumulators,
    choose_tile,
    fits_in_registers,
    if_true,
)
from .tiles import shared_matrices as blocks_of

MIN_KEYS_PER_SPLIT = 128  # fewer are not worth a block
FORWARD_TILES = (ScoreTile(64, 32, 128), ScoreTile(32, 32, 128), ScoreTile(16, 16, 64))


def forward_tile(shape: AttentionShape) -> ScoreTile | None:
    """The tile of an attention; None if none fits."""
    def block_count(tile: ScoreTile) -> int:
        rows = QueryRows(shape, tile.rows // 2)
        count = upper_bound(rows.count)
        return upper_bound(rows.units) * -(-count // tile.rows) if count > tile.rows // 2 else 0

    return choose_tile(FORWARD_TILES, lambda tile: fits_in_registers(tile, shape.values)
                       and _bytes(shape, tile) <= SHARED_BYTES, block_count)


def _bytes(shape: AttentionShape, tile: ScoreTile) -> int:
    (queries,) = blocks_of("", tile.rows, shape.width)
    keys = blocks_of("", tile.columns, shape.width, shape.values)[0]
    mask = tile.threads_per_row * tile.rows if shape.masked else 0
    return 4 * (queries.buffer.size + keys.buffer.size + SharedWeights("", tile).buffer.size
                + tile.threads_per_row * tile.rows) + mask


class AttentionForward:
    """The kernels of an attention."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape = shape
        tile = forward_tile(shape)
        assert tile is not None
        self.tile, self.rows = tile, QueryRows(shape, tile.rows // 2)
        self.blocks = ceil_div(self.rows.count, tile.rows)
        blocks = self.rows.units * self.blocks
        most, splits = upper_bound(blocks), 1
        if most < MIN_BLOCKS:
            splits = min(-(-2 * MIN_BLOCKS // most), upper_bound(shape.keys) // MIN_KEYS_PER_SPLIT)
        self.key_tiles = ceil_div(shape.keys, tile.columns)  # tiles of keys
        # of a split, and splits that are as many for all sizes
        self.key_tiles_per_split = -(-upper_bound(self.key_tiles) // max(1, splits))
        self.key_splits = -(-upper_bound(self.key_tiles) // self.key_tiles_per_split)
        self.var, self.task = counter("task", blocks * self.key_splits)
        self.key_split, block = self.task % self.key_splits, self.task // self.key_splits
        self.unit = block // self.blocks
        self.first_row = (self.blocks - 1 - block % self.blocks) * tile.rows  # long rows come first
        self.online = OnlineSoftmax(self.rows, tile, self.unit, self.first_row, shape.values)
        self.powers = SharedWeights("powers", tile)
        self.sums = ThreadAccumulators("sums", tile, shape.values)
        count = self.key_splits * shape.heads * shape.queries
        self.partial, self.maxima, self.sums_of_powers = (
            KernelBuffer(f"{shape.name}_{n}", FLOAT, count * size)
            for n, size in (("sums", shape.values), ("tops", 1), ("totals", 1)))
        self.any_visible = KernelBuffer(f"{shape.name}_some", BOOL, count)

    def kernels(self) -> list[Kernel]:
        shape, thread = self.shape, Thread(self.tile)
        visible = self.rows.visible_keys(self.first_row, self.tile.rows)
        count = (visible + (self.tile.columns - 1)) // self.tile.columns
        var, number = counter("tile", self.key_tiles)
        limits = chunk_bounds(self.key_split, self.key_tiles_per_split, count)
        body = (*self.online.begin(), thread.loop(self.sums.filled(thread, 0)),
                For(var, *limits, tuple(self._key_tile(number))), self.online.end(),
                self._store_results())
        scratch = (*self.online.scratch, self.powers.buffer, self.sums.buffer)
        kernel = shape.kernel(self.var, self.task.range()[1] + 1, body, scratch,
                              shape.pairs * (shape.width + shape.values) / 10)
        return [kernel] if self.key_splits == 1 else [kernel, self._combine_splits()]

    def _key_tile(self, number: Index) -> list[Stmt]:
        shape, (values,) = self.shape, self.online.blocks_sharing_keys
        key_head, columns = self.rows.keys(self.unit), self.tile.columns
        return [*self.online.step(number, self.powers.store),
                values.filled(self.tile, columns, number * columns, shape.keys,
                              lambda c, j: shape.element(shape.operands[2], *key_head, c, j)),
                self.powers.add_weighted_rows(self.sums, values, lambda thread: [
                    self.online.rescaling.load(thread, i) for i in range(ROWS_PER_THREAD)])]

    def _store_results(self) -> For:
        thread = Thread(self.tile)
        body, totals, any_visible = self.online.row_totals(thread)
        store = self._store_normalized if self.key_splits == 1 else self._store_split
        return thread.loop([*body, *store(thread, totals, any_visible)])

    def _row_index(self, thread: Thread, i: int) -> Index:
        """The index of one of a thread's rows among all rows."""
        row = smaller(self.first_row + thread.row + i, self.rows.count - 1)
        return as_index(row + self.unit * self.rows.count)

    def _is_inside(self, thread: Thread, i: int) -> object:
        return self.first_row + thread.row + i < self.rows.count

    def _store_normalized(self, thread: Thread, totals: list[ExprValue],
                          any_visible: list[ExprValue]) -> Iterator[Stmt]:
        shape = self.shape
        reciprocal = [Register(f"by{i}", FLOAT) for i in range(ROWS_PER_THREAD)]
        for r, total in zip(reciprocal, totals):
            yield loop_ir.Assign(r, (ExprValue(loop_ir.const(1, FLOAT)) / total).expr)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            value = value * ExprValue(loop_ir.read(reciprocal[i]))
            value = call("where", any_visible[i], value, 0.0) if any_visible else value
            return loop_ir.Store(shape.out,
                                 (self._row_index(thread, i) * shape.values + column).expr(),
                                 value.expr)

        yield from self.sums.guarded_stores(thread, lambda i: self._is_inside(thread, i), store)

    # ---- splits
    def _store_split(self, thread: Thread, totals: list[ExprValue],
                     any_visible: list[ExprValue]) -> Iterator[Stmt]:
        """Stores the sums and the statistics of a split."""
        shape, rows = self.shape, self.shape.heads * self.shape.queries

        def split_row(i: int) -> Index:
            return as_index(self._row_index(thread, i) + self.key_split * rows)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            return loop_ir.Store(self.partial, (split_row(i) * shape.values + column).expr(),
                                 value.expr)

        yield from self.sums.guarded_stores(thread, lambda i: self._is_inside(thread, i), store)
        for i in range(ROWS_PER_THREAD):
            statistics = {self.maxima: self.online.row_maximum.load(thread, i),
                          self.sums_of_powers: totals[i]}
            statistics |= {self.any_visible: any_visible[i]} if any_visible else {}
            is_first_thread = call("and", self._is_inside(thread, i),
                                   call("eq", thread.lane_in_row.value(), 0))
            yield from if_true(is_first_thread, [
                loop_ir.Store(b, split_row(i).expr(), value.expr)
                for b, value in statistics.items()])

    def _combine_splits(self) -> Kernel:
        """The kernel that combines the splits of each row, in order."""
        shape, rows = self.shape, self.shape.heads * self.shape.queries
        var, row = counter("task", rows)
        maximum, total = Register("top", FLOAT), Register("total", FLOAT)
        any_visible = Register("some", BOOL)
        split_var, s = counter("s", self.key_splits)
        index = (s * rows + row).expr()

        def over_splits(*body: Stmt) -> Stmt:
            return For(split_var, const(0), const(self.key_splits), body, 0, 4)

        factor = call("exp2", ExprValue(loop_ir.load(self.maxima, index))
                      - finite_maximum(ExprValue(loop_ir.read(maximum))))
        powers = ExprValue(loop_ir.load(self.sums_of_powers, index))
        column, c = counter("c", shape.values)
        sum_index = ((s * rows + row) * shape.values + c).expr()
        weighted_sum = Register("sum", FLOAT)
        value = ExprValue(loop_ir.read(weighted_sum)) / ExprValue(loop_ir.read(total))
        body: tuple[Stmt, ...] = (
            loop_ir.Assign(maximum, loop_ir.const(MASKED_SCORE, FLOAT)),
            over_splits(loop_ir.Update(maximum, "maximum", loop_ir.load(self.maxima, index))),
            loop_ir.Assign(total, loop_ir.const(0, FLOAT)),
            over_splits(loop_ir.Update(total, "add", (powers * factor).expr)))
        if shape.masked:
            body += (loop_ir.Assign(any_visible, loop_ir.const(False, BOOL)),
                     over_splits(loop_ir.Update(any_visible, "or",
                                                loop_ir.load(self.any_visible, index))))
            value = call("where", ExprValue(loop_ir.read(any_visible)), value, 0.0)
        addend = (ExprValue(loop_ir.load(self.partial, sum_index)) * factor).expr
        lanes = (loop_ir.Assign(weighted_sum, loop_ir.const(0, FLOAT)),
                 over_splits(loop_ir.Update(weighted_sum, "add", addend)),
                 loop_ir.Store(shape.out, (row * shape.values + c).expr(), value.expr))
        body += (For(column, const(0), const(shape.values), lanes, 32),)
        return Kernel(f"{shape.name}_total", *buffers_of(body), (), var, rows, body,
                      float(shape.values * self.key_splits), shape.sites)
