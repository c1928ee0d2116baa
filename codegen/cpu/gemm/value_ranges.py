"""Between which numbers the whole numbers of a node lie, as far as its dtype and formula tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from ....capture.graph.graph import Node
from ...ir.loop_ir import DType

_DEPTH = 8  # formulas that are looked through, one within the other

Range = tuple[int, int]


def fits(node: Node, dtype: DType) -> bool:
    """Whether all values of a node are numbers of this integer dtype."""
    found, info = range_of(node), np.iinfo(dtype)
    return found is not None and info.min <= found[0] and found[1] <= info.max


def range_of(node: Node, depth: int = _DEPTH) -> Range | None:
    """The least and the largest number that can stand in a node; None for other than integers."""
    whole = _of_dtype(node)
    if whole is None:
        return None
    if node.op == "const" and not node.type.shape:
        return int(node.params["value"]), int(node.params["value"])
    rule = _RULES.get(node.op, _shown if node.kind == "view" else None)
    if rule is None or depth == 0:
        return whole
    inside = [range_of(n, depth - 1) for n in node.inputs]
    if None in inside:
        return whole
    found = rule(node, [r for r in inside if r is not None])
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole  # or it wraps


def _of_dtype(node: Node) -> Range | None:
    dtype = node.type.dtype
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _shown(node: Node, inside: Sequence[Range]) -> Range:
    """A view shows what is in its inputs, and a fill; places are numbers too, which do no harm."""
    fill = int(node.params.get("fill", inside[0][0] if inside else 0))
    return min([fill, *(r[0] for r in inside)]), max([fill, *(r[1] for r in inside)])


def _ends(function: Callable[[int, int], int]) -> Callable[[Node, Sequence[Range]], Range]:
    """The rule of a function of two numbers that has its extremes at the ends of their ranges."""
    def rule(node: Node, inside: Sequence[Range]) -> Range:
        found = [function(x, y) for x, y in product(*inside)]
        return min(found), max(found)

    return rule


_RULES: dict[str, Callable[[Node, Sequence[Range]], Range]] = {
    "cast": lambda node, inside: inside[0],
    "negative": lambda node, inside: (-inside[0][1], -inside[0][0]),
    "add": _ends(lambda x, y: x + y), "subtract": _ends(lambda x, y: x - y),
    "multiply": _ends(lambda x, y: x * y),
    "minimum": _ends(min), "maximum": _ends(max),
    "where": lambda node, inside: (min(r[0] for r in inside[1:]), max(r[1] for r in inside[1:])),
}
