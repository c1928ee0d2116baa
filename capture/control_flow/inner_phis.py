"""Finds values that depend on phis behind a branch: such values differ among its paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, elements
from .loop_elements import LoopEntry
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
        return bool(self.phis) and any(value in self.phis for value in parts_below(
            [subject], self.numbers, set()))


def parts_below(subjects: Iterable[Any], numbers: Mapping[Node, ScalarExpr], seen: set[Any]
                ) -> Iterator[Any]:
    """These nodes and numbers and all that they depend on, except for what is `seen`, which grows.
    """
    stack = list(subjects)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if type(value) is ScalarExpr:
            stack += [*elements([value]), *value.parts]
        else:
            stack += [*value.inputs, *([numbers[value]] if value in numbers else [])]


def formulas_in(structure: Any) -> Iterator[ScalarExpr]:
    """The formulas of numbers in lists and other containers."""
    stack = [structure]
    while stack:
        top = stack.pop()
        if type(top) is ScalarExpr:
            yield top
        elif type(top) in (tuple, frozenset):
            stack += top
