"""Whether a graph is well formed, judged by the ops' own rules. Run after every pass."""

from __future__ import annotations

from ...eager.core.op import OPS
from ...eager.errors import FusewireError, GraphError
from .graph import SPECIAL, Graph, Node
from .text import to_text


def verify(graph: Graph, after: str, known: set[Node] | None = None) -> Graph:
    """The graph itself. GraphError naming the pass and the node for one that is not well formed.

    `known` are nodes that were verified before; those of this graph are added to it.
    """
    given, known = set(graph.inputs), set() if known is None else known
    for node in graph.nodes():
        problem = _lost(node) if node.op == "input" and node not in given else \
            "" if node in known else _problem(node)
        if problem:
            raise GraphError(f"after {after}: {problem}\n{to_text(graph)}")
    known.update(graph.nodes())
    for j, i in graph.donated.items():
        if graph.outputs[j].type != graph.inputs[i].type:
            raise GraphError(f"after {after}: output {j} cannot take the memory of input {i}")
    return graph


def _lost(node: Node) -> str:
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
