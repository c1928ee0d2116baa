"""Formulas of Python numbers: how a number that a run has computed follows from what was read.

A number may be used twice in the next one, and that in the one after it, so written out a formula
may be longer than anything can be. Hence equal formulas are one object, whatever looks at one goes
through its parts, each once, and nothing calls itself: a loop of Python may have made a long chain.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..graph.graph import Node, param_key

# What a formula can compute. Python's own operators: a replay gives what Python gives.
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "divmod": divmod,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift, "neg": operator.neg, "pos": operator.pos, "abs": operator.abs,
    "invert": operator.invert, "cos": math.cos, "round": round, "trunc": math.trunc,
    "floor": math.floor, "ceil": math.ceil, "getitem": operator.getitem,
    "lt": operator.lt, "le": operator.le, "eq": operator.eq,
    "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
}
Origins = Mapping[str, Callable[[Any], Any]]  # how a replay finds the value of each origin


class Constant:
    """A plain number of a formula; 1, 1.0 and True are different ones, as are 0.0 and -0.0."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.key = value, param_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class ScalarExpr:
    """How a number is computed: an operator of OPERATORS over formulas, or where it comes from.

    Origins: "given" (a path), "element" (a node, whose one element it is), "size" (of an axis, by
    its expression), "phi" (what a loop carries), "constant" (a value).
    """

    __slots__ = ("__weakref__", "_parts", "args", "op")
    op: str
    args: tuple[Any, ...]
    _parts: tuple[ScalarExpr, ...] | None

    def __new__(cls, op: str, args: tuple[Any, ...]) -> ScalarExpr:
        """The formula of these, the same object each time."""
        found = _MADE.get((op, args))
        if found is None:
            found = object.__new__(cls)
            found.op, found.args, found._parts = op, args, None
            _MADE[op, args] = found
        return found

    @property
    def parts(self) -> tuple[ScalarExpr, ...]:
        """All formulas that it is made of, each once and after what it needs; itself last."""
        if self._parts is None:
            self._parts = tuple(_ordered(self))
        return self._parts

    def __repr__(self) -> str:
        return f"<{self.op} of {len(self.parts) - 1} parts>"


_MADE: weakref.WeakValueDictionary[Any, ScalarExpr] = weakref.WeakValueDictionary()


def _ordered(formula: ScalarExpr) -> dict[ScalarExpr, None]:
    found: dict[ScalarExpr, None] = {}
    stack = [formula]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if type(a) is ScalarExpr and a not in found]
        if missing and top not in found:
            stack += missing
        else:
            found[stack.pop()] = None
    return found


def of_number(value: Any) -> ScalarExpr:
    """The formula that is a plain number."""
    return ScalarExpr("constant", (Constant(value),))


def compute(formula: ScalarExpr, origins: Origins) -> Any:
    """The value of a formula, by Python's own arithmetic."""
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
    """The nodes whose elements formulas are made of; what is no formula has none."""
    for subject in subjects:
        if type(subject) is ScalarExpr:
            for part in subject.parts:
                if part.op == "element":
                    yield part.args[0]
