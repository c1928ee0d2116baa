"""The way back of an attention: the gradients of queries, keys and values.

    for each row: log2 of the sum of its powers, by which the powers are found once more (`_known`);
                  the sum of gradient * result (`_along`)
    queries: a team has some rows, and goes over tiles of keys; keys: over tiles of queries
        powers = 2 ** (score - that log)
        of scores = powers * (gradients . values - along)
        gradients of queries += of scores @ keys
        gradients of values  += powers, turned @ gradients
        gradients of keys    += of scores, turned @ queries

So there is one order in which everything is added.
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
from ...ir.loop_ir import Buffer, For, Kernel, Register, Stmt, const
from .online_softmax import Online, queries_in
from .rows import NEVER, ScoreRows
from .tiles import (
    FLOAT,
    OWN,
    SHARED,
    Block,
    Sums,
    Thread,
    Tile,
    Weights,
    block,
    chosen,
    dots,
    fits,
    guarded,
)

_TILES = (Tile(32, 32, 128), Tile(16, 16, 64))


def tile_of_back(heads: AttentionShape) -> Tile | None:
    """The tile of the way back; None where none fits."""
    h = heads

    def room(tile: Tile) -> bool:
        return fits(tile, h.width) and fits(tile, h.values) and _bytes(h, tile) <= SHARED

    return chosen(_TILES, room, lambda tile: min(
        h.heads * -(-h.queries // tile.rows), h.key_heads * -(-h.keys // tile.rows)))


def _bytes(heads: AttentionShape, tile: Tile) -> int:
    rows = [block("", tile.rows + tile.columns, n)[0].buffer.size
            for n in (heads.width, heads.values)]
    return 4 * (sum(rows) + 2 * Weights("", tile).buffer.size)


class AttentionBackward:
    """The kernels of the way back."""

    def __init__(self, heads: AttentionShape) -> None:
        self.heads, h = heads, heads
        tile = tile_of_back(heads)
        assert tile is not None
        self.tile, self.rows = tile, ScoreRows(heads, 0)
        count = h.heads * h.queries
        self.logs, self.along = (Buffer(f"{h.name}_{n}", FLOAT, count) for n in ("logs", "along"))

    def kernels(self) -> list[Kernel]:
        return [self._known(), self._sums_along(), _OfQueries(self).kernel(),
                _OfKeys(self).kernel()]

    def kernel(self, name: str, var: loop_ir.Var, tasks: int, body: tuple[Stmt, ...],
               memory: tuple[Buffer, ...] = ()) -> Kernel:
        h = self.heads
        return Kernel(f"{h.name}_{name}", *buffers_of(body), memory, var, tasks, body,
                      h.pairs * h.width / 10, h.sites)

    # ---- what is known of each row
    def _known(self) -> Kernel:
        """log2 of the sum of powers of each row, infinite where it may look at nothing."""
        rows, tile = self.rows, self.tile
        blocks = -(-rows.count // tile.rows)
        var, task = counter("task", rows.units * blocks)
        unit, first = task // blocks, task % blocks * tile.rows
        online = Online(rows, tile, unit, first)
        seen = rows.seen(first, tile.rows)
        number, columns = counter("tile", -(-self.heads.keys // tile.columns))
        count = ((seen + (tile.columns - 1)) // tile.columns).expr()
        thread = Thread(tile)
        found, totals, some = online.known(thread)
        for i, total in enumerate(totals):
            value = online.top.load(thread, i) + call("log2", total)
            value = call("where", some[i], value, -NEVER) if some else value
            row = first + thread.row + i
            place = unit * rows.count + smaller(row, rows.count - 1)
            alone = call("and", row < rows.count, call("eq", thread.place.value(), 0))
            found += guarded(alone, [loop_ir.Store(self.logs, place.expr(), value.expr)])
        body = (*online.begin(), For(number, const(0), count, tuple(online.step(columns))),
                online.end(), thread.loop(found))
        return self.kernel("logs", var, rows.units * blocks, body, online.memory)

    def _sums_along(self) -> Kernel:
        """The sum of gradient * result of each row."""
        h, rows = self.heads, self.rows
        var, task = counter("task", h.heads * h.queries)
        unit, row = task // h.queries, task % h.queries
        lane, j = counter("j", h.values)
        total = Register("total", FLOAT)
        out = rows.element(h.node.inputs[1], unit, row, j)
        product = self.gradient(unit, row, j) * out
        body = (loop_ir.Assign(total, loop_ir.const(0, FLOAT)),
                For(lane, const(0), const(h.values),
                    (loop_ir.Update(total, "add", product.expr),), 32),
                loop_ir.Store(self.along, task.expr(), loop_ir.read(total)))
        return self.kernel("along", var, h.heads * h.queries, body)

    def gradient(self, unit: Index, row: Index, column: Index) -> ExprValue:
        """An element of the result's gradient, 0 for a query that may look at nothing."""
        value = self.rows.element(self.heads.node.inputs[0], unit, row, column)
        if not self.heads.masked:
            return value
        nothing = call("eq", self.of_row(self.logs, unit, row), -NEVER)
        return call("where", nothing, 0.0, value)  # type: ignore[no-any-return]

    def of_row(self, buffer: Buffer, unit: Index, row: Index) -> ExprValue:
        """What is known of a row."""
        return ExprValue(loop_ir.load(buffer, (unit * self.rows.count + row).expr()))

    # ---- scores of a thread
    def powers(self, score: ExprValue, unit: Index, row: Index, key: Index) -> ExprValue:
        """How much a row takes of a key, from their score. One behind the last row takes nothing:
        its own score, 0, may be far above those of that row."""
        masked, _ = self.rows.masked(score, unit, row, key)
        log = self.of_row(self.logs, unit, smaller(row, self.rows.count - 1))
        log = cast(call("where", row < self.rows.count, log, -NEVER), FLOAT)
        return call("exp2", masked - log)  # type: ignore[no-any-return]

    def of_score(self, power: ExprValue, product: ExprValue, unit: Index, row: Index) -> ExprValue:
        """The gradient of a score, but for the scale."""
        along = self.of_row(self.along, unit, smaller(row, self.rows.count - 1))
        of_score: ExprValue = power * (product - along)
        return of_score

    def stores(self, sums: Sums, first: Index, count: int, scale: float,
               place: Callable[[Index], Index]) -> For:
        """Writes the sums of the rows before the last, from place(row) on."""
        thread = Thread(self.tile)

        def store(i: int, column: Index, value: ExprValue) -> Stmt:
            row = smaller(first + thread.row + i, count - 1)
            value = value if scale == 1 else value * scale
            return loop_ir.Store(self.heads.out, (place(row) + column).expr(), value.expr)

        return thread.loop(sums.stores(
            thread, lambda i: first + thread.row + i < count, store))


class _Blocks:
    """Queries, gradients, keys and values of a team in shared memory."""

    def __init__(self, back: AttentionBackward, queries: int, keys: int) -> None:
        self.back, self.heads, self.rows, self.tile = back, back.heads, back.rows, back.tile
        h, self.count = back.heads, (queries, keys)
        self.queries, self.gradients, self.keys, self.values = (
            block(name, n, width)[0] for name, n, width in (
                ("queries", queries, h.width), ("gradients", queries, h.values),
                ("keys", keys, h.width), ("values", keys, h.values)))
        self.memory = tuple(b.buffer for b in (self.queries, self.gradients, self.keys,
                                               self.values))

    def read_queries(self, unit: Index, first: Index) -> list[Stmt]:
        """Queries from `first` on, scaled, and the gradients of their results."""
        return [queries_in(self.queries, self.tile, self.count[0], self.rows, unit, first),
                self.gradients.filled(self.tile, self.count[0], first, self.rows.count,
                                      lambda r, j: self.back.gradient(unit, r, j))]

    def read_keys(self, head: tuple[Index, ...], first: Index) -> list[Stmt]:
        """Keys from `first` on, and their values."""
        h = self.heads

        def read(into: Block, node: Node) -> For:
            return into.filled(self.tile, self.count[1], first, h.keys,
                               lambda c, e: h.element(node, *head, c, e))

        return [read(self.keys, h.operands[1]), read(self.values, h.operands[2])]


class _OfQueries(_Blocks):
    """The kernel of the queries' gradients: a team has some rows."""

    def __init__(self, back: AttentionBackward) -> None:
        super().__init__(back, back.tile.rows, back.tile.columns)
        self.blocks = -(-self.rows.count // self.tile.rows)
        self.var, task = counter("task", self.rows.units * self.blocks)
        self.unit = task // self.blocks
        self.first = (self.blocks - 1 - task % self.blocks) * self.tile.rows
        self.weights = Weights("of_scores", self.tile)
        self.sums = Sums("sums", self.tile, self.heads.width)

    def kernel(self) -> Kernel:
        h, thread = self.heads, Thread(self.tile)
        seen = self.rows.seen(self.first, self.tile.rows)
        count = (seen + (self.tile.columns - 1)) // self.tile.columns
        var, number = counter("tile", -(-h.keys // self.tile.columns))
        body = (*self.read_queries(self.unit, self.first),
                thread.loop(self.sums.filled(thread, 0)),
                For(var, const(0), count.expr(), tuple(self._step(number * self.tile.columns))),
                self.back.stores(self.sums, self.first, self.rows.count, h.scale, lambda row: (
                    self.unit * self.rows.count + row) * h.width))
        memory = (*self.memory, self.weights.buffer, self.sums.buffer)
        return self.back.kernel("queries", self.var, self.rows.units * self.blocks, body, memory)

    def _step(self, first: Index) -> list[Stmt]:
        thread = Thread(self.tile)
        body, scores = dots(thread, self.queries, self.keys)
        more, products = dots(thread, self.gradients, self.values)
        body += [*more, *self._of_scores(thread, first, scores, products)]
        return [*self.read_keys(self.rows.keys(self.unit), first), thread.loop(body),
                self.weights.added(self.sums, self.keys)]

    def _of_scores(self, thread: Thread, first: Index, scores: list[list[Register]],
                   products: list[list[Register]]) -> Iterator[Stmt]:
        for i in range(OWN):
            row = self.first + thread.row + i
            for j in range(self.tile.each):
                power = self.back.powers(ExprValue(loop_ir.read(scores[i][j])), self.unit, row,
                                         first + thread.column(j))
                yield self.weights.store(thread, i, j, self.back.of_score(
                    power, ExprValue(loop_ir.read(products[i][j])), self.unit, row))


class _OfKeys(_Blocks):
    """The kernel of the gradients of keys and values: a team has some of these, as its rows."""

    def __init__(self, back: AttentionBackward) -> None:
        super().__init__(back, back.tile.columns, back.tile.rows)
        h = self.heads
        self.blocks = -(-h.keys // self.tile.rows)
        self.var, task = counter("task", h.key_heads * self.blocks)
        self.head, self.first = task // self.blocks, task % self.blocks * self.tile.rows
        self.weights = [Weights(n, self.tile) for n in ("powers", "of_scores")]
        self.sums = [Sums(n, self.tile, width) for n, width in (
            ("sums_of_values", h.values), ("sums_of_keys", h.width))]

    def kernel(self) -> Kernel:
        h, thread, wide = self.heads, Thread(self.tile), self.tile.columns
        (g, member), tiles = counter("member", h.groups), -(-h.queries // wide)
        var, number = counter("tile", tiles)
        begin = smaller(self.first // wide, tiles) if h.causal else as_index(0)
        step = self._step(self.head * h.groups + member, number * wide)
        each = For(var, begin.expr(), const(tiles), tuple(step))
        cleared = [s for sums in self.sums for s in sums.filled(thread, 0)]
        body = (*self.read_keys(h.key_head(self.head), self.first), thread.loop(cleared),
                For(g, const(0), const(h.groups), (each,)), *self._stored())
        memory = (*self.memory, *(w.buffer for w in self.weights), *(s.buffer for s in self.sums))
        return self.back.kernel("keys", self.var, h.key_heads * self.blocks, body, memory)

    def _step(self, unit: Index, first: Index) -> list[Stmt]:
        thread = Thread(self.tile)
        body, scores = dots(thread, self.keys, self.queries)
        more, products = dots(thread, self.values, self.gradients)
        body += [*more, *self._of_scores(thread, unit, first, scores, products)]
        return [*self.read_queries(unit, first), thread.loop(body),
                self.weights[0].added(self.sums[0], self.gradients),
                self.weights[1].added(self.sums[1], self.queries)]

    def _of_scores(self, thread: Thread, unit: Index, first: Index,
                   scores: list[list[Register]], products: list[list[Register]]
                   ) -> Iterator[Stmt]:
        for j in range(self.tile.each):
            row = first + thread.column(j)
            for i in range(OWN):
                power = Register("power", FLOAT)
                value = self.back.powers(ExprValue(loop_ir.read(scores[i][j])), unit, row,
                                         self.first + thread.row + i)
                yield loop_ir.Assign(power, value.expr)
                yield self.weights[0].store(thread, i, j, ExprValue(loop_ir.read(power)))
                yield self.weights[1].store(thread, i, j, self.back.of_score(
                    ExprValue(loop_ir.read(power)), ExprValue(loop_ir.read(products[i][j])), unit,
                    row))

    def _stored(self) -> list[Stmt]:
        """Keys behind all queries, and values behind all keys, as the op has them."""
        h, keys = self.heads, self.head * self.heads.keys
        of_keys = h.heads * h.queries * h.width
        of_values = of_keys + h.key_heads * h.keys * h.width
        return [self.back.stores(self.sums[1], self.first, h.keys, 1 / LOG2E,
                                 lambda row: (keys + row) * h.width + of_keys),
                self.back.stores(self.sums[0], self.first, h.keys, 1.0,
                                 lambda row: (keys + row) * h.values + of_values)]
