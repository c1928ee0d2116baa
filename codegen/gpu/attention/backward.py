"""The backward kernels of attention: the gradients of queries, keys and values.

    for each row: log2 of the sum of its powers, from which powers are recomputed
                  (`_log_sum_kernel`);
                  delta = the sum of gradient * result (`_delta_kernel`)
    queries: a block has some rows, and iterates over tiles of keys; keys: over tiles of queries
        powers = 2 ** (score - that log)
        score gradients = powers * (gradients . values - delta)
        gradients of queries += score gradients @ keys
        gradients of values  += transposed powers @ gradients
        gradients of keys    += transposed score gradients @ queries

So everything is added in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....capture.graph.graph import Node
from ...cpu.attention.scores import LOG2E
from ...cpu.attention.shape import AttentionShape, smaller
from ...cpu.partition_work import buffers_of
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call, cast
from ...ir.loop_ir import For, Kernel, KernelBuffer, Register, Stmt, const
from ...ir.sizes import ceil_div, upper_bound
from .online_softmax import OnlineSoftmax, load_queries
from .rows import MASKED_SCORE, QueryRows
from .tiles import (
    FLOAT,
    ROWS_PER_THREAD,
    SHARED_BYTES,
    ScoreTile,
    SharedMatrix,
    SharedWeights,
    Thread,
    ThreadAccumulators,
    choose_tile,
    dots,
    fits_in_registers,
    if_true,
    shared_matrices,
)

_BACKWARD_TILES = (ScoreTile(32, 32, 128), ScoreTile(16, 16, 64))


def backward_tile(shape: AttentionShape) -> ScoreTile | None:
    """The tile of the backward kernels; None if none fits."""
    def fits(tile: ScoreTile) -> bool:
        return fits_in_registers(tile, shape.width) and fits_in_registers(tile, shape.values) \
            and _bytes(shape, tile) <= SHARED_BYTES

    return choose_tile(_BACKWARD_TILES, fits, lambda tile: min(
        upper_bound(shape.heads * ceil_div(shape.queries, tile.rows)),
        upper_bound(shape.key_heads * ceil_div(shape.keys, tile.rows))))


def _bytes(shape: AttentionShape, tile: ScoreTile) -> int:
    rows = [shared_matrices("", tile.rows + tile.columns, n)[0].buffer.size
            for n in (shape.width, shape.values)]
    return 4 * (sum(rows) + 2 * SharedWeights("", tile).buffer.size)


class AttentionBackward:
    """The backward kernels of an attention."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape = shape
        tile = backward_tile(shape)
        assert tile is not None
        self.tile, self.rows = tile, QueryRows(shape, 0)
        count = shape.heads * shape.queries
        self.log_sums, self.deltas = (KernelBuffer(f"{shape.name}_{n}", FLOAT, count)
                                      for n in ("logs", "along"))

    def kernels(self) -> list[Kernel]:
        return [self._log_sum_kernel(), self._delta_kernel(), _QueryGradient(self).kernel(),
                _KeyValueGradient(self).kernel()]

    def kernel(self, name: str, var: loop_ir.Var, tasks: int, body: tuple[Stmt, ...],
               scratch: tuple[KernelBuffer, ...] = ()) -> Kernel:
        shape = self.shape
        return Kernel(f"{shape.name}_{name}", *buffers_of(body), scratch, var, tasks, body,
                      shape.pairs * shape.width / 10, shape.sites)

    # ---- statistics of each row
    def _log_sum_kernel(self) -> Kernel:
        """The kernel for log2 of the sum of powers of each row; infinite where all keys are
        masked."""
        rows, tile = self.rows, self.tile
        blocks = ceil_div(rows.count, tile.rows)
        var, task = counter("task", rows.units * blocks)
        unit, first = task // blocks, task % blocks * tile.rows
        online = OnlineSoftmax(rows, tile, unit, first)
        visible = rows.visible_keys(first, tile.rows)
        tile_number, tile_index = counter("tile", ceil_div(self.shape.keys, tile.columns))
        count = ((visible + (tile.columns - 1)) // tile.columns).expr()
        thread = Thread(tile)
        statements, totals, any_visible = online.row_totals(thread)
        for i, total in enumerate(totals):
            value = online.row_maximum.load(thread, i) + call("log2", total)
            value = call("where", any_visible[i], value, -MASKED_SCORE) if any_visible else value
            row = first + thread.row + i
            row_index = unit * rows.count + smaller(row, rows.count - 1)
            is_first_thread = call("and", row < rows.count,
                                   call("eq", thread.lane_in_row.value(), 0))
            statements += if_true(is_first_thread,
                                  [loop_ir.Store(self.log_sums, row_index.expr(), value.expr)])
        body = (*online.begin(), For(tile_number, const(0), count, tuple(online.step(tile_index))),
                online.end(), thread.loop(statements))
        return self.kernel("logs", var, rows.units * blocks, body, online.scratch)

    def _delta_kernel(self) -> Kernel:
        """The kernel for delta: the sum of gradient * result of each row."""
        shape, rows = self.shape, self.rows
        var, task = counter("task", shape.heads * shape.queries)
        unit, row = task // shape.queries, task % shape.queries
        lane, j = counter("j", shape.values)
        total = Register("total", FLOAT)
        out = rows.element(shape.node.inputs[1], unit, row, j)
        product = self.gradient(unit, row, j) * out
        body = (loop_ir.Assign(total, loop_ir.const(0, FLOAT)),
                For(lane, const(0), const(shape.values),
                    (loop_ir.Update(total, "add", product.expr),), 32),
                loop_ir.Store(self.deltas, task.expr(), loop_ir.read(total)))
        return self.kernel("along", var, shape.heads * shape.queries, body)

    def gradient(self, unit: Index, row: Index, column: Index) -> ExprValue:
        """An element of the result's gradient; 0 for a query whose keys are all masked."""
        value = self.rows.element(self.shape.node.inputs[0], unit, row, column)
        if not self.shape.masked:
            return value
        is_masked = call("eq", self.row_value(self.log_sums, unit, row), -MASKED_SCORE)
        return call("where", is_masked, 0.0, value)  # type: ignore[no-any-return]

    def row_value(self, buffer: KernelBuffer, unit: Index, row: Index) -> ExprValue:
        """The value of a row in a buffer with one value per row."""
        return ExprValue(loop_ir.load(buffer, (unit * self.rows.count + row).expr()))

    # ---- scores of a thread
    def powers(self, score: ExprValue, unit: Index, row: Index, key: Index) -> ExprValue:
        """The softmax weight of a row for a key, from their score; 0 for rows out of range, whose
        score could exceed the row's maximum."""
        masked, _ = self.rows.masked(score, unit, row, key)
        log = self.row_value(self.log_sums, unit, smaller(row, self.rows.count - 1))
        log = cast(call("where", row < self.rows.count, log, -MASKED_SCORE), FLOAT)
        return call("exp2", masked - log)  # type: ignore[no-any-return]

    def score_gradient(self, power: ExprValue, product: ExprValue, unit: Index, row: Index
                       ) -> ExprValue:
        """The gradient of a score, without the scale."""
        delta = self.row_value(self.deltas, unit, smaller(row, self.rows.count - 1))
        gradient: ExprValue = power * (product - delta)
        return gradient

    def store_gradients(self, sums: ThreadAccumulators, first: Index, count: int, scale: float,
                        offset_of: Callable[[Index], Index]) -> For:
        """Stores the accumulators of the rows in range, each row at offset_of(row)."""
        thread = Thread(self.tile)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            row = smaller(first + thread.row + i, count - 1)
            value = value if scale == 1 else value * scale
            return loop_ir.Store(self.shape.out, (offset_of(row) + column).expr(), value.expr)

        return thread.loop(sums.guarded_stores(
            thread, lambda i: first + thread.row + i < count, store))


class _BackwardTiles:
    """The queries, gradients, keys and values of a block in shared memory."""

    def __init__(self, owner: AttentionBackward, queries: int, keys: int) -> None:
        self.owner, self.shape, self.rows, self.tile = owner, owner.shape, owner.rows, owner.tile
        shape, self.count = owner.shape, (queries, keys)
        self.queries, self.gradients, self.keys, self.values = (
            shared_matrices(name, n, width)[0] for name, n, width in (
                ("queries", queries, shape.width), ("gradients", queries, shape.values),
                ("keys", keys, shape.width), ("values", keys, shape.values)))
        self.scratch = tuple(b.buffer for b in (self.queries, self.gradients, self.keys,
                                                self.values))

    def read_queries(self, unit: Index, first: Index) -> list[Stmt]:
        """Loads scaled queries from `first` on, and the gradients of their results."""
        return [load_queries(self.queries, self.tile, self.count[0], self.rows, unit, first),
                self.gradients.filled(self.tile, self.count[0], first, self.rows.count,
                                      lambda r, j: self.owner.gradient(unit, r, j))]

    def read_keys(self, head: tuple[Index, ...], first: Index) -> list[Stmt]:
        """Loads keys from `first` on, and their values."""
        shape = self.shape

        def read(target: SharedMatrix, node: Node) -> For:
            return target.filled(self.tile, self.count[1], first, shape.keys,
                                 lambda c, e: shape.element(node, *head, c, e))

        return [read(self.keys, shape.operands[1]), read(self.values, shape.operands[2])]


class _QueryGradient(_BackwardTiles):
    """The kernel of the queries' gradients: a block has some rows."""

    def __init__(self, owner: AttentionBackward) -> None:
        super().__init__(owner, owner.tile.rows, owner.tile.columns)
        self.blocks = ceil_div(self.rows.count, self.tile.rows)
        self.var, task = counter("task", self.rows.units * self.blocks)
        self.unit = task // self.blocks
        self.first = (self.blocks - 1 - task % self.blocks) * self.tile.rows
        self.weights = SharedWeights("of_scores", self.tile)
        self.sums = ThreadAccumulators("sums", self.tile, self.shape.width)

    def kernel(self) -> Kernel:
        shape, thread = self.shape, Thread(self.tile)
        visible = self.rows.visible_keys(self.first, self.tile.rows)
        count = (visible + (self.tile.columns - 1)) // self.tile.columns
        var, tile_number = counter("tile", ceil_div(shape.keys, self.tile.columns))
        body = (*self.read_queries(self.unit, self.first), thread.loop(self.sums.filled(thread, 0)),
                For(var, const(0), count.expr(),
                    tuple(self._tile_step(tile_number * self.tile.columns))),
                self.owner.store_gradients(self.sums, self.first, self.rows.count, shape.scale,
                                           lambda row: (self.unit * self.rows.count + row)
                                           * shape.width))
        scratch = (*self.scratch, self.weights.buffer, self.sums.buffer)
        return self.owner.kernel("queries", self.var, self.rows.units * self.blocks, body, scratch)

    def _tile_step(self, first: Index) -> list[Stmt]:
        thread = Thread(self.tile)
        body, scores = dots(thread, self.queries, self.keys)
        product_dots, products = dots(thread, self.gradients, self.values)
        body += [*product_dots, *self._score_gradients(thread, first, scores, products)]
        return [*self.read_keys(self.rows.keys(self.unit), first), thread.loop(body),
                self.weights.add_weighted_rows(self.sums, self.keys)]

    def _score_gradients(self, thread: Thread, first: Index, scores: list[list[Register]],
                         products: list[list[Register]]) -> Iterator[Stmt]:
        for i in range(ROWS_PER_THREAD):
            row = self.first + thread.row + i
            for j in range(self.tile.columns_per_thread):
                power = self.owner.powers(ExprValue(loop_ir.read(scores[i][j])), self.unit, row,
                                          first + thread.column(j))
                yield self.weights.store(thread, i, j, self.owner.score_gradient(
                    power, ExprValue(loop_ir.read(products[i][j])), self.unit, row))


class _KeyValueGradient(_BackwardTiles):
    """The kernel of the gradients of keys and values: a block has some keys, as its rows."""

    def __init__(self, owner: AttentionBackward) -> None:
        super().__init__(owner, owner.tile.columns, owner.tile.rows)
        shape = self.shape
        self.blocks = ceil_div(shape.keys, self.tile.rows)
        self.var, task = counter("task", shape.key_heads * self.blocks)
        self.head, self.first = task // self.blocks, task % self.blocks * self.tile.rows
        self.weights = [SharedWeights(n, self.tile) for n in ("powers", "of_scores")]
        self.sums = [ThreadAccumulators(n, self.tile, width) for n, width in (
            ("sums_of_values", shape.values), ("sums_of_keys", shape.width))]

    def kernel(self) -> Kernel:
        shape, thread, columns = self.shape, Thread(self.tile), self.tile.columns
        (member_var, member) = counter("member", shape.groups)
        tiles = ceil_div(shape.queries, columns)
        var, tile_number = counter("tile", tiles)
        first_tile = smaller(self.first // columns, tiles) if shape.causal else as_index(0)
        step = self._tile_step(self.head * shape.groups + member, tile_number * columns)
        loop = For(var, first_tile.expr(), const(tiles), tuple(step))
        cleared = [s for sums in self.sums for s in sums.filled(thread, 0)]
        body = (*self.read_keys(shape.key_head(self.head), self.first), thread.loop(cleared),
                For(member_var, const(0), const(shape.groups), (loop,)), *self._store_results())
        scratch = (*self.scratch, *(w.buffer for w in self.weights), *(s.buffer for s in self.sums))
        return self.owner.kernel("keys", self.var, shape.key_heads * self.blocks, body, scratch)

    def _tile_step(self, unit: Index, first: Index) -> list[Stmt]:
        thread = Thread(self.tile)
        body, scores = dots(thread, self.keys, self.queries)
        product_dots, products = dots(thread, self.values, self.gradients)
        body += [*product_dots, *self._score_gradients(thread, unit, first, scores, products)]
        return [*self.read_queries(unit, first), thread.loop(body),
                self.weights[0].add_weighted_rows(self.sums[0], self.gradients),
                self.weights[1].add_weighted_rows(self.sums[1], self.queries)]

    def _score_gradients(self, thread: Thread, unit: Index, first: Index,
                         scores: list[list[Register]],
                         products: list[list[Register]]) -> Iterator[Stmt]:
        for j in range(self.tile.columns_per_thread):
            row = first + thread.column(j)
            for i in range(ROWS_PER_THREAD):
                power = Register("power", FLOAT)
                value = self.owner.powers(ExprValue(loop_ir.read(scores[i][j])), unit, row,
                                          self.first + thread.row + i)
                yield loop_ir.Assign(power, value.expr)
                yield self.weights[0].store(thread, i, j, ExprValue(loop_ir.read(power)))
                yield self.weights[1].store(thread, i, j, self.owner.score_gradient(
                    ExprValue(loop_ir.read(power)), ExprValue(loop_ir.read(products[i][j])), unit,
                    row))

    def _store_results(self) -> list[Stmt]:
        """Stores the key gradients behind those of all queries, and the value gradients behind
        those of all keys, as the op returns them."""
        shape, keys = self.shape, self.head * self.shape.keys
        key_offset = shape.heads * shape.queries * shape.width
        value_offset = key_offset + shape.key_heads * shape.keys * shape.width
        return [self.owner.store_gradients(self.sums[1], self.first, shape.keys, 1 / LOG2E,
                                           lambda row: (keys + row) * shape.width + key_offset),
                self.owner.store_gradients(self.sums[0], self.first, shape.keys, 1.0,
                                           lambda row: (keys + row) * shape.values + value_offset)]
