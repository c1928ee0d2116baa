"""One driver for local algebra: tables of named rules, tried on every node until none fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .graph import Graph, Node, Nodes, rebuild


class Rule(NamedTuple):
    """`name` states the identity; `apply(nodes, node)` gives the simpler node, or None."""

    name: str
    ops: tuple[str, ...]
    apply: Callable[[Nodes, Node], Node | None]


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """The graph with the first fitting rule applied at each node, again while one fits."""
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        for op in rule.ops:
            by_op.setdefault(op, []).append(rule)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        made = nodes.again(node, inputs)
        for _ in range(100):
            simpler = next((s for r in by_op.get(made.op, ())
                            if (s := r.apply(nodes, made)) is not None), None)
            if simpler is None:
                break
            made = simpler
        return made

    return rebuild(graph, visit)
