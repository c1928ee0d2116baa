"""Decisions: questions that Python asks about a value while a function is traced."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..scalars.scalar_expr import ScalarConstant, ScalarExpr


class Decision(NamedTuple):
    """A question that Python asked about a value during the trace, and its outcome.

    `subject` is a node or the formula of a number. Kinds: "bool", "int", or the exact "value".
    """

    subject: Any
    kind: str
    outcome: Any
    site: str


def outcome_of(kind: str, subject: Any, value: Any) -> Any:
    """The outcome of a decision of this kind for a value: an array, or a plain number."""
    if kind == "bool":
        return bool(value)
    if kind == "int":
        number = value if isinstance(subject, ScalarExpr) else value.item()
        return int(number) if number - number == 0 else repr(number)  # nan is no int
    return ScalarConstant(value) if isinstance(subject, ScalarExpr) else value.tobytes()
