"""Computes now what depends on constants only."""

from __future__ import annotations

import numpy as np

from ..graph.graph import SPECIAL, Graph, Node, Nodes, rebuild
from ..graph.reference_interpreter import evaluate_node


def fold_constants(graph: Graph) -> Graph:
    """The graph with every scalar that is made of constants replaced by its value."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        made = nodes.again(node, inputs)
        if node.op in SPECIAL or node.type.shape or not inputs or node.kind == "opaque":
            return made
        if any(i.op != "const" for i in inputs):
            return made
        with np.errstate(all="ignore"):
            value = evaluate_node(made, [evaluate_node(i, []) for i in inputs])
        return nodes.const(value.item(), value.dtype)

    return rebuild(graph, visit)
