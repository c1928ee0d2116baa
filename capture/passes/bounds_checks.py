"""Moves bounds checks out of a graph, to where the caller can raise an error.

Checks that always hold are dropped. A check of a view or of a wrapped negative index becomes a
check of its source: if that is an input, it is checked before any kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...eager.core.op import OPS, Op
from ...eager.ops import range_checks
from ..graph.graph import Graph, Node, Nodes, rebuild
from ..sizes.size_expr import SizeExpr
from ..sizes.symbolic_dim import Dim, size_expr_of


class BoundsCheck(NamedTuple):
    """Requires that the elements of output number `output` lie in low ... size - 1."""

    output: int
    size: Any
    what: str
    low: Any = 0

    def require(self, x: Any) -> None:
        """Raises IndexError unless all elements of the array `x` are in range."""
        range_checks.require(x, self.size, self.what, self.low)

    def over_named_sizes(self) -> BoundsCheck:
        """The check with a symbolic size as an expression over the named sizes."""
        size, low = (n.expr if type(n) is Dim else n for n in (self.size, self.low))
        return self._replace(size=size, low=low)

    def at(self, sizes: Mapping[str, int]) -> BoundsCheck:
        """The check with numbers for expressions over the named sizes."""
        size, low = (n.value(sizes) if isinstance(n, SizeExpr) else n
                     for n in (self.size, self.low))
        return self._replace(size=size, low=low)


def extract_checks(graph: Graph) -> tuple[Graph, list[BoundsCheck]]:
    """The graph without checks, with the values to check as further outputs, and the checks."""
    requirements: dict[Any, tuple[Node, Any, str, Any]] = {}

    def note(node: Node, size: Any, what: str, low: Any = 0) -> None:
        node, low = indexed_value(node, size, low)
        if not is_below(node, size) and not _is_constant_within(node, size, low):
            # the first check of a value names what the user called
            requirements.setdefault((node, size_expr_of(size), size_expr_of(low)),
                                    (node, size, what, low))

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "check_index":
            note(inputs[0], **node.params)
            return inputs[0]
        bounds = OPS[node.op].bounds if node.op in OPS else None
        if bounds is not None:
            for i, size in bounds(*[n.type for n in inputs], **node.params):
                note(inputs[i], size, f"{node.op}: index")
        return nodes.with_inputs(node, inputs)

    unchecked = rebuild(graph, visit)
    outputs = list(unchecked.outputs)
    checks = []
    for node, *rule in requirements.values():
        if node not in outputs:
            outputs.append(node)
        checks.append(BoundsCheck(outputs.index(node), *rule))
    return replace(unchecked, outputs=tuple(outputs)), checks


def may_raise(op: Op) -> bool:
    """True if an op, or an op of its decomposition, may raise an error for some values."""
    return bool(op.raises or op.bounds or op.name == "check_index" or op.kind == "composite")


_INDEX_OPS = {"iota", "argsort", "argmax", "true_indices",
              "repeats"}  # results are positions of elements
_VIEW_OPS = {"reshape", "permute_dims", "alias",
             "check_index"}  # results have the same elements as the operand


def is_below(node: Node, size: Any) -> bool:
    """True if a value always lies in 0 ... size - 1, as positions along an axis do."""
    while node.op in _VIEW_OPS or node.op in ("slice", "take"):
        node = node.inputs[0]
    if node.op not in _INDEX_OPS or node.type.dtype.kind not in "iu":
        return False
    counted = (node.inputs[0] if node.inputs else node).type
    count = counted.shape[node.params["axis"]] if "axis" in node.params else counted.size
    low = (size_expr_of(size) - size_expr_of(count)).low()
    return low is not None and low >= 0


def indexed_value(node: Node, size: Any, low: Any = 0) -> tuple[Node, Any]:
    """(source, low of it): the value is in low ... size - 1 exactly if the source is in the range
    from its own low."""
    node = _viewed(node)
    if not is_zero(low):
        return node, low
    if node.op != "where":
        return node, 0
    condition, moved, plain = node.inputs
    below = condition.op == "less" and _is_number(condition.inputs[1], 0)
    above = moved.op == "add" and _is_number(moved.inputs[1], size)
    if below and above and condition.inputs[0] is moved.inputs[0] is plain:
        return _viewed(plain), -size
    return node, 0


def _is_constant_within(node: Node, size: Any, low: Any) -> bool:
    """True for a constant whose elements are all in low ... size - 1."""
    if node.op != "const" or type(size) is not int or type(low) is not int:
        return False
    value = node.params["value"]
    elements = value if type(value) is tuple else (value,)
    return all(type(x) is int and low <= x < size for x in elements)


def is_zero(low: Any) -> bool:
    """True for the number 0; a symbolic size is not compared, as that would be a condition."""
    return type(low) is int and low == 0


def _viewed(node: Node) -> Node:
    while node.op in _VIEW_OPS:
        node = node.inputs[0]
    return node


def _is_number(node: Node, value: Any) -> bool:
    constant = node.params["value"] if node.op == "const" and not node.type.shape else None
    same = type(constant) is type(value) and type(value) in (int, Dim)
    return same and bool(constant == value)  # a symbolic size is not equal to a number
