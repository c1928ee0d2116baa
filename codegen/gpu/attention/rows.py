"""The rows of scores of an attention: which queries they belong to, what masks do to them, and up
to which column they go."""

from __future__ import annotations

from typing import Any

from ...cpu.attention.scores import LOG2E
from ...cpu.attention.shape import AttentionShape, smaller
from ...ir.affine_index import Index, as_index
from ...ir.builder import ExprValue, call, cast
from ...ir.inline import Indices
from ...ir.loop_ir import BOOL

NEVER = -float("inf")


class ScoreRows:
    """Queries in units, of which all rows look at the same keys: a head, or, where queries are few,
    the heads of a group, one after the other."""

    def __init__(self, heads: AttentionShape, few: int) -> None:
        """few: queries that are no more than this are few."""
        self.heads = heads
        self.members = heads.groups if heads.queries <= few else 1
        self.units = heads.heads // self.members
        self.count = self.members * heads.queries  # rows of a unit

    def head(self, unit: Index, row: Index) -> Indices:
        """The head that a row belongs to."""
        return self.heads.head(unit * self.members + row // self.heads.queries)

    def query(self, row: Index) -> Index:
        """The query that a row is, of its head."""
        queries: int = self.heads.queries
        return row % queries

    def keys(self, unit: Index) -> Indices:
        """The head of the keys that a unit looks at."""
        return self.heads.key_head(unit * self.members // self.heads.groups)

    def element(self, node: Any, unit: Index, row: Index, column: Index) -> ExprValue:
        """An element of the queries, or of what is like them."""
        return self.heads.element(node, *self.head(unit, row), self.query(row), column)

    def seen(self, first: Index, rows: int) -> Index:
        """How many keys some of these rows may look at."""
        h = self.heads
        if not h.causal:
            return as_index(h.keys)
        last = first + rows if self.members == 1 else as_index(h.queries)
        return smaller(smaller(last, h.queries), h.keys)

    def masked(self, score: ExprValue, unit: Index, row: Index, key: Index) -> tuple[ExprValue,
                                                                                     Any]:
        """A score under the mask, -inf where there is no such key or it comes later; and whether
        the query may look at it. Of a row behind the last one it is that of the last."""
        h, row = self.heads, smaller(row, self.count - 1)
        inside = key < h.keys
        if h.causal:
            inside = call("and", inside, key <= self.query(row))
        if not h.masked:
            return _one_of(inside, score, NEVER), inside
        mask = h.mask(self.head(unit, row), self.query(row), smaller(key, h.keys - 1))
        if mask.dtype == BOOL:
            seen = call("and", inside, mask)
            return _one_of(seen, score, NEVER), seen
        value = _one_of(inside, score + cast(mask, score.dtype) * LOG2E, NEVER)
        return value, call("and", inside, call("ne", mask, NEVER))


def _one_of(condition: Any, value: ExprValue, other: float) -> ExprValue:
    """A value where something holds that may be known, and a number elsewhere."""
    return cast(call("where", condition, value, other), value.dtype)
