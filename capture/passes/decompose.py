"""Opens composites: each is replaced by the ops it is made of, but for those asked to be kept.
And calls of libraries, where there is no such library."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...eager.core.op import OPS
from ..graph.graph import Graph, Node, Nodes, rebuild
from ..graph.graph_builder import build

Decompose = Callable[..., Any]  # decompose(*tensors, **params) -> tensor


def decompose(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """The graph without composites, save those named in `keep`."""
    return decompose_composites(graph, lambda node: node.op not in keep)


def decompose_composites(graph: Graph, opens: Callable[[Node], bool]) -> Graph:
    """The graph without those composites that `opens` says yes to."""
    return _opened(graph, lambda node: OPS[node.op].meaning
                   if node.kind == "composite" and opens(node) else None)


def decompose_calls(graph: Graph) -> Graph:
    """The graph without those calls of a library that are known to be made of other ops."""
    return _opened(graph, decomposition_of)


def decomposition_of(node: Node) -> Decompose | None:
    """What gives the same as a call of a library by other ops; None where that is not known, and
    for other nodes."""
    instead = OPS[node.op].meaning if node.kind == "opaque" else None
    found: Decompose | None = None if instead is None else instead(**node.params)
    return found


def _opened(graph: Graph, made_of: Callable[[Node], Decompose | None]) -> Graph:

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        decompose = made_of(node)
        if decompose is None:
            return nodes.again(node, inputs)
        return build(nodes, decompose, inputs, dict(node.params), node.site)

    while any(made_of(n) is not None for n in graph.nodes()):
        graph = rebuild(graph, visit)
    return graph
