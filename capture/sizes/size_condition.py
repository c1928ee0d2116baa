"""Defines what a trace requires of symbolic sizes: outcomes of comparisons, and plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .size_expr import SizeExpr, constant


class SizeCondition(NamedTuple):
    """A comparison in a trace: the outcome of `expr` == 0 ("eq") or `expr` < 0 ("lt")."""

    relation: str
    expr: SizeExpr
    outcome: bool
    line: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """True if the comparison has the same outcome for these sizes. False if it divides by one
        of them that is 0: the trace has divided by it."""
        try:
            value = self.expr.value(sizes)
        except ZeroDivisionError:
            return False
        return (value == 0 if self.relation == "eq" else value < 0) is self.outcome

    def follows_from(self, other: SizeCondition) -> bool:
        """True if this condition is implied by `other`."""
        if other.relation != "lt" or self is other:
            return False
        apart = self.expr - other.expr if not other.outcome else other.expr - self.expr
        low = apart.low()
        if low is None:
            return False
        if self.relation == "lt":
            return self.outcome is other.outcome and low >= 0
        return not self.outcome and low > 0

    def __str__(self) -> str:
        left = SizeExpr({m: c for m, c in self.expr.terms if c > 0})
        right = SizeExpr({m: -c for m, c in self.expr.terms if c < 0})
        if self.expr.remainder() is not None:
            left, right = self.expr, constant(0)
        sign = {"eq": ("!=", "=="), "lt": (">=", "<")}[self.relation][self.outcome]
        return f"{left} {sign} {right}"


class FixedSize(NamedTuple):
    """A size that Python read as a plain number: its expression, value, use and line."""

    expr: SizeExpr
    value: int
    how: str
    line: str
