"""Applies tables of named rewrite rules to every node of a graph until no rule matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .graph import Graph, Node, Nodes, rebuild


class Rule(NamedTuple):
    """`name` states the identity; `apply(nodes, node)` returns the simpler node, or None."""

    name: str
    ops: tuple[str, ...]
    apply: Callable[[Nodes, Node], Node | None]


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """The graph after the first matching rule was applied at each node, repeatedly."""
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        for op in rule.ops:
            by_op.setdefault(op, []).append(rule)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        current = nodes.with_inputs(node, inputs)
        for _ in range(100):
            simpler = next((s for r in by_op.get(current.op, ())
                            if (s := r.apply(nodes, current)) is not None), None)
            if simpler is None:
                break
            current = simpler
        return current

    return rebuild(graph, visit)
