"""Takes range checks out of a graph, so that they can be made where an error can be raised.

What is known to hold is not checked, and of what follows from something else that is looked at:
inputs can be checked before anything has run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ...eager.core.op import OPS, Op
from ...eager.ops import range_checks
from ..graph.graph import Graph, Node, Nodes, rebuild
from ..sizes.symbolic_dim import formula


class Check(NamedTuple):
    """Output number `output` of the graph must lie in low ... size - 1."""

    output: int
    size: Any
    what: str
    low: int = 0

    def require(self, x: Any) -> None:
        """Raises IndexError unless the elements of the array `x` do."""
        range_checks.require(x, self.size, self.what, self.low)


def extract_checks(graph: Graph) -> tuple[Graph, list[Check]]:
    """The graph without checks, the values to be checked added to its outputs."""
    found: dict[tuple[Node, Any, str, int], None] = {}

    def note(node: Node, size: Any, what: str) -> None:
        node, low = source_of(node, size)
        if not is_below(node, size):
            found[node, size, what, low] = None

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "check_index":
            note(inputs[0], node.params["size"], node.params["what"])
            return inputs[0]
        bounds = OPS[node.op].bounds if node.op in OPS else None
        if bounds is not None:
            for i, size in bounds(*[n.type for n in inputs], **node.params):
                note(inputs[i], size, f"{node.op}: index")
        return nodes.again(node, inputs)

    made = rebuild(graph, visit)
    outputs = list(made.outputs)
    checks = []
    for node, *rule in found:
        if node not in outputs:
            outputs.append(node)
        checks.append(Check(outputs.index(node), *rule))
    return replace(made, outputs=tuple(outputs)), checks


def may_raise(op: Op) -> bool:
    """Whether an op, or one that it is made of, may raise an error for some values."""
    return bool(op.raises or op.bounds or op.name == "check_index" or op.kind == "composite")


_COUNTS = {"iota", "argsort", "argmax", "places", "repeats"}  # places among elements
_SHOWS = {"reshape", "permute_dims", "alias"}  # all elements of one value, and no others


def is_below(node: Node, size: Any) -> bool:
    """Whether a value is known to lie in 0 ... size - 1: it counts elements of an axis."""
    while node.op in _SHOWS or node.op in ("slice", "take"):
        node = node.inputs[0]
    if node.op not in _COUNTS or node.type.dtype.kind not in "iu":
        return False
    counted = (node.inputs[0] if node.inputs else node).type
    count = counted.shape[node.params["axis"]] if "axis" in node.params else counted.size
    low = (formula(size) - formula(count)).low()
    return low is not None and low >= 0


def source_of(node: Node, size: Any) -> tuple[Node, int]:
    """What lies in low ... size - 1 exactly where the value lies in 0 ... size - 1, and low."""
    node = _shown(node)
    if node.op != "where":
        return node, 0
    condition, moved, plain = node.inputs
    below = condition.op == "less" and _is_number(condition.inputs[1], 0)
    above = moved.op == "add" and type(size) is int and _is_number(moved.inputs[1], size)
    if below and above and condition.inputs[0] is moved.inputs[0] is plain:
        return _shown(plain), -size
    return node, 0


def _shown(node: Node) -> Node:
    while node.op in _SHOWS:
        node = node.inputs[0]
    return node


def _is_number(node: Node, value: int) -> bool:
    found = node.params["value"] if node.op == "const" and not node.type.shape else None
    return type(found) is int and found == value  # not a size that is known later
