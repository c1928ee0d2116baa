"""Gives nodes a structural key: equal for nodes that are computed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .graph import Node, params_key


def canonical(roots: Iterable[Node], leaf: Callable[[Node], Any]
              ) -> tuple[tuple[Any, ...], dict[Node, int]]:
    """A row for each node from which `roots` are computed, inputs before users, and the numbers of
    the rows. Rows are equal where the same ops with the same params are applied in the same order.

    `leaf(node)` is the row of a node whose inputs do not count, or None for other nodes. It is
    called once for each node, in the order of the rows."""
    rows: list[Any] = []
    numbers: dict[Node, int] = {}
    for root in roots:
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, has_inputs = stack.pop()
            if node in numbers:
                continue
            row = None if has_inputs else leaf(node)
            if row is None and not has_inputs:
                stack.append((node, True))
                stack += [(i, False) for i in reversed(node.inputs) if i not in numbers]
                continue
            rows.append(_row(node, numbers) if row is None else row)
            numbers[node] = len(numbers)
    return tuple(rows), numbers


def _row(node: Node, numbers: dict[Node, int]) -> tuple[Any, ...]:
    return node.op, params_key(node.params), node.type, tuple([numbers[i] for i in node.inputs])
