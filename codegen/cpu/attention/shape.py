"""Describes an attention: the sizes of its heads, and how their elements are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....capture.graph.graph import Node
from ....eager.arrays.shapes import product
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, broadcast_index, memory_reader, unflatten
from ...ir.loop_ir import Expr, Kernel, KernelBuffer, Stmt, Var
from ...ir.sizes import Size, is_at_least, largest, least, upper_bound
from ...ir.target_info import Machine
from ..partition_work import buffers_of

LINE = 16  # float32 in a cache line
_TILE_ROWS = (8, 4)  # divisors of the lanes of a panel


class AttentionShape:
    """The sizes of an attention, and the elements of query, key, value and mask.

    There are `heads` of `queries` with `width` elements each. `groups` heads share the same `keys`
    and values, which have `values` elements. `before` inputs of the node precede the query.
    """

    def __init__(self, node: Node, before: int, buffers: Mapping[Node, KernelBuffer],
                 machine: Machine,
                 name: str) -> None:
        self.node, self.operands = node, node.inputs[before:]
        self.buffers, self.machine, self.name = buffers, machine, name
        self.dtype = node.type.dtype
        self.sites = (node.site,) if node.site else ()
        query, key, value = self.shapes()
        self.lead: tuple[int, ...] = query[:-2]
        self.key_lead: tuple[int, ...] = key[:-2]
        self.heads, self.key_heads = product(self.lead), product(self.key_lead)
        self.groups: int = self.heads // max(1, self.key_heads)
        (self.queries, self.width), self.keys, self.values = query[-2:], key[-2], value[-1]
        self.causal, self.scale = bool(node.params.get("causal")), float(node.params["scale"])
        self.vector = max(2, machine.lanes())
        self.panel_width = 2 * self.vector
        fitting = [n for n in _TILE_ROWS
                   if n <= machine.tile_rows and is_at_least(self.queries, n)]
        self.rows = max(fitting, default=0)

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of query, key and value."""
        return [n.type.shape for n in self.operands[:3]]

    @property
    def pairs(self) -> float:
        """The approximate number of scores."""
        heads, queries, keys = map(upper_bound, (self.heads, self.queries, self.keys))
        share = 0.5 if self.causal and queries <= keys else 1.0
        return float(heads * queries * keys * share)

    @property
    def pitch(self) -> int:
        """Elements from one row of scores to the next. Neighbouring rows are in different cache
        sets."""
        return round_up(self.keys, self.panel_width) + LINE

    def blocks(self, most: int) -> int:
        """The number of queries of a block, at most `most`. No block has fewer queries than a tile.
        """
        for size in range(most // self.rows * self.rows, self.rows, -self.rows):
            if not 0 < self.queries % size < self.rows:
                return size
        return round_up(self.queries, self.rows)

    @property
    def out(self) -> KernelBuffer:
        """The buffer of the result."""
        return self.buffers[self.node]

    @property
    def masked(self) -> bool:
        """True if there is a mask."""
        return len(self.operands) > 3

    @property
    def may_see_nothing(self) -> bool:
        """True if a query may attend to no key; its result is 0."""
        return self.masked

    def element(self, node: Node, *index: Any) -> ExprValue:
        """An element of one of the node's inputs, read through the views before it."""
        inline = Inliner(memory_reader(self.buffers, (self.node,)))
        return inline.value(node, tuple(as_index(i) for i in index))

    def head(self, number: Index) -> Indices:
        """The leading indices of a head, from its number."""
        return unflatten(number, self.lead)

    def key_head(self, number: Index) -> Indices:
        """The leading indices of a head of keys and values, from its number."""
        return unflatten(number, self.key_lead)

    def mask(self, head: Indices, query: Index, key: Index) -> ExprValue:
        """The mask element of a query and a key."""
        node = self.operands[3]
        return self.element(node, *broadcast_index((*head, query, key), node.type.shape))

    def visible_keys(self, head: Indices, query: Index) -> Index:
        """The number of keys that a query of a head attends to, from the first on."""
        return smaller(query + 1, self.keys) if self.causal else as_index(self.keys)

    def visible_to_tile(self, head: Indices, first: Index) -> Index:
        """The number of keys that some query of a tile attends to."""
        return smaller(first + self.rows, self.keys) if self.causal else as_index(self.keys)

    def panels_of(self, count: Index) -> Index:
        """The number of panels of so many keys."""
        return (count + (self.panel_width - 1)) // self.panel_width

    def tile(self, first: Index, number: Index) -> Index:
        """The first query of a tile of a block.

        A tile that would go past the last query begins earlier; some queries are then computed
        twice."""
        start = first + number * self.rows
        return start if self.queries % self.rows == 0 else smaller(start, self.queries - self.rows)

    def scratch(self, name: str, size: int) -> KernelBuffer:
        return KernelBuffer(name, self.dtype, size, scratch=True)

    def kernel(self, var: Var, tasks: Size, body: tuple[Stmt, ...], memory: Sequence[KernelBuffer],
               nanoseconds: float) -> Kernel:
        """The kernel of this body."""
        scratch = tuple(b for b in memory if b.scratch)
        return Kernel(self.name, *buffers_of(body), scratch, var, tasks, body, nanoseconds,
                      self.sites)


def round_up(count: int, step: int) -> int:
    """The first multiple of `step` that is at least `count`."""
    return -(-count // step) * step


def smaller(x: Index, most: Index | int) -> Index:
    """The smaller of two indices."""
    return _min_or_max("minimum", x, as_index(most))


def larger(x: Index, floor: Index | int) -> Index:
    """The larger of two indices."""
    return _min_or_max("maximum", x, as_index(floor))


def _min_or_max(op: str, x: Index, y: Index) -> Index:
    (low, high), (least_y, most_y) = x.range(), y.range()
    if is_at_least(least_y, high):
        return x if op == "minimum" else y
    if is_at_least(low, most_y):
        return y if op == "minimum" else x
    chosen: Expr = loop_ir.call(op, (x.expr(), y.expr()), loop_ir.INT)
    if op == "minimum":  # each of the two is an upper bound
        return atom(chosen, (least(low, least_y), high if is_at_least(most_y, high) else most_y))
    return atom(chosen, (low if is_at_least(low, least_y) else least_y, largest(high, most_y)))
