"""Lowers the forward pass of attention.

    task = one head, and a block of its queries
        pack the keys, transposed, and the values
        for each tile of queries:
            pack the queries; their scores; their powers (`scores.py`)
            result[query] = powers[query] @ values / sum of powers
"""

from __future__ import annotations

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue, call
from ...ir.inline import Indices, flatten
from ...ir.loop_ir import Expr, For, Kernel, Stmt, const
from ...ir.sizes import upper_bound
from .panels import allocate_panels, tile_sums
from .scores import Scores
from .shape import AttentionShape, smaller

_MIN_TASKS_PER_THREAD = 4  # with fewer heads, the queries of a head are several tasks
_MIN_QUERIES_PER_BLOCK = 64  # packing the keys does not pay for fewer


class AttentionForward:
    """The kernel of the forward pass."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape, h = shape, shape
        tasks = _MIN_TASKS_PER_THREAD * h.machine.threads
        blocks_per_head = -(-tasks // upper_bound(h.heads))
        self.block = h.blocks(max(_MIN_QUERIES_PER_BLOCK, -(-h.queries // blocks_per_head)))
        self.blocks = -(-h.queries // self.block)
        self.var, self.task = counter("task", h.heads * self.blocks)
        self.scores = Scores(h, self.task, h.rows)
        self.values = allocate_panels(h, "values", self.task, h.keys, h.values)
        self.factors = h.scratch("factors", h.rows)
        self.memory = (*self.scores.memory, self.values.buffer, self.factors)

    def kernel(self) -> Kernel:
        h = self.shape
        number, first = self.task // self.blocks, self.task % self.blocks * self.block
        head, key_head = h.head(number), h.key_head(number // h.groups)
        t, tile = counter("tile", -(-self.block // h.rows))
        tile_count = (smaller(as_index(self.block), h.queries - first) + (h.rows - 1)) // h.rows
        body = (*self.scores.packed_keys(key_head),
                *self.values.packed(lambda c, j: h.element(h.operands[2], *key_head, c, j)),
                For(t, const(0), tile_count.expr(), tuple(self._tile(head, h.tile(first, tile)))))
        nanoseconds = h.pairs * (h.width + h.values) / (5 * h.vector) * 1.3
        return h.kernel(self.var, h.heads * self.blocks, body, self.memory, nanoseconds)

    def _tile(self, head: Indices, first: Index) -> list[Stmt]:
        h, none = self.shape, as_index(0)
        seen = h.visible_to_tile(head, first)
        r, row = counter("r", h.rows)
        power_statements, reciprocal = self.scores.row(head, first + row, row, seen)
        store_reciprocal = loop_ir.Store(self.factors, row.expr(), reciprocal)
        return [*self.scores.packed_queries(head, first, none),
                self.scores.scores(none, h.panels_of(seen)),
                For(r, const(0), const(h.rows), (*power_statements, store_reciprocal)),
                *self._weighted(head, first, seen)]

    def _weighted(self, head: Indices, first: Index, seen: Index) -> list[Stmt]:
        """Statements that compute and store the sums of values, weighted by a tile's powers."""
        h = self.shape

        def body(panel: Index, lane: Index) -> list[Stmt]:
            def end(i: int, total: Expr) -> list[Stmt]:
                reciprocal = ExprValue(loop_ir.load(self.factors, const(i)))
                value = ExprValue(total) * reciprocal
                if h.may_see_nothing:
                    value = call("where", call("eq", reciprocal, 0.0), 0.0, value)
                index = (*head, first + i, panel * h.panel_width + lane)
                position = flatten(index, h.node.type.shape)
                return [loop_ir.Store(h.out, position.expr(), value.expr)]

            return tile_sums([loop_ir.const(0, h.dtype)] * h.rows, seen,
                             lambda i, k: self.scores.powers.load(as_index(i), k),
                             lambda k: self.values.load(panel, k, lane), end)

        return self.values.for_each_column(body)
