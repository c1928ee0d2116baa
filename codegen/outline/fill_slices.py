"""Parts of an array that hold nothing but what it was filled with, beside a part that was put in.

The way back of `x[-1]` is such an array, and the way back of a loop reads it step by step.
"""

from __future__ import annotations

from typing import Any

from ...capture.graph.graph import Graph, Node, Nodes
from ...capture.graph.rewrite import Rule, rewrite
from ..fusion.fusion import axis_variables
from ..ir import loop_ir
from ..ir.builder import ExprValue
from ..ir.inline import Indices, Inliner
from ..ir.loop_ir import Const, Register

_MOST_VIEWS = 4  # between a slice and what was filled


def fold_fill_slices(graph: Graph) -> Graph:
    """The graph whose slices of what was filled are numbers."""
    if not any(n.op == "unslice" for n in graph.nodes()):
        return graph
    return rewrite(graph, [_RULE])


def _filled(nodes: Nodes, node: Node) -> Node | None:
    if not _reads_filled(node):
        return None
    found = Inliner(_opaque).value(node, axis_variables(node.type.shape)).expr
    if not isinstance(found, Const):
        return None
    number = nodes.const(found.value, node.type.dtype)
    return nodes.make("broadcast_to", (number,), {"shape": node.type.shape}, node.type, node.site)


def _reads_filled(node: Node) -> bool:
    """Whether a slice is a view of an array that was filled."""
    for _ in range(_MOST_VIEWS):
        (node, *others) = node.inputs
        if node.op == "unslice":
            return True
        if node.kind != "view" or others:
            return False
    return False


def _opaque(node: Node, index: Indices, mask: Any) -> ExprValue | None:
    known = node.kind == "view" or node.op == "const"
    return None if known else ExprValue(loop_ir.read(Register("x", node.type.dtype)))


_RULE = Rule("slice(fill beside a part) -> fill", ("slice",), _filled)
