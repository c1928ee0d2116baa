"""Trees of additions, and what each of them adds up."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeVar

from ..graph.graph import Graph, Node, Nodes, rebuild, users

Sum = TypeVar("Sum")  # what a pass has found out of a tree


def sums_of(graph: Graph) -> tuple[Sequence[Node], Container[Node]]:
    """The roots of all trees of additions, and the additions inside of them, which nobody else
    reads."""
    order, outputs = graph.nodes(), set(graph.outputs)
    readers = users(order)
    alone = {n for n in order if n.op == "add" and len(readers[n]) == 1 and n not in outputs}
    roots = [n for n in order if n.op == "add"
             and not (n in alone and readers[n][0].op == "add")]
    return roots, alone


def summands(root: Node, alone: Container[Node]) -> list[Node]:
    """What a tree of additions adds up, the last one first."""
    found, stack = [], list(root.inputs)
    while stack:
        node = stack.pop()
        if node in alone:
            stack.extend(node.inputs)
        else:
            found.append(node)
    return found


def with_sums(graph: Graph, sums: Mapping[Node, Sum],
              made: Callable[[Nodes, Node, Sum, Mapping[Node, Node]], Node]) -> Graph:
    """The graph in which `made` gives these trees, from its nodes, the root, what was found of it,
    and what has become of the nodes before it."""
    if not sums:
        return graph
    new: dict[Node, Node] = {}

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in sums:
            return nodes.again(node, inputs)
        return made(nodes, node, sums[node], new)

    return rebuild(graph, visit, new=new)
