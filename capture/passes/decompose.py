"""Opens composites: each is replaced by the ops it is made of, but for those asked to be kept."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...eager.op import OPS
from ..builder import build
from ..graph import Graph, Node, Nodes, rebuild


def decompose(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """The graph without composites, save those named in `keep`."""
    return open_composites(graph, lambda node: node.op not in keep)


def open_composites(graph: Graph, opens: Callable[[Node], bool]) -> Graph:
    """The graph without those composites that `opens` says yes to."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind != "composite" or not opens(node):
            return nodes.again(node, inputs)
        return build(nodes, OPS[node.op].meaning, inputs, dict(node.params), node.site)

    while any(n.kind == "composite" and opens(n) for n in graph.nodes()):
        graph = rebuild(graph, visit)
    return graph
