"""A decision: a question that Python asked of a value while a function was traced."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..scalars.scalar_expr import ScalarConstant, ScalarExpr


class Decision(NamedTuple):
    """A question that Python asked of a value while recording, and the answer it got.

    `subject` is a node or the formula of a number. Kinds: "bool", "int", or the exact "value".
    """

    subject: Any
    kind: str
    outcome: Any
    site: str


def outcome_of(kind: str, subject: Any, value: Any) -> Any:
    """What a decision of this kind tells apart in a value: of an array, or of a plain number."""
    if kind == "bool":
        return bool(value)
    if kind == "int":
        number = value if isinstance(subject, ScalarExpr) else value.item()
        return int(number) if number - number == 0 else repr(number)  # nan is no int
    return ScalarConstant(value) if isinstance(subject, ScalarExpr) else value.tobytes()
