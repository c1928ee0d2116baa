"""Finds the limits of tables: sizes and index values for which an exported function is valid.

An embedding of 512 positions takes at most 512 steps, and a table of 100 rows indices up to 99.
The function raises an error beyond them, and so does the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....capture.cfg.error_checks import checks_of
from ....capture.graph.graph import Node
from ....capture.passes.bounds_checks import indexed_value, is_below
from ....capture.replay.path_enumeration import Explored
from ....capture.sizes.size_condition import SizeCondition
from ....capture.sizes.size_expr import SizeExpr, constant
from ....capture.sizes.symbolic_dim import Dim, size_expr_of

_MOVES = {"reshape", "permute_dims", "alias", "check_index", "broadcast_to", "slice", "cast"}


def size_limits(paths: Explored) -> Iterator[SizeCondition]:
    """The conditions on sizes under which the positions along an axis are indices of a table."""
    for index, size, _ in _indices(paths):
        largest = _largest(index)
        if largest is not None:
            yield SizeCondition("lt", largest - size_expr_of(size), True, index.site or "")


def value_limits(paths: Explored) -> list[str]:
    """The ranges of the indices that are inputs of the function, or computed from them."""
    texts: dict[str, None] = {}
    for index, size, low in _indices(paths):
        source = index
        while source.op in _MOVES and source.type.dtype.kind in "iu":
            source = source.inputs[0]
        if source.op == "input" and source in paths.inputs:
            texts[f"{_text(low)} <= {source.params['name']} < {_text(size)}"] = None
        elif _largest(index) is None and type(size) is int:
            texts[f"{_text(low)} <= index at {index.site} < {_text(size)}"] = None
    return list(texts)


def _indices(paths: Explored) -> Iterator[tuple[Node, Any, Any]]:
    """(index, size, low) of each index that can be out of range: low <= index < size. Captured
    indices were looked at in the trace."""
    nodes, captured = paths.names.nodes, paths.names.outside
    seen = set()
    for node in paths.raising:
        if not any(i.type.dtype.kind in "iu" for i in node.inputs):
            continue  # indices that an op computes by itself are in range
        for check in checks_of(nodes, node):
            if check.op != "check_index":
                continue
            size = check.params["size"]
            index, low = indexed_value(check.inputs[0], size, check.params.get("low", 0))
            key = index, size_expr_of(size)
            if key not in seen and index not in captured and not is_below(index, size):
                seen.add(key)
                yield index, size, low


def _largest(node: Node) -> SizeExpr | None:
    """The largest element of positions along an axis, perhaps moved by a constant."""
    while node.op in _MOVES - {"slice"} and node.type.dtype.kind in "iu":
        node = node.inputs[0]
    if node.op == "iota":
        return size_expr_of(node.type.shape[node.params["axis"]]) - constant(1)
    if node.op != "add" or node.type.dtype.kind not in "iu":
        return None
    for moved, offset in (node.inputs, node.inputs[::-1]):
        value = offset.params.get("value") if offset.op == "const" else None
        largest = _largest(moved) if type(value) in (int, Dim) else None
        if largest is not None:
            return largest + size_expr_of(value)
    return None


def _text(number: Any) -> str:
    return str(size_expr_of(number))
