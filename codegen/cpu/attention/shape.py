"""What an attention is made of: the sizes of its heads, and how their elements are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....capture.graph.graph import Node
from ....eager.arrays.shapes import product
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, broadcast_index, in_memory, unflat
from ...ir.loop_ir import Buffer, Expr, Kernel, Stmt, Var
from ...ir.target_info import Machine
from ..partition_work import buffers_of

LINE = 16  # float32 in a cache line
_ROWS = (8, 4)  # of a tile: what divides the lanes of a panel


class AttentionShape:
    """The sizes of an attention, and the elements of query, key, value and mask, wherever they lie.

    There are `heads` of `queries` of so much `width`, each of which is one of `groups` with the
    same `keys`, and `values` numbers for a key. Of a node's inputs so many stand before the query.
    """

    def __init__(self, node: Node, before: int, buffers: Mapping[Node, Buffer], machine: Machine,
                 name: str) -> None:
        self.node, self.given = node, node.inputs[before:]
        self.buffers, self.machine, self.name = buffers, machine, name
        self.dtype = node.type.dtype
        self.sites = (node.site,) if node.site else ()
        query, key, value = (n.type.shape for n in self.given[:3])
        self.lead: tuple[int, ...] = query[:-2]
        self.groups: int = node.params["groups"]
        self.heads, self.key_heads = int(product(self.lead)), int(product(key[:-2]))
        (self.queries, self.width), self.keys, self.values = query[-2:], key[-2], value[-1]
        self.causal, self.scale = bool(node.params["causal"]), float(node.params["scale"])
        self.vector = max(2, machine.lanes())
        self.wide = 2 * self.vector
        fitting = [n for n in _ROWS if n <= min(machine.tile_rows, self.queries)]
        self.rows = max(fitting, default=0)

    @property
    def pairs(self) -> float:
        """How many scores there are, about."""
        share = 0.5 if self.causal and self.queries <= self.keys else 1.0
        return float(self.heads * self.queries * self.keys * share)

    @property
    def pitch(self) -> int:
        """Elements from one row of scores to the next, which is in other sets of a cache."""
        return up(self.keys, self.wide) + LINE

    def blocks(self, most: int) -> int:
        """How many queries a block has, `most` or fewer: none has less of them than a tile."""
        for size in range(most // self.rows * self.rows, self.rows, -self.rows):
            if not 0 < self.queries % size < self.rows:
                return size
        return up(self.queries, self.rows)

    @property
    def out(self) -> Buffer:
        """Where the result lies."""
        return self.buffers[self.node]

    @property
    def masked(self) -> bool:
        """Whether there is a mask."""
        return len(self.given) > 3

    def element(self, node: Node, *index: Any) -> ExprValue:
        """An element of one of the node's inputs, read through the views before it."""
        inline = Inliner(in_memory(self.buffers, (self.node,)))
        return inline.value(node, tuple(as_index(i) for i in index))

    def head(self, number: Index) -> Indices:
        """Where a head is, by its number."""
        return unflat(number, self.lead)

    def of_group(self, number: Index) -> Indices:
        """The same of a head of keys and values."""
        return unflat(number, self.given[1].type.shape[:-2])

    def mask(self, head: Indices, query: Index, key: Index) -> ExprValue:
        """The mask for a query and a key."""
        node = self.given[3]
        return self.element(node, *broadcast_index((*head, query, key), node.type.shape))

    def seen(self, query: Index) -> Index:
        """How many keys a query may look at, from the first on."""
        return least(query + 1, self.keys) if self.causal else as_index(self.keys)

    def seen_by_tile(self, first: Index) -> Index:
        """How many keys some of a tile's queries may look at."""
        return least(first + self.rows, self.keys) if self.causal else as_index(self.keys)

    def panels_of(self, count: Index) -> Index:
        """How many panels so many keys are in."""
        return (count + (self.wide - 1)) // self.wide

    def tile(self, first: Index, number: Index) -> Index:
        """The first query of a tile of a block: what would go past the last one begins earlier,
        and some queries are computed twice."""
        start = first + number * self.rows
        return start if self.queries % self.rows == 0 else least(start, self.queries - self.rows)

    def scratch(self, name: str, size: int) -> Buffer:
        return Buffer(name, self.dtype, size, scratch=True)

    def kernel(self, var: Var, tasks: int, body: tuple[Stmt, ...], memory: Sequence[Buffer],
               nanoseconds: float) -> Kernel:
        """A kernel of this body."""
        scratch = tuple(b for b in memory if b.scratch)
        return Kernel(self.name, *buffers_of(body), scratch, var, tasks, body, nanoseconds,
                      self.sites)


def up(count: int, step: int) -> int:
    """The first multiple of `step` that is no less than `count`."""
    return -(-count // step) * step


def least(x: Index, most: Index | int) -> Index:
    """The smaller of two indices."""
    return _one_of("minimum", x, as_index(most))


def greatest(x: Index, floor: Index | int) -> Index:
    """The larger of two indices."""
    return _one_of("maximum", x, as_index(floor))


def _one_of(op: str, x: Index, y: Index) -> Index:
    (low, high), (least_y, most_y) = x.range(), y.range()
    if high <= least_y:
        return x if op == "minimum" else y
    if low >= most_y:
        return y if op == "minimum" else x
    choose = min if op == "minimum" else max
    made: Expr = loop_ir.call(op, (x.expr(), y.expr()), loop_ir.INT)
    return atom(made, (choose(low, least_y), choose(high, most_y)))
