"""Takes range checks out of a graph, so that they can be made where an error can be raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ...eager.op import OPS
from ..graph import Graph, Node, Nodes, rebuild


class Check(NamedTuple):
    """Output number `output` of the graph must lie in 0 ... size - 1."""

    output: int
    size: Any
    what: str


def extract_checks(graph: Graph) -> tuple[Graph, list[Check]]:
    """The graph without checks, the values to be checked added to its outputs."""
    found: dict[tuple[Node, Any, str], None] = {}

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "check_index":
            found[(inputs[0], node.params["size"], node.params["what"])] = None
            return inputs[0]
        bounds = OPS[node.op].bounds if node.op in OPS else None
        if bounds is not None:
            for i, size in bounds(*[n.type for n in inputs], **node.params):
                found[(inputs[i], size, f"{node.op}: index")] = None
        return nodes.again(node, inputs)

    made = rebuild(graph, visit)
    outputs = list(made.outputs)
    checks = []
    for node, size, what in found:
        if node not in outputs:
            outputs.append(node)
        checks.append(Check(outputs.index(node), size, what))
    return replace(made, outputs=tuple(outputs)), checks
