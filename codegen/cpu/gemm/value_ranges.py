"""Bounds the integers of a node by its dtype and formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from ....capture.graph.graph import Node
from ...ir.loop_ir import DType

_MAX_DEPTH = 8  # nested formulas

Range = tuple[int, int]


def fits(node: Node, dtype: DType) -> bool:
    """True if all values of a node are in the range of this integer dtype."""
    bounds, info = range_of(node), np.iinfo(dtype)
    return bounds is not None and info.min <= bounds[0] and bounds[1] <= info.max


def range_of(node: Node, depth: int = _MAX_DEPTH) -> Range | None:
    """The smallest and the largest value of a node, or None for other than integers."""
    dtype_range = _of_dtype(node)
    if dtype_range is None:
        return None
    if node.op == "const" and not node.type.shape:
        return int(node.params["value"]), int(node.params["value"])
    rule = _RULES.get(node.op, _view_range if node.kind == "view" else None)
    if rule is None or depth == 0:
        return dtype_range
    input_ranges = [range_of(n, depth - 1) for n in node.inputs]
    if None in input_ranges:
        return dtype_range
    computed = rule(node, [r for r in input_ranges if r is not None])
    # else it may wrap
    return (
        computed if dtype_range[0] <= computed[0] and computed[1] <= dtype_range[1] else dtype_range
    )


def _of_dtype(node: Node) -> Range | None:
    dtype = node.type.dtype
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _view_range(node: Node, input_ranges: Sequence[Range]) -> Range:
    """The range of a view: that of its inputs and the fill. Ranges of index inputs do no harm."""
    fill = int(node.params.get("fill", input_ranges[0][0] if input_ranges else 0))
    return min([fill, *(r[0] for r in input_ranges)]), max([fill, *(r[1] for r in input_ranges)])


def _monotonic_range(
    function: Callable[[int, int], int],
) -> Callable[[Node, Sequence[Range]], Range]:
    """The range rule of a function of two numbers with its extremes at the ends of their ranges."""
    def rule(node: Node, input_ranges: Sequence[Range]) -> Range:
        extremes = [function(x, y) for x, y in product(*input_ranges)]
        return min(extremes), max(extremes)

    return rule


_RULES: dict[str, Callable[[Node, Sequence[Range]], Range]] = {
    "cast": lambda node, inside: inside[0],
    "negative": lambda node, inside: (-inside[0][1], -inside[0][0]),
    "add": _monotonic_range(lambda x, y: x + y), "subtract": _monotonic_range(lambda x, y: x - y),
    "multiply": _monotonic_range(lambda x, y: x * y),
    "minimum": _monotonic_range(min), "maximum": _monotonic_range(max),
    "where": lambda node, inside: (min(r[0] for r in inside[1:]), max(r[1] for r in inside[1:])),
}
