"""Simplifies a graph by identities that hold exactly, for nan, infinities and signed zeros too."""

from __future__ import annotations

import math
from typing import Any

from ..graph.graph import Graph, Node, Nodes
from ..graph.rewrite import Rule, rewrite


def _number(node: Node) -> Any:
    """The value of a scalar constant or of a tensor filled with one; None for other nodes."""
    if node.op == "const" and not node.type.shape:
        return node.params["value"]
    if node.op == "full":
        return node.params["value"]
    if node.op in ("broadcast_to", "reshape"):
        return _number(node.inputs[0])
    return None


def _if_number(node: Node, value: float, other: Node) -> Node | None:
    """`other` if `node` is the constant `value`, with the same sign of zero; else None."""
    constant = _number(node)
    same = constant is not None and not isinstance(constant, bool) and constant == value
    if same and isinstance(constant, complex):  # times 1 + 0j: nan where a part is infinite
        same = value == 0 and _sign(constant.real) == _sign(constant.imag) == _sign(value)
    elif same and value == 0:
        same = _sign(constant) == _sign(value)
    return other if same else None


def _sign(value: float) -> float:
    return math.copysign(1.0, value)


def _times_one(nodes: Nodes, n: Node) -> Node | None:
    x, y = n.inputs
    operand = _if_number(y, 1, x) or (_if_number(x, 1, y) if n.op == "multiply" else None)
    return operand if operand is not None and operand.type == n.type else None


def _minus_zero(nodes: Nodes, n: Node) -> Node | None:
    x, y = n.inputs
    zero = -0.0 if n.op == "add" else 0.0
    operand = _if_number(y, zero, x)
    return operand if operand is not None and operand.type == n.type else None


def _double_negation(nodes: Nodes, n: Node) -> Node | None:
    inner = n.inputs[0]
    return inner.inputs[0] if inner.op == n.op else None


def _same_type(nodes: Nodes, n: Node) -> Node | None:
    return n.inputs[0] if n.inputs[0].type == n.type else None


def _reshape_of_reshape(nodes: Nodes, n: Node) -> Node | None:
    inner = n.inputs[0]
    if inner.op != "reshape":
        return None
    return nodes.make(n.op, inner.inputs, n.params, n.type, n.site)


def _slice_of_slice(nodes: Nodes, n: Node) -> Node | None:
    inner = n.inputs[0]
    if inner.op != "slice":
        return None
    outer_params, inner_params = n.params, inner.params
    start = tuple(a + s * b for a, s,
                  b in zip(inner_params["start"], inner_params["step"], outer_params["start"]))
    step = tuple(s * t for s, t in zip(inner_params["step"], outer_params["step"]))
    params = {"start": start, "step": step, "size": outer_params["size"]}
    return nodes.make("slice", inner.inputs, params, n.type, n.site)


def _permute_of_permute(nodes: Nodes, n: Node) -> Node | None:
    inner = n.inputs[0]
    if inner.op != "permute_dims":
        return None
    axes = tuple(inner.params["axes"][a] for a in n.params["axes"])
    if axes == tuple(range(len(axes))):
        return inner.inputs[0]
    return nodes.make(n.op, inner.inputs, {"axes": axes}, n.type, n.site)


def _filled(nodes: Nodes, n: Node) -> Node | None:
    """A broadcast of the fill value, which needs no memory as an operand."""
    dtype = n.type.dtype
    scalar = nodes.const(dtype.type(n.params["value"]).item(), dtype)
    if not n.type.shape:
        return scalar
    return nodes.make("broadcast_to", (scalar,), {"shape": n.type.shape}, n.type, n.site)


def _reshaped_number(nodes: Nodes, n: Node) -> Node | None:
    """A single broadcast for a reshape or broadcast of a broadcast number."""
    inner = n.inputs[0]
    if inner.op == "broadcast_to" and not inner.inputs[0].type.shape:
        inner = inner.inputs[0]
    if inner.op != "const" or inner.type.shape or (inner is n.inputs[0] and n.op == "broadcast_to"):
        return None
    if not n.type.shape:
        return inner
    return nodes.make("broadcast_to", (inner,), {"shape": n.type.shape}, n.type, n.site)


_SLICE_RULE = Rule("slice(slice(x)) -> slice(x)", ("slice",), _slice_of_slice)
RULES = [
    Rule("alias(x) -> x", ("alias",), _same_type),
    Rule("cast(x, dtype of x) -> x", ("cast",), _same_type),
    Rule("reshape(x, shape of x) -> x", ("reshape", "broadcast_to"), _same_type),
    Rule("x * 1 -> x", ("multiply", "divide"), _times_one),
    Rule("x + -0.0 -> x", ("add", "subtract"), _minus_zero),
    Rule("-(-x) -> x", ("negative", "logical_not", "bitwise_invert"), _double_negation),
    Rule("reshape(reshape(x)) -> reshape(x)", ("reshape",), _reshape_of_reshape),
    _SLICE_RULE,
    Rule("permute(permute(x)) -> permute(x)", ("permute_dims",), _permute_of_permute),
    Rule("full(shape, v) -> broadcast_to(v)", ("full",), _filled),
    Rule("reshape(broadcast_to(v)) -> broadcast_to(v)", ("reshape", "broadcast_to"),
         _reshaped_number),
]


def simplify(graph: Graph) -> Graph:
    """The graph after all rules of this module."""
    return rewrite(graph, RULES)


def merge_slices(graph: Graph) -> Graph:
    """The graph with each slice of a slice merged into one.

    Iterations of an unrolled loop then look alike, however each sliced its part of an array.
    """
    if not any(n.op == "slice" and n.inputs[0].op == "slice" for n in graph.nodes()):
        return graph
    return rewrite(graph, [_SLICE_RULE])
