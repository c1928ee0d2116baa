"""Finds values that depend on phis behind a branch: such values differ among its paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..scalars.scalar_expr import ScalarExpr, elements
from .loop_detection import LoopEntry
from .merges import Merge


class InnerPhis:
    """Finds values that depend on phis of loops and merge points behind a branch."""

    def __init__(self, tracer: Any, start: int) -> None:
        self.numbers = tracer.names.numbers
        self.phis: set[Any] = set()
        for element in tracer.path[start:]:
            if isinstance(element, (LoopEntry, Merge)):
                self.phis.update(element.phis, element.symbols)

    def reached_by(self, plan: Any) -> set[Any]:
        """The tensors and numbers of a plan that depend on such phis."""
        return {i for i, node in enumerate(plan.nodes) if self.reach(node)} | {
            n for n, number in plan.numbers.items() if self.reach(number)}

    def reach(self, subject: Any) -> bool:
        """True if a node or a number depends on such a phi."""
        stack, seen = [subject] if self.phis else [], {subject}
        while stack:
            value = stack.pop()
            if value in self.phis:
                return True
            operands = [p for p in self._parts(value) if p not in seen]
            seen.update(operands)
            stack += operands
        return False

    def _parts(self, subject: Any) -> list[Any]:
        if type(subject) is ScalarExpr:
            return [*elements([subject]), *subject.parts]
        return [*subject.inputs, *([self.numbers[subject]] if subject in self.numbers else [])]


def formulas_in(structure: Any) -> Iterator[ScalarExpr]:
    """The formulas of numbers in lists and other containers."""
    stack = [structure]
    while stack:
        top = stack.pop()
        if type(top) is ScalarExpr:
            yield top
        elif type(top) in (tuple, frozenset):
            stack += top
