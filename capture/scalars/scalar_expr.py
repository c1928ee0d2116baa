"""Represents Python numbers as expression DAGs over the numbers that a call reads.

An expression may use a part many times, so its written-out size can grow exponentially. Hence equal
expressions are one object, and every algorithm visits each part once. No algorithm recurses: a
Python loop may have built a long chain.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..graph.graph import Node, param_key

# The functions of `math` of one or two floats that all supported versions of Python have.
MATH_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(math, name) for name in (
        "acos acosh asin asinh atan atan2 atanh copysign cos cosh degrees erf erfc exp "
        "expm1 fabs fmod gamma hypot isfinite isinf isnan lgamma log log10 log1p log2 radians sin "
        "sinh sqrt tan tanh").split()}

# Python's own operators, so that a replay computes exactly what Python computes.
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "divmod": divmod,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift, "neg": operator.neg, "pos": operator.pos, "abs": operator.abs,
    "invert": operator.invert, "round": round, "trunc": math.trunc,
    "floor": math.floor, "ceil": math.ceil, "getitem": operator.getitem,
    "lt": operator.lt, "le": operator.le, "eq": operator.eq,
    "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
    **MATH_FUNCTIONS,
}
# Functions that read the value of each origin in a call, by its op.
Origins = Mapping[str, Callable[[Any], Any]]


class ScalarConstant:
    """A constant of an expression. 1, 1.0 and True are different; so are 0.0 and -0.0."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.key = value, param_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalarConstant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class ScalarExpr:
    """A node of the DAG: an operator of OPERATORS with operands, or an origin.

    Origins: "access_path" (the number at an access path), "element" (the one element of a graph
    node), "size" (the value of a size expression), "phi" (a value that a loop carries),
    "constant".
    """

    __slots__ = ("__weakref__", "_parts", "args", "op")
    op: str
    args: tuple[Any, ...]
    _parts: tuple[ScalarExpr, ...] | None

    def __new__(cls, op: str, args: tuple[Any, ...]) -> ScalarExpr:
        """The expression with this op and these operands: one object for equal arguments."""
        expr = _INTERNED.get((op, args))
        if expr is None:
            expr = object.__new__(cls)
            expr.op, expr.args, expr._parts = op, args, None
            _INTERNED[op, args] = expr
        return expr

    @property
    def parts(self) -> tuple[ScalarExpr, ...]:
        """All subexpressions in topological order, each once; the expression itself is last."""
        if self._parts is None:
            self._parts = tuple(_ordered(self))
        return self._parts

    def __repr__(self) -> str:
        return f"<{self.op} of {len(self.parts) - 1} parts>"


_INTERNED: weakref.WeakValueDictionary[Any, ScalarExpr] = weakref.WeakValueDictionary()


def _ordered(formula: ScalarExpr) -> dict[ScalarExpr, None]:
    ordered: dict[ScalarExpr, None] = {}
    stack = [formula]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if type(a) is ScalarExpr and a not in ordered]
        if missing and top not in ordered:
            stack += missing
        else:
            ordered[stack.pop()] = None
    return ordered


def of_number(value: Any) -> ScalarExpr:
    """The expression of a plain number."""
    return ScalarExpr("constant", (ScalarConstant(value),))


def compute(formula: ScalarExpr, origins: Origins) -> Any:
    """The value of an expression, by Python's own arithmetic."""
    values: dict[ScalarExpr, Any] = {}
    for part in formula.parts:
        if part.op == "constant":
            values[part] = part.args[0].value
        elif part.op in origins:
            values[part] = origins[part.op](part.args[0])
        else:
            values[part] = OPERATORS[part.op](*[values[a] for a in part.args])
    return values[formula]


def elements(subjects: Iterable[Any]) -> Iterator[Node]:
    """The graph nodes whose elements the expressions read; other subjects are skipped."""
    for subject in subjects:
        if type(subject) is ScalarExpr:
            for part in subject.parts:
                if part.op == "element":
                    yield part.args[0]
