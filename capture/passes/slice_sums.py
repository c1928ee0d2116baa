"""Sums of arrays that are zero but for a part each, written as one array put together of parts.

The way back of `x[0], x[1], ...` adds up as many arrays as there are parts, each as large as `x`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import NamedTuple

from ..graph.graph import Graph, Node, Nodes
from .sum_trees import summands, sums_of, with_sums

_FEWEST = 9  # parts, below which the sum is as good
_DEEPEST = 20  # parts of parts of parts


class _Part(NamedTuple):
    start: int
    node: Node


class _Sum(NamedTuple):
    """What a sum adds up: parts along an axis, and at most one summand that is none."""

    axis: int
    parts: list[_Part]
    others: list[Node]


def _start(part: _Part) -> int:
    return part.start


def merge_slice_sums(graph: Graph) -> Graph:
    """The graph with each sum of many disjoint parts made a concat."""
    return with_sums(graph, _sums(graph), _joined)


def _joined(nodes: Nodes, root: Node, found: _Sum, new: Mapping[Node, Node]) -> Node:
    """The parts put together, and added to what else there is."""
    axis, parts, others = found
    whole = _concat(nodes, root, axis, [_Part(p.start, new[p.node]) for p in parts])
    return nodes.apply("add", (new[others[0]], whole), {}, root.site) if others else whole


def _sums(graph: Graph) -> dict[Node, _Sum]:
    """The sums that are mostly of disjoint parts."""
    if sum(n.op == "unslice" for n in graph.nodes()) < _FEWEST:
        return {}
    roots, alone = sums_of(graph)
    return {n: found for n in roots if (found := _sum_of(n, alone)) is not None}


def _sum_of(root: Node, alone: Container[Node]) -> _Sum | None:
    """What a tree of additions adds up, if that is as good as put together."""
    terms = summands(root, alone)
    others = [n for n in terms if n.op != "unslice"]
    slices = [n for n in terms if n.op == "unslice"]
    axis = _axis_of(slices)
    if axis is None or len(others) > 1 or root.type.dtype.kind not in "fiu":
        return None
    parts = sorted((p for n in slices for p in _parts(n, axis, alone)), key=_start)
    ends = [p.start + p.node.type.shape[axis] for p in parts]
    if len(parts) < _FEWEST or any(end > p.start for end, p in zip(ends, parts[1:])):
        return None
    return _Sum(axis, parts, others)


def _axis_of(parts: list[Node]) -> int | None:
    """The one axis along which all of these are parts; None if there is none."""
    axes: set[int] = set()
    for node in parts:
        fill = float(node.params["fill"])
        if fill != 0 or math.copysign(1.0, fill) < 0:
            return None
        shape = node.inputs[0].type.shape
        axes |= {a for a, n in enumerate(shape) if n != node.type.shape[a]}
        if any(node.params["step"][a] != 1 for a in axes):
            return None
    return axes.pop() if len(axes) == 1 else None


def _parts(node: Node, axis: int, alone: Container[Node], depth: int = 0) -> list[_Part]:
    """The parts that an array with one part is made of: that part may be a sum of parts."""
    start, inner = node.params["start"][axis], node.inputs[0]
    if inner in alone and depth < _DEEPEST:
        below = summands(inner, alone)
        if all(n.op == "unslice" for n in below) and _axis_of(below) == axis:
            return [_Part(start + p.start, p.node)
                    for n in below for p in _parts(n, axis, alone, depth + 1)]
    return [_Part(start, inner)]


def _concat(nodes: Nodes, root: Node, axis: int, parts: list[_Part]) -> Node:
    """The parts one after the other. A part plus zero is what the sum has there: never -0.0."""
    dtype, pieces, at = root.type.dtype, list[Node](), 0
    zero = nodes.const(dtype.type(0).item(), dtype)
    for start, node in [*parts, _Part(root.type.shape[axis], root)]:
        if start > at:
            shape = tuple(start - at if a == axis else n for a, n in enumerate(root.type.shape))
            pieces.append(nodes.apply("broadcast_to", (zero,), {"shape": shape}, root.site))
        if node is not root:
            pieces.append(nodes.apply("add", (node, zero), {}, root.site))
            at = start + node.type.shape[axis]
    return nodes.apply("concat", pieces, {"axis": axis}, root.site)
