"""The way back of an attention: the gradients of queries, keys and values.

    task = one head of keys and values, and all heads of queries that look at it
        pack the keys, turned and not, and the values, turned; gradients of both = 0
        for each block of queries:
            for each tile of them:
                pack the queries; their scores; their powers (`shares.py`)
                pack the gradients of the results, divided by the sums of powers
                of scores = powers * (gradients @ values - gradients . results)
                gradients of queries = of scores @ keys
            gradients of values += powers, turned @ gradients
            gradients of keys   += of scores, turned @ queries

So shares are found once more rather than kept, and everything is added in one order.
"""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue
from ...ir.inline import Indices
from ...ir.loop_ir import Expr, For, Kernel, Register, Stmt, const
from .panels import Panels, lanes, panels, sums
from .scores import LOG2E, ScoreRows, Scores
from .shape import LINE, AttentionShape, greatest, least, up

_BLOCK = 64  # queries, at most
_POWERS = 1 << 16  # powers of a block, at most: they and what becomes of them stay in a cache


class AttentionBackward:
    """The kernel of the way back."""

    def __init__(self, heads: AttentionShape) -> None:
        self.heads, h = heads, heads
        self.block = h.blocks(max(2 * h.rows, min(_BLOCK, _POWERS // h.pitch)))
        self.var, self.task = counter("task", h.key_heads)
        self.shares = Scores(h, self.task, self.block)
        self.of_scores = ScoreRows(h.scratch("of_scores", self.block * h.pitch), h.pitch)
        self.of_results = ScoreRows(h.scratch("of_results", self.block * (h.values + LINE)),
                                    h.values + LINE)
        self.along = h.scratch("along", self.block)
        whole = up(h.keys, h.rows)
        self.keys = panels(h, "plain_keys", self.task, h.keys, h.width)
        self.values = panels(h, "values", self.task, h.values, h.keys)
        self.of_keys = panels(h, "of_keys", self.task, whole, h.width)
        self.of_values = panels(h, "of_values", self.task, whole, h.values)
        self.memory = (*self.shares.memory, self.of_scores.buffer, self.of_results.buffer,
                       self.along, self.keys.buffer, self.values.buffer, self.of_keys.buffer,
                       self.of_values.buffer)

    def kernel(self) -> Kernel:
        h, task = self.heads, self.task
        of_keys = h.of_group(task)
        (g, member), blocks = counter("member", h.groups), -(-h.queries // self.block)
        b, block = counter("block", blocks)
        each = For(b, const(0), const(blocks), tuple(
            self._block(task * h.groups + member, block * self.block)))
        body = (*self.shares.packed_keys(of_keys),
                *self.keys.packed(lambda c, e: h.element(h.given[1], *of_keys, c, e)),
                *self.values.packed(lambda j, c: h.element(h.given[2], *of_keys, c, j)),
                self._zeros(self.of_keys), self._zeros(self.of_values),
                For(g, const(0), const(h.groups), (each,)), *self._stored(task))
        nanoseconds = h.pairs * (3 * h.width + 2 * h.values) / (5 * h.vector) * 1.3
        return h.kernel(self.var, h.key_heads, body, self.memory, nanoseconds)

    def _zeros(self, panels: Panels) -> Stmt:
        r, row = counter("r", panels.rows)

        def body(panel: Index, lane: Index) -> list[Stmt]:
            return [loop_ir.Store(panels.buffer, panels.place(panel, row, lane),
                                  loop_ir.const(0, self.heads.dtype))]

        return For(r, const(0), const(panels.rows), tuple(panels.each(body)))

    # ---- a block of queries
    def _block(self, number: Index, first: Index) -> list[Stmt]:
        h, head = self.heads, self.heads.head(number)
        count = least(as_index(self.block), h.queries - first)
        t, tile = counter("tile", -(-self.block // h.rows))
        body = self._tile(head, number, h.tile(first, tile), first)
        return [For(t, const(0), ((count + (h.rows - 1)) // h.rows).expr(), tuple(body)),
                self._added(first, count)]

    def _tile(self, head: Indices, number: Index, start: Index, first: Index) -> list[Stmt]:
        h, local = self.heads, start - first
        seen = h.seen_by_tile(start)
        panels, (r, row) = h.panels_of(seen), counter("r", h.rows)
        made, by = self.shares.row(head, start + row, local + row, panels * h.wide)
        results = self._of_results(head, start + row, local + row, by)
        return [*self.shares.packed_queries(head, start, local), self.shares.scores(local, panels),
                For(r, const(0), const(h.rows), (*made, *results)),
                self._of_scores(local, panels), *self._of_queries(number, start, local, seen)]

    def _of_results(self, head: Indices, query: Index, local: Index, by: Expr) -> list[Stmt]:
        """The gradients of a query's results, multiplied by `by`, and their sum along these."""
        h = self.heads
        g, out = h.node.inputs[:2]
        factor, along, part = (Register(n, h.dtype) for n in ("by", "along", "part"))
        var, j = counter("j", h.values)
        value = h.element(g, *head, query, j) * ExprValue(loop_ir.read(factor))
        product = ExprValue(loop_ir.read(part)) * h.element(out, *head, query, j)
        body = (loop_ir.Assign(part, value.expr),
                loop_ir.Store(self.of_results.buffer, self.of_results.place(local, j),
                              loop_ir.read(part)), loop_ir.Update(along, "add", product.expr))
        return [loop_ir.Assign(factor, by), loop_ir.Assign(along, loop_ir.const(0, h.dtype)),
                For(var, const(0), const(h.values), body, h.vector),
                loop_ir.Store(self.along, local.expr(), loop_ir.read(along))]

    def _of_scores(self, local: Index, panels: Index) -> Stmt:
        h, (p, panel) = self.heads, counter("p", panels.range()[1])

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                key = panel * h.wide + lane
                power = ExprValue(self.shares.powers.load(local + i, key))
                along = ExprValue(loop_ir.load(self.along, (local + i).expr()))
                return [loop_ir.Store(self.of_scores.buffer, self.of_scores.place(local + i, key),
                                      (power * (ExprValue(total) - along)).expr)]

            return sums([loop_ir.const(0, h.dtype)] * h.rows, as_index(h.values),
                        lambda i, k: self.of_results.load(local + i, k),
                        lambda k: self.values.load(panel, k, lane), end)

        return For(p, const(0), panels.expr(), (lanes(h.wide, h.wide, panel, body),))

    def _of_queries(self, number: Index, start: Index, local: Index, seen: Index) -> list[Stmt]:
        h = self.heads

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                place = (number * h.queries + start + i) * h.width + panel * h.wide + lane
                return [loop_ir.Store(h.out, place.expr(), (ExprValue(total) * h.scale).expr)]

            return sums([loop_ir.const(0, h.dtype)] * h.rows, seen,
                        lambda i, k: self.of_scores.load(local + i, k),
                        lambda k: self.keys.load(panel, k, lane), end)

        return self.keys.each(body)

    # ---- keys and values
    def _added(self, first: Index, count: Index) -> Stmt:
        """Adds what the block gives for keys and values, a tile of them after the other; of the
        queries those that may look at some key of the tile."""
        h = self.heads
        seen = least(first + count, h.keys) if h.causal else as_index(h.keys)
        t, tile = counter("keys", -(-h.keys // h.rows))
        key = tile * h.rows
        skip = greatest(key - first, 0) if h.causal else as_index(0)
        pairs = ((self.of_values, self.shares.powers, self.of_results),
                 (self.of_keys, self.of_scores, self.shares.queries))
        body = [s for into, weights, rows in pairs
                for s in self._sum(into, weights, rows, key, skip, count)]
        return For(t, const(0), ((seen + (h.rows - 1)) // h.rows).expr(), tuple(body))

    def _sum(self, into: Panels, weights: ScoreRows, rows: ScoreRows, key: Index, skip: Index,
             count: Index
             ) -> list[Stmt]:
        """Adds rows by their weights for the keys of a tile, those of the block from `skip` on."""
        h = self.heads

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                return [loop_ir.Store(into.buffer, into.place(panel, key + i, lane), total)]

            return sums([into.load(panel, key + i, lane) for i in range(h.rows)], count - skip,
                        lambda i, k: weights.load(skip + k, key + i),
                        lambda k: rows.load(skip + k, panel * h.wide + lane), end)

        return into.each(body)

    def _stored(self, head: Index) -> list[Stmt]:
        """Writes the gradients of keys and values behind those of all queries."""
        h = self.heads
        first = h.heads * h.queries * h.width
        scaled = 1 / LOG2E  # queries were packed with their scale, and with this for powers of 2
        return [*self._written(self.of_keys, head, as_index(first), scaled),
                *self._written(self.of_values, head,
                               as_index(first + h.key_heads * h.keys * h.width), 1.0)]

    def _written(self, panels: Panels, head: Index, first: Index, by: float) -> list[Stmt]:
        h, (c, key) = self.heads, counter("c", self.heads.keys)

        def body(panel: Index, lane: Index) -> list[Stmt]:
            place = first + (head * h.keys + key) * panels.columns + panel * h.wide + lane
            value = ExprValue(panels.load(panel, key, lane))
            return [loop_ir.Store(h.out, place.expr(), (value if by == 1 else value * by).expr)]

        return [For(c, const(0), const(h.keys), tuple(panels.each(body)))]
