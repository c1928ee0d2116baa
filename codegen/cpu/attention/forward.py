"""Attention.

    task = one head, and a block of its queries
        pack the keys, turned, and the values
        for each tile of queries:
            pack the queries; their scores; their powers (`shares.py`)
            result[query] = powers[query] @ values / sum of powers
"""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.inline import Indices, flat
from ...ir.loop_ir import Expr, For, Kernel, Stmt, const
from .panels import panels, sums
from .scores import Scores
from .shape import AttentionShape, least

_TASKS = 4  # for each thread, fewer: queries of a head are several tasks
_FEW = 64  # queries for which keys are not packed


class AttentionForward:
    """The kernel of an attention."""

    def __init__(self, heads: AttentionShape) -> None:
        self.heads, h = heads, heads
        wanted = -(-_TASKS * h.machine.threads // h.heads)
        self.block = h.blocks(max(_FEW, -(-h.queries // wanted)))
        self.blocks = -(-h.queries // self.block)
        self.var, self.task = counter("task", h.heads * self.blocks)
        self.shares = Scores(h, self.task, h.rows)
        self.values = panels(h, "values", self.task, h.keys, h.values)
        self.factors = h.scratch("factors", h.rows)
        self.memory = (*self.shares.memory, self.values.buffer, self.factors)

    def kernel(self) -> Kernel:
        h = self.heads
        number, first = self.task // self.blocks, self.task % self.blocks * self.block
        head, of_keys = h.head(number), h.of_group(number // h.groups)
        t, tile = counter("tile", -(-self.block // h.rows))
        there = (least(as_index(self.block), h.queries - first) + (h.rows - 1)) // h.rows
        body = (*self.shares.packed_keys(of_keys),
                *self.values.packed(lambda c, j: h.element(h.given[2], *of_keys, c, j)),
                For(t, const(0), there.expr(), tuple(self._tile(head, h.tile(first, tile)))))
        nanoseconds = h.pairs * (h.width + h.values) / (5 * h.vector) * 1.3
        return h.kernel(self.var, h.heads * self.blocks, body, self.memory, nanoseconds)

    def _tile(self, head: Indices, first: Index) -> list[Stmt]:
        h, none = self.heads, as_index(0)
        seen = h.seen_by_tile(first)
        r, row = counter("r", h.rows)
        made, by = self.shares.row(head, first + row, row, seen)
        keep = loop_ir.Store(self.factors, row.expr(), by)
        return [*self.shares.packed_queries(head, first, none),
                self.shares.scores(none, h.panels_of(seen)),
                For(r, const(0), const(h.rows), (*made, keep)),
                *self._weighted(head, first, seen)]

    def _weighted(self, head: Indices, first: Index, seen: Index) -> list[Stmt]:
        """The sums of values that a tile's powers are the weights of, and their stores."""
        h = self.heads

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                by = ExprValue(loop_ir.load(self.factors, const(i)))
                value = ExprValue(total) * by
                if h.masked:
                    value = call("where", call("eq", by, 0.0), 0.0, value)
                index = (*head, first + i, panel * h.wide + lane)
                place = flat(index, h.node.type.shape)
                return [loop_ir.Store(h.out, place.expr(), value.expr)]

            return sums([loop_ir.const(0, h.dtype)] * h.rows, seen,
                        lambda i, k: self.shares.powers.load(as_index(i), k),
                        lambda k: self.values.load(panel, k, lane), end)

        return self.values.each(body)
