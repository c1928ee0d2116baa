"""Rewrites sums of disjoint zero-padded slices as one concat.

The gradient of `x[0], x[1], ...` is a sum with one term per slice. Each term is as large as `x`
and zero outside of its slice.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import NamedTuple

from ..graph.graph import Graph, Node, Nodes
from .sum_trees import summands, sums_of, with_sums

MIN_PARTS = 9  # slices in a sum; fewer are as fast added
MAX_NESTED_PARTS = 20  # levels of sums of slices inside of slices


class _SlicePart(NamedTuple):
    start: int
    node: Node


class _SliceSum(NamedTuple):
    """The summands of a sum: slices along an axis, and at most one other summand."""

    axis: int
    parts: list[_SlicePart]
    others: list[Node]


def _start(part: _SlicePart) -> int:
    return part.start


def merge_slice_sums(graph: Graph) -> Graph:
    """The graph with each sum of many disjoint slices written as a concat."""
    return with_sums(graph, _sums(graph), _merged_sum)


def _merged_sum(nodes: Nodes, root: Node, parts_and_rest: _SliceSum,
                new: Mapping[Node, Node]) -> Node:
    """The concat of the slices, plus the other summand if there is one."""
    axis, parts, others = parts_and_rest
    whole = _concat(nodes, root, axis, [_SlicePart(p.start, new[p.node]) for p in parts])
    return nodes.apply("add", (new[others[0]], whole), {}, root.site) if others else whole


def _sums(graph: Graph) -> dict[Node, _SliceSum]:
    """The sums to rewrite, by their root."""
    if sum(n.op == "unslice" for n in graph.nodes()) < MIN_PARTS:
        return {}
    roots, inner = sums_of(graph)
    return {n: slice_sum for n in roots if (slice_sum := _sum_of(n, inner)) is not None}


def _sum_of(root: Node, inner: Container[Node]) -> _SliceSum | None:
    """The summands of a tree of additions; None if it cannot be written as a concat."""
    terms = summands(root, inner)
    others = [n for n in terms if n.op != "unslice"]
    slices = [n for n in terms if n.op == "unslice"]
    axis = _axis_of(slices)
    if axis is None or len(others) > 1 or root.type.dtype.kind not in "fiu":
        return None
    parts = sorted((p for n in slices for p in _parts(n, axis, inner)), key=_start)
    ends = [p.start + p.node.type.shape[axis] for p in parts]
    if len(parts) < MIN_PARTS or any(end > p.start for end, p in zip(ends, parts[1:])):
        return None
    return _SliceSum(axis, parts, others)


def _axis_of(parts: list[Node]) -> int | None:
    """The one axis along which all of these nodes are slices; None if there is no such axis."""
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


def _parts(node: Node, axis: int, inner_sums: Container[Node], depth: int = 0) -> list[_SlicePart]:
    """The slices of a zero-padded array. Its one slice may itself be a sum of slices."""
    start, inner = node.params["start"][axis], node.inputs[0]
    if inner in inner_sums and depth < MAX_NESTED_PARTS:
        below = summands(inner, inner_sums)
        if all(n.op == "unslice" for n in below) and _axis_of(below) == axis:
            return [_SlicePart(start + p.start, p.node)
                    for n in below for p in _parts(n, axis, inner_sums, depth + 1)]
    return [_SlicePart(start, inner)]


def _concat(nodes: Nodes, root: Node, axis: int, parts: list[_SlicePart]) -> Node:
    """The slices one after the other, each plus zero: as in the sum, -0.0 becomes 0.0."""
    dtype, operands, end = root.type.dtype, list[Node](), 0
    zero = nodes.const(dtype.type(0).item(), dtype)
    for start, node in [*parts, _SlicePart(root.type.shape[axis], root)]:
        if start > end:
            shape = tuple(start - end if a == axis else n for a, n in enumerate(root.type.shape))
            operands.append(nodes.apply("broadcast_to", (zero,), {"shape": shape}, root.site))
        if node is not root:
            operands.append(nodes.apply("add", (node, zero), {}, root.site))
            end = start + node.type.shape[axis]
    return nodes.apply("concat", operands, {"axis": axis}, root.site)
