"""Finds trees of additions and their summands, for passes that rewrite whole sums."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeVar

from ..graph.graph import Graph, Node, Nodes, rebuild, users

Sum = TypeVar("Sum")  # what a pass notes of a tree


def sums_of(graph: Graph) -> tuple[Sequence[Node], Container[Node]]:
    """The roots of all trees of additions, and the inner additions.

    An inner addition has one reader, which is an addition too.
    """
    nodes, outputs = graph.nodes(), set(graph.outputs)
    readers = users(nodes)
    inner = {n for n in nodes if n.op == "add" and len(readers[n]) == 1 and n not in outputs}
    roots = [n for n in nodes if n.op == "add"
             and not (n in inner and readers[n][0].op == "add")]
    return roots, inner


def summands(root: Node, inner: Container[Node]) -> list[Node]:
    """The summands of a tree of additions, the last one first."""
    terms, stack = [], list(root.inputs)
    while stack:
        node = stack.pop()
        if node in inner:
            stack.extend(node.inputs)
        else:
            terms.append(node)
    return terms


def with_sums(graph: Graph, sums: Mapping[Node, Sum],
              build_sum: Callable[[Nodes, Node, Sum, Mapping[Node, Node]], Node]) -> Graph:
    """The graph with these trees replaced by `build_sum(nodes, root, sum, new)`.

    `sums` holds the pass's notes of each root; `new` the new node of each earlier node.
    """
    if not sums:
        return graph
    new: dict[Node, Node] = {}

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in sums:
            return nodes.with_inputs(node, inputs)
        return build_sum(nodes, node, sums[node], new)

    return rebuild(graph, visit, new=new)
