"""Sums of arrays that are zero but for a part each, written as one array put together of parts.

The way back of `x[0], x[1], ...` adds up as many arrays as there are parts, each as large as `x`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ..graph import Graph, Node, Nodes, users

_FEWEST = 9  # parts, below which the sum is as good
_DEEPEST = 20  # parts of parts of parts


class _Part(NamedTuple):
    start: int
    node: Node


def _start(part: _Part) -> int:
    return part.start


def join_pieces(graph: Graph) -> Graph:
    """The graph with each sum of many disjoint parts made a concat."""
    order = list(dict.fromkeys((*graph.inputs, *graph.nodes())))
    readers, outputs = users(order), set(graph.outputs)
    alone = {n for n in order if n.op == "add" and len(readers[n]) == 1 and n not in outputs}
    nodes, new = Nodes(), dict[Node, Node]()
    for node in order:
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = nodes.again(node, inputs)
        if node.op == "add" and not (node in alone and readers[node][0].op == "add"):
            new[node] = _joined(nodes, node, alone, new) or new[node]
    return Graph(tuple(new[i] for i in graph.inputs), tuple(new[o] for o in graph.outputs),
                 graph.donated)


def _joined(nodes: Nodes, root: Node, alone: set[Node], new: Mapping[Node, Node]) -> Node | None:
    """The sum as a concat, and at most one summand that is not a part added to it."""
    summands = _summands(root, alone)
    others = [n for n in summands if n.op != "unslice"]
    slices = [n for n in summands if n.op == "unslice"]
    axis = _axis_of(slices)
    if axis is None or len(others) > 1 or root.type.dtype.kind not in "fiu":
        return None
    parts = sorted((p for n in slices for p in _parts(n, axis, alone)), key=_start)
    ends = [p.start + p.node.type.shape[axis] for p in parts]
    if len(parts) < _FEWEST or any(end > p.start for end, p in zip(ends, parts[1:])):
        return None
    found = _concat(nodes, root, axis, [_Part(p.start, new[p.node]) for p in parts])
    return nodes.apply("add", (new[others[0]], found), {}, root.site) if others else found


def _summands(root: Node, alone: set[Node]) -> list[Node]:
    """What a tree of additions adds up."""
    found, stack = [], list(root.inputs)
    while stack:
        node = stack.pop()
        if node in alone:
            stack.extend(node.inputs)
        else:
            found.append(node)
    return found


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


def _parts(node: Node, axis: int, alone: set[Node], depth: int = 0) -> list[_Part]:
    """The parts that an array with one part is made of: that part may be a sum of parts."""
    start, inner = node.params["start"][axis], node.inputs[0]
    if inner in alone and depth < _DEEPEST:
        below = _summands(inner, alone)
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
