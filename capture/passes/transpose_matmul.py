"""Folds a transpose of a matrix product into the product."""

from __future__ import annotations

from ...eager.ops.products.contract import parts
from ..graph.graph import Graph, Node, Nodes, rebuild, users


def transpose_products(graph: Graph) -> Graph:
    """The graph in which a contraction that only a transpose reads computes the transpose."""
    readers, outputs = users(graph.nodes()), set(graph.outputs)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "permute_dims":
            product = node.inputs[0]
            is_only_reader = len(readers[product]) == 1 and product not in outputs
            if product.op == "contract" and is_only_reader:
                left, right, out = parts(product.params["spec"])
                spec = f"{left},{right}->{''.join(out[a] for a in node.params['axes'])}"
                params = {"spec": spec}
                return nodes.make("contract", inputs[0].inputs, params, node.type, node.site)
        return nodes.with_inputs(node, inputs)

    return rebuild(graph, visit)
