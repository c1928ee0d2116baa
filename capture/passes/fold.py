"""Folds constants: computes scalars that depend on constants only."""

from __future__ import annotations

import numpy as np

from ..graph.bind_sizes import sizes_of
from ..graph.graph import SPECIAL, Graph, Node, Nodes, rebuild
from ..graph.reference_interpreter import evaluate_node


def fold_constants(graph: Graph) -> Graph:
    """The graph with every scalar op of constants replaced by its value."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        rebuilt = nodes.with_inputs(node, inputs)
        if node.op in SPECIAL or node.type.shape or not inputs or node.kind == "opaque":
            return rebuilt
        if any(i.op != "const" for i in inputs) or sizes_of(rebuilt) or any(map(sizes_of, inputs)):
            return rebuilt
        with np.errstate(all="ignore"):
            value = evaluate_node(rebuilt, [evaluate_node(i, []) for i in inputs])
        return nodes.const(value.item(), value.dtype)

    return rebuild(graph, visit)
