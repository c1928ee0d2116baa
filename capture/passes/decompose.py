"""Decomposes composite ops, and library calls for back ends without that library."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...eager.core.op import OPS
from ..graph.graph import Graph, Node, Nodes, rebuild
from ..graph.graph_builder import build

Decompose = Callable[..., Any]  # decompose(*tensors, **params) -> tensor


def decompose(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """The graph with all composites decomposed, except those named in `keep`."""
    return decompose_composites(graph, lambda node: node.op not in keep)


def decompose_composites(graph: Graph, selected: Callable[[Node], bool]) -> Graph:
    """The graph with those composites decomposed for which `selected` is true."""
    return _decomposed(graph, lambda node: OPS[node.op].meaning
                       if node.kind == "composite" and selected(node) else None)


def decompose_calls(graph: Graph) -> Graph:
    """The graph with those library calls decomposed that have a decomposition."""
    return _decomposed(graph, decomposition_of)


def decomposition_of(node: Node) -> Decompose | None:
    """A function that computes a library call by other ops; None if the node has none."""
    meaning = OPS[node.op].meaning if node.kind == "opaque" else None
    decomposition: Decompose | None = None if meaning is None else meaning(**node.params)
    return decomposition


def _decomposed(graph: Graph, decomposition: Callable[[Node], Decompose | None]) -> Graph:

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        decompose = decomposition(node)
        if decompose is None:
            return nodes.with_inputs(node, inputs)
        return build(nodes, decompose, inputs, dict(node.params), node.site)

    while any(decomposition(n) is not None for n in graph.nodes()):
        graph = rebuild(graph, visit)
    return graph
