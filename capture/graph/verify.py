"""Verifies that a graph is well formed, by the ops' own rules, after every pass."""

from __future__ import annotations

from ...eager.core.op import OPS
from ...eager.errors import FusewireError, GraphError
from .graph import SPECIAL, Graph, Node
from .text import to_text


def verify(graph: Graph, after: str, verified: set[Node] | None = None) -> Graph:
    """The graph itself. Raises GraphError with the pass and the node if it is not well formed.

    `verified` holds nodes that were verified before; the nodes of this graph are added to it.
    """
    inputs, verified = set(graph.inputs), set() if verified is None else verified
    for node in graph.nodes():
        problem = _missing_input(node) if node.op == "input" and node not in inputs else \
            "" if node in verified else _problem(node)
        if problem:
            raise GraphError(f"after {after}: {problem}\n{to_text(graph)}")
    verified.update(graph.nodes())
    for j, i in graph.donated.items():
        if graph.outputs[j].type != graph.inputs[i].type:
            raise GraphError(f"after {after}: output {j} cannot take the memory of input {i}")
    return graph


def _missing_input(node: Node) -> str:
    return f"input {node.params['name']!r} is not among the graph's inputs"


def _problem(node: Node) -> str:
    if node.op in SPECIAL:
        return ""
    if node.op not in OPS:
        return f"unknown op {node.op!r}"
    try:
        want = OPS[node.op].result(*[i.type for i in node.inputs], **node.params)
    except FusewireError as error:
        return f"{node.op} does not accept its inputs: {error.message}"
    return "" if want == node.type else f"{node.op} has type {node.type}, its rule gives {want}"
