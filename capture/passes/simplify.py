"""Algebra that holds exactly for every value, nan, infinities and signed zeros included."""

from __future__ import annotations

import math
from typing import Any

from ..graph.graph import Graph, Node, Nodes
from ..graph.rewrite import Rule, rewrite


def _number(node: Node) -> Any:
    """The value of a scalar constant, or of a tensor filled with one; None for anything else."""
    if node.op == "const" and not node.type.shape:
        return node.params["value"]
    if node.op == "full":
        return node.params["value"]
    if node.op in ("broadcast_to", "reshape"):
        return _number(node.inputs[0])
    return None


def _if_number(node: Node, value: float, other: Node) -> Node | None:
    """`other` where `node` is the number `value` and changes neither shape nor dtype."""
    found = _number(node)
    same = found is not None and not isinstance(found, bool) and found == value
    if same and isinstance(found, complex):  # times 1 + 0j: nan where a part is infinite
        same = value == 0 and _sign(found.real) == _sign(found.imag) == _sign(value)
    elif same and value == 0:
        same = _sign(found) == _sign(value)
    return other if same else None


def _sign(value: float) -> float:
    return math.copysign(1.0, value)


def _times_one(nodes: Nodes, n: Node) -> Node | None:
    x, y = n.inputs
    found = _if_number(y, 1, x) or (_if_number(x, 1, y) if n.op == "multiply" else None)
    return found if found is not None and found.type == n.type else None


def _minus_zero(nodes: Nodes, n: Node) -> Node | None:
    x, y = n.inputs
    zero = -0.0 if n.op == "add" else 0.0
    found = _if_number(y, zero, x)
    return found if found is not None and found.type == n.type else None


def _double(nodes: Nodes, n: Node) -> Node | None:
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
    outer, own = n.params, inner.params
    start = tuple(a + s * b for a, s, b in zip(own["start"], own["step"], outer["start"]))
    step = tuple(s * t for s, t in zip(own["step"], outer["step"]))
    params = {"start": start, "step": step, "size": outer["size"]}
    return nodes.make("slice", inner.inputs, params, n.type, n.site)


def _order_of_order(nodes: Nodes, n: Node) -> Node | None:
    inner = n.inputs[0]
    if inner.op != "permute_dims":
        return None
    axes = tuple(inner.params["axes"][a] for a in n.params["axes"])
    if axes == tuple(range(len(axes))):
        return inner.inputs[0]
    return nodes.make(n.op, inner.inputs, {"axes": axes}, n.type, n.site)


def _filled(nodes: Nodes, n: Node) -> Node | None:
    """A tensor full of one number is that number repeated; as an operand it needs no memory."""
    dtype = n.type.dtype
    scalar = nodes.const(dtype.type(n.params["value"]).item(), dtype)
    if not n.type.shape:
        return scalar
    return nodes.make("broadcast_to", (scalar,), {"shape": n.type.shape}, n.type, n.site)


def _reshaped_number(nodes: Nodes, n: Node) -> Node | None:
    """A reshape or broadcast of one repeated number is that number repeated."""
    inner = n.inputs[0]
    if inner.op == "broadcast_to" and not inner.inputs[0].type.shape:
        inner = inner.inputs[0]
    if inner.op != "const" or inner.type.shape or (inner is n.inputs[0] and n.op == "broadcast_to"):
        return None
    if not n.type.shape:
        return inner
    return nodes.make("broadcast_to", (inner,), {"shape": n.type.shape}, n.type, n.site)


_SLICES = Rule("slice(slice(x)) -> slice(x)", ("slice",), _slice_of_slice)
RULES = [
    Rule("alias(x) -> x", ("alias",), _same_type),
    Rule("cast(x, dtype of x) -> x", ("cast",), _same_type),
    Rule("reshape(x, shape of x) -> x", ("reshape", "broadcast_to"), _same_type),
    Rule("x * 1 -> x", ("multiply", "divide"), _times_one),
    Rule("x + -0.0 -> x", ("add", "subtract"), _minus_zero),
    Rule("-(-x) -> x", ("negative", "logical_not", "bitwise_invert"), _double),
    Rule("reshape(reshape(x)) -> reshape(x)", ("reshape",), _reshape_of_reshape),
    _SLICES,
    Rule("permute(permute(x)) -> permute(x)", ("permute_dims",), _order_of_order),
    Rule("full(shape, v) -> broadcast_to(v)", ("full",), _filled),
    Rule("reshape(broadcast_to(v)) -> broadcast_to(v)", ("reshape", "broadcast_to"),
         _reshaped_number),
]


def simplify(graph: Graph) -> Graph:
    """The graph after all rules of this file."""
    return rewrite(graph, RULES)


def merge_slices(graph: Graph) -> Graph:
    """The graph in which every slice is of something else: equal turns of a loop look equal then,
    however their parts of an array were cut."""
    if not any(n.op == "slice" and n.inputs[0].op == "slice" for n in graph.nodes()):
        return graph
    return rewrite(graph, [_SLICES])
