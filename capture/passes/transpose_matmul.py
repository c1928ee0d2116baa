"""Writes values in the order in which they are read."""

from __future__ import annotations

from ...eager.ops.products.contract import parts
from ..graph.graph import Graph, Node, Nodes, rebuild, users


def transpose_products(graph: Graph) -> Graph:
    """The graph in which a contraction that is only ever read transposed is computed so."""
    readers, outputs = users(graph.nodes()), set(graph.outputs)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "permute_dims":
            product = node.inputs[0]
            alone = len(readers[product]) == 1 and product not in outputs
            if product.op == "contract" and alone:
                left, right, out = parts(product.params["spec"])
                spec = f"{left},{right}->{''.join(out[a] for a in node.params['axes'])}"
                params = {"spec": spec}
                return nodes.make("contract", inputs[0].inputs, params, node.type, node.site)
        return nodes.again(node, inputs)

    return rebuild(graph, visit)
