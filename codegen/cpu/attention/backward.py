"""Lowers the backward pass of attention: the gradients of queries, keys and values.

    task = one head of keys and values, and all heads of queries that attend to it
        pack the keys, transposed and not, and the values, transposed; gradients of both = 0
        for each block of queries:
            for each tile of them:
                pack the queries; their scores; their powers (`scores.py`)
                pack the gradients of the results, divided by the sums of powers
                gradients of scores = powers * (gradients @ values - gradients . results)
                gradients of queries = gradients of scores @ keys
            gradients of values += powers, transposed @ gradients
            gradients of keys   += gradients of scores, transposed @ queries

Softmax weights are recomputed rather than saved, and all sums are added in one order.
"""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue
from ...ir.inline import Indices
from ...ir.loop_ir import Expr, For, Kernel, Register, Stmt, const
from .panels import Panels, allocate_panels, lane_loop, tile_sums
from .scores import LOG2E, ScoreRows, Scores
from .shape import LINE, AttentionShape, larger, round_up, smaller

_MAX_QUERIES_PER_BLOCK = 64
_MAX_POWERS_PER_BLOCK = 1 << 16  # they and the gradients of scores stay in a cache


class AttentionBackward:
    """The kernel of the backward pass."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape, h = shape, shape
        self.block = h.blocks(
            max(2 * h.rows, min(_MAX_QUERIES_PER_BLOCK, _MAX_POWERS_PER_BLOCK // h.pitch))
        )
        self.var, self.task = counter("task", h.key_heads)
        self.scores = Scores(h, self.task, self.block)
        self.score_gradients = ScoreRows(h.scratch("of_scores", self.block * h.pitch), h.pitch)
        self.result_gradients = ScoreRows(h.scratch("of_results", self.block * (h.values + LINE)),
                                          h.values + LINE)
        self.result_dots = h.scratch("along", self.block)
        padded_keys = round_up(h.keys, h.rows)
        self.keys = allocate_panels(h, "plain_keys", self.task, h.keys, h.width)
        self.values = allocate_panels(h, "values", self.task, h.values, h.keys)
        self.key_gradients = allocate_panels(h, "of_keys", self.task, padded_keys, h.width)
        self.value_gradients = allocate_panels(h, "of_values", self.task, padded_keys, h.values)
        self.memory = (
            *self.scores.memory,
            self.score_gradients.buffer,
            self.result_gradients.buffer,
            self.result_dots,
            self.keys.buffer,
            self.values.buffer,
            self.key_gradients.buffer,
            self.value_gradients.buffer,
        )

    def kernel(self) -> Kernel:
        h, task = self.shape, self.task
        key_head = h.key_head(task)
        (g, member), blocks = counter("member", h.groups), -(-h.queries // self.block)
        b, block = counter("block", blocks)
        each = For(b, const(0), const(blocks), tuple(
            self._block(task * h.groups + member, block * self.block)))
        body = (*self.scores.packed_keys(key_head),
                *self.keys.packed(lambda c, e: h.element(h.operands[1], *key_head, c, e)),
                *self.values.packed(lambda j, c: h.element(h.operands[2], *key_head, c, j)),
                self._zeros(self.key_gradients), self._zeros(self.value_gradients),
                For(g, const(0), const(h.groups), (each,)), *self._store_gradients(task))
        nanoseconds = h.pairs * (3 * h.width + 2 * h.values) / (5 * h.vector) * 1.3
        return h.kernel(self.var, h.key_heads, body, self.memory, nanoseconds)

    def _zeros(self, panels: Panels) -> Stmt:
        r, row = counter("r", panels.rows)

        def body(panel: Index, lane: Index) -> list[Stmt]:
            return [loop_ir.Store(panels.buffer, panels.index_of(panel, row, lane),
                                  loop_ir.const(0, self.shape.dtype))]

        return For(r, const(0), const(panels.rows), tuple(panels.for_each_column(body)))

    # ---- a block of queries
    def _block(self, number: Index, first: Index) -> list[Stmt]:
        h, head = self.shape, self.shape.head(number)
        count = smaller(as_index(self.block), h.queries - first)
        t, tile = counter("tile", -(-self.block // h.rows))
        body = self._tile(head, number, h.tile(first, tile), first)
        return [For(t, const(0), ((count + (h.rows - 1)) // h.rows).expr(), tuple(body)),
                self._accumulate(first, count)]

    def _tile(self, head: Indices, number: Index, start: Index, first: Index) -> list[Stmt]:
        h, local = self.shape, start - first
        visible = h.visible_to_tile(head, start)
        panels, (r, row) = h.panels_of(visible), counter("r", h.rows)
        power_statements, reciprocal = self.scores.row(
            head, start + row, local + row, panels * h.panel_width
        )
        results = self._pack_result_gradients(head, start + row, local + row, reciprocal)
        return [
            *self.scores.packed_queries(head, start, local),
            self.scores.scores(local, panels),
            For(r, const(0), const(h.rows), (*power_statements, *results)),
            self._score_gradients(local, panels),
            *self._query_gradients(number, start, local, visible),
        ]

    def _pack_result_gradients(
        self, head: Indices, query: Index, local: Index, by: Expr
    ) -> list[Stmt]:
        """Statements that store the gradients of a query's results times `by`, and their dot
        product with the results."""
        h = self.shape
        g, out = h.node.inputs[:2]
        factor, result_dots, part = (Register(n, h.dtype) for n in ("by", "along", "part"))
        var, j = counter("j", h.values)
        value = h.element(g, *head, query, j) * ExprValue(loop_ir.read(factor))
        product = ExprValue(loop_ir.read(part)) * h.element(out, *head, query, j)
        body = (loop_ir.Assign(part, value.expr),
                loop_ir.Store(self.result_gradients.buffer,
                              self.result_gradients.index_of(local, j),
                              loop_ir.read(part)), loop_ir.Update(result_dots, "add", product.expr))
        return [loop_ir.Assign(factor, by), loop_ir.Assign(result_dots, loop_ir.const(0, h.dtype)),
                For(var, const(0), const(h.values), body, h.vector),
                loop_ir.Store(self.result_dots, local.expr(), loop_ir.read(result_dots))]

    def _score_gradients(self, local: Index, panels: Index) -> Stmt:
        h, (p, panel) = self.shape, counter("p", panels.range()[1])

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                key = panel * h.panel_width + lane
                power = ExprValue(self.scores.powers.load(local + i, key))
                result_dots = ExprValue(loop_ir.load(self.result_dots, (local + i).expr()))
                return [loop_ir.Store(self.score_gradients.buffer,
                                      self.score_gradients.index_of(local + i, key),
                                      (power * (ExprValue(total) - result_dots)).expr)]

            return tile_sums([loop_ir.const(0, h.dtype)] * h.rows, as_index(h.values),
                             lambda i, k: self.result_gradients.load(local + i, k),
                             lambda k: self.values.load(panel, k, lane), end)

        return For(p, const(0), panels.expr(),
                   (lane_loop(h.panel_width, h.panel_width, panel, body),))

    def _query_gradients(
        self, number: Index, start: Index, local: Index, seen: Index
    ) -> list[Stmt]:
        h = self.shape

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                index = (number * h.queries + start + i) * h.width + panel * h.panel_width + lane
                return [loop_ir.Store(h.out, index.expr(), (ExprValue(total) * h.scale).expr)]

            return tile_sums([loop_ir.const(0, h.dtype)] * h.rows, seen,
                             lambda i, k: self.score_gradients.load(local + i, k),
                             lambda k: self.keys.load(panel, k, lane), end)

        return self.keys.for_each_column(body)

    # ---- keys and values
    def _accumulate(self, first: Index, count: Index) -> Stmt:
        """The loop that adds the block's gradients of keys and values, one tile of keys after the
        other.

        Queries that attend to no key of the tile are skipped."""
        h = self.shape
        visible = smaller(first + count, h.keys) if h.causal else as_index(h.keys)
        t, tile = counter("keys", -(-h.keys // h.rows))
        key = tile * h.rows
        skip = larger(key - first, 0) if h.causal else as_index(0)
        pairs = ((self.value_gradients, self.scores.powers, self.result_gradients),
                 (self.key_gradients, self.score_gradients, self.scores.queries))
        body = [s for into, weights, rows in pairs
                for s in self._weighted_sum(into, weights, rows, key, skip, count)]
        return For(t, const(0), ((visible + (h.rows - 1)) // h.rows).expr(), tuple(body))

    def _weighted_sum(
        self,
        into: Panels,
        weights: ScoreRows,
        rows: ScoreRows,
        key: Index,
        skip: Index,
        count: Index,
    ) -> list[Stmt]:
        """Adds rows, weighted, to the gradients of a tile of keys, from row `skip` of the block on.
        """
        h = self.shape

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                return [loop_ir.Store(into.buffer, into.index_of(panel, key + i, lane), total)]

            return tile_sums([into.load(panel, key + i, lane) for i in range(h.rows)], count - skip,
                             lambda i, k: weights.load(skip + k, key + i),
                             lambda k: rows.load(skip + k, panel * h.panel_width + lane), end)

        return into.for_each_column(body)

    def _store_gradients(self, head: Index) -> list[Stmt]:
        """Statements that write the gradients of keys and values behind those of all queries."""
        h = self.shape
        first = h.heads * h.queries * h.width
        scaled = 1 / LOG2E  # packed queries include the factor log2(e)
        return [*self._store_panels(self.key_gradients, head, as_index(first), scaled),
                *self._store_panels(self.value_gradients, head,
                                    as_index(first + h.key_heads * h.keys * h.width), 1.0)]

    def _store_panels(self, panels: Panels, head: Index, first: Index, by: float) -> list[Stmt]:
        h, (c, key) = self.shape, counter("c", self.shape.keys)

        def body(panel: Index, lane: Index) -> list[Stmt]:
            index = first + (head * h.keys + key) * panels.columns + panel * h.panel_width + lane
            value = ExprValue(panels.load(panel, key, lane))
            return [loop_ir.Store(h.out, index.expr(), (value if by == 1 else value * by).expr)]

        return [For(c, const(0), const(h.keys), tuple(panels.for_each_column(body)))]
