"""Replaces slices that read only the fill value of an array by constants.

The gradient of `x[-1]` is an array of fill with one slice set, and the backward pass of a loop
reads it one step at a time.
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

_MAX_VIEWS = 4  # between a slice and the filled array


def fold_fill_slices(graph: Graph) -> Graph:
    """The graph, with each slice that reads only fill as a constant."""
    if not any(n.op == "unslice" for n in graph.nodes()):
        return graph
    return rewrite(graph, [_RULE])


def _fold(nodes: Nodes, node: Node) -> Node | None:
    if not _is_slice_of_unslice(node):
        return None
    value = Inliner(_opaque).value(node, axis_variables(node.type.shape)).expr
    if not isinstance(value, Const):
        return None
    constant = nodes.const(value.value, node.type.dtype)
    return nodes.make("broadcast_to", (constant,), {"shape": node.type.shape}, node.type, node.site)


def _is_slice_of_unslice(node: Node) -> bool:
    """True if a slice is a view of a filled array."""
    for _ in range(_MAX_VIEWS):
        (node, *others) = node.inputs
        if node.op == "unslice":
            return True
        if node.kind != "view" or others:
            return False
    return False


def _opaque(node: Node, index: Indices, mask: Any) -> ExprValue | None:
    inlined = node.kind == "view" or node.op == "const"
    return None if inlined else ExprValue(loop_ir.read(Register("x", node.type.dtype)))


_RULE = Rule("slice(fill beside a part) -> fill", ("slice",), _fold)
