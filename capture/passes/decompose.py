"""Opens composites: each is replaced by the ops it is made of, but for those asked to be kept."""

from __future__ import annotations

from collections.abc import Collection

from ...eager.op import OPS
from ..builder import build
from ..graph import SPECIAL, Graph, Node, Nodes, rebuild


def decompose(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """The graph without composites, save those named in `keep`."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind != "composite" or node.op in keep:
            return nodes.make(node.op, inputs, node.params, node.type, node.site)
        return build(nodes, OPS[node.op].meaning, inputs, dict(node.params), node.site)

    while any(n.op not in SPECIAL and n.kind == "composite" and n.op not in keep
              for n in graph.nodes()):
        graph = rebuild(graph, visit)
    return graph
