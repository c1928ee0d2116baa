"""The rows of scores of an attention: their queries, their masks, and their visible keys."""

from __future__ import annotations

from typing import Any

from ...cpu.attention.scores import LOG2E
from ...cpu.attention.shape import AttentionShape, smaller
from ...ir.affine_index import Index, as_index
from ...ir.builder import ExprValue, call, cast
from ...ir.inline import Indices
from ...ir.loop_ir import BOOL
from ...ir.sizes import upper_bound

MASKED_SCORE = -float("inf")


class QueryRows:
    """Queries grouped in units whose rows attend to the same keys: a head or, for few queries, all
    heads of a key group."""

    def __init__(self, shape: AttentionShape, max_grouped_queries: int) -> None:
        """Heads are grouped if they have at most `max_grouped_queries` queries."""
        self.shape = shape
        few = upper_bound(shape.queries) <= max_grouped_queries
        self.heads_per_unit = shape.groups if few else 1
        self.units = shape.heads // self.heads_per_unit
        self.count = self.heads_per_unit * shape.queries  # rows of a unit

    def head(self, unit: Index, row: Index) -> Indices:
        """The head that a row belongs to."""
        return self.shape.head(unit * self.heads_per_unit + row // self.shape.queries)

    def query(self, row: Index) -> Index:
        """The number of a row's query in its head."""
        queries: int = self.shape.queries
        return row % queries

    def keys(self, unit: Index) -> Indices:
        """The key head that a unit attends to."""
        return self.shape.key_head(unit * self.heads_per_unit // self.shape.groups)

    def element(self, node: Any, unit: Index, row: Index, column: Index) -> ExprValue:
        """An element of the queries, or of an array of their shape."""
        return self.shape.element(node, *self.head(unit, row), self.query(row), column)

    def visible_keys(self, first: Index, rows: int) -> Index:
        """The number of keys that some of these rows may attend to."""
        shape = self.shape
        if not shape.causal:
            return as_index(shape.keys)
        end = first + rows if self.heads_per_unit == 1 else as_index(shape.queries)
        return smaller(smaller(end, shape.queries), shape.keys)

    def masked(self, score: ExprValue, unit: Index, row: Index, key: Index) -> tuple[ExprValue,
                                                                                     Any]:
        """A score under the mask, and a condition that is True if the query may attend to the key.

        The score is -inf for keys out of range, and for later keys under a causal mask. Rows
        out of range repeat the last one."""
        shape, row = self.shape, smaller(row, self.count - 1)
        inside = key < shape.keys
        if shape.causal:
            inside = call("and", inside, key <= self.query(row))
        if not shape.masked:
            return _select(inside, score, MASKED_SCORE), inside
        mask = shape.mask(self.head(unit, row), self.query(row), smaller(key, shape.keys - 1))
        if mask.dtype == BOOL:
            visible = call("and", inside, mask)
            return _select(visible, score, MASKED_SCORE), visible
        value = _select(inside, score + cast(mask, score.dtype) * LOG2E, MASKED_SCORE)
        return value, call("and", inside, call("ne", mask, MASKED_SCORE))


def _select(condition: Any, value: ExprValue, other: float) -> ExprValue:
    """The value where the condition holds, the number elsewhere; the condition may be a known
    boolean."""
    return cast(call("where", condition, value, other), value.dtype)
