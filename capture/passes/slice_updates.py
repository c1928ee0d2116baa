"""Merges chains of slice updates: reads are forwarded to the written values, and the final array
becomes one concat.

A loop of `out[t] = h` creates an array per iteration, each a copy of the one before.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.graph import Graph, Node, Nodes, rebuild, users

MIN_UPDATES = 5  # of an array; fewer are as fast as copies


class _Box(NamedTuple):
    """The elements that a slice without steps selects: their start and end on each axis."""

    start: tuple[int, ...]
    end: tuple[int, ...]

    def contains(self, other: _Box) -> bool:
        """True if this has all elements of the other."""
        return all(r <= s and e <= f for s, e, r, f in zip(*other, *self))


def merge_slice_updates(graph: Graph) -> Graph:
    """The graph without most copies of arrays that are filled slice by slice."""
    if not any(n.op == "put_slice" for n in graph.nodes()):
        return graph
    return _merged(_read_through(graph))


def _box_of(node: Node) -> _Box | None:
    """The part that a slice reads or an update writes; None if it has steps."""
    if any(s != 1 for s in node.params["step"]):
        return None
    start = node.params["start"]
    size = node.inputs[1].type.shape if node.op == "put_slice" else node.type.shape
    return _Box(start, tuple(a + n for a, n in zip(start, size)))


# ---- reads of slices
class _UpdateChain:
    """A chain of slice updates, each applied to the result of the one before."""

    def __init__(self) -> None:
        self.updates: list[Node] = []
        self._boxes: Any = None

    def last(self, box: _Box, count: int) -> int:
        """The last of the first `count` updates that overlaps `box`; -1 if there is none."""
        if self._boxes is None:
            boxes = [_box_of(p) or _Box((0,) * p.type.ndim, p.type.shape) for p in self.updates]
            self._boxes = np.array(boxes).swapaxes(0, 1)
        start, end = self._boxes[:, :count]
        overlaps = ((start < box.end) & (end > box.start)).all(-1)
        return int(overlaps.nonzero()[0].max(initial=-1))


def _chains(nodes: Sequence[Node]) -> dict[Node, tuple[_UpdateChain, int]]:
    """The chain of each update, and its position there, counted from 1."""
    chains: dict[Node, tuple[_UpdateChain, int]] = {}
    for node in nodes:
        if node.op == "put_slice":
            chain, position = chains.get(node.inputs[0], (_UpdateChain(), 0))
            if position < len(chain.updates):  # another update of the same array begins a chain
                chain, position = _UpdateChain(), 0
            chain.updates.append(node)
            chains[node] = chain, position + 1
    return chains


def _read_through(graph: Graph) -> Graph:
    """The graph in which a slice reads the written value, or skips updates of other parts."""
    chains, new = _chains(graph.nodes()), dict[Node, Node]()

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "slice" and node.inputs[0] in chains:
            return _slice(nodes, node, new, chains)
        return nodes.with_inputs(node, inputs)

    return rebuild(graph, visit, new=new)


def _slice(nodes: Nodes, node: Node, new: Mapping[Node, Node],
           chains: Mapping[Node, tuple[_UpdateChain, int]]) -> Node:
    box, (source,) = _box_of(node), node.inputs
    while box is not None and source in chains:
        chain, count = chains[source]
        position = chain.last(box, count)
        if position < 0:
            source = chain.updates[0].inputs[0]
            continue
        source = chain.updates[position]
        written, value = _box_of(source), source.inputs[1]
        if written is None or not written.contains(box) or value.type.dtype != node.type.dtype:
            break
        start = tuple(a - b for a, b in zip(box.start, written.start))
        return nodes.make("slice", (new[value],), {**node.params, "start": start}, node.type,
                          node.site)
    return nodes.with_inputs(node, (new[source],))


# ---- the final array
def _merged(graph: Graph) -> Graph:
    """The graph with arrays of many disjoint updates written as a concat."""
    updates = [n for n in graph.nodes() if n.op == "put_slice"]
    readers, outputs = users(graph.nodes()), set(graph.outputs)
    inner = {p.inputs[0] for p in updates if p.inputs[0].op == "put_slice"
             and len(readers[p.inputs[0]]) == 1 and p.inputs[0] not in outputs}
    lengths: dict[Node, int] = {}
    for update in updates:
        lengths[update] = 1 + (lengths[update.inputs[0]] if update.inputs[0] in inner else 0)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        rebuilt = nodes.with_inputs(node, inputs)
        whole = node not in inner and lengths.get(node, 0) >= MIN_UPDATES
        return (_as_concat(nodes, rebuilt, lengths[node]) or rebuilt) if whole else rebuilt

    return rebuild(graph, visit)


def _as_concat(nodes: Nodes, last: Node, length: int) -> Node | None:
    """The result of `length` updates as one concat; None if the updates overlap."""
    updates, base = list[Node](), last
    for _ in range(length):
        updates.append(base)
        base = base.inputs[0]
    boxes = [_box_of(p) for p in updates]
    axes = {a for box in boxes if box is not None for a, n in enumerate(last.type.shape)
            if box.end[a] - box.start[a] != n}
    if None in boxes or len(axes) != 1 or any(
            p.inputs[1].type.dtype != last.type.dtype for p in updates):
        return None
    axis, = axes
    parts = sorted(((box.start[axis], box.end[axis], p.inputs[1])
                    for box, p in zip(boxes, updates) if box is not None),
                   key=lambda part: part[:2])
    if any(end > start for (_, end, _), (start, _, _) in itertools.pairwise(parts)):
        return None
    return nodes.apply("concat", _concat_operands(nodes, base, axis, parts), {"axis": axis},
                       last.site)


def _concat_operands(nodes: Nodes, base: Node, axis: int,
                     parts: list[tuple[int, int, Node]]) -> list[Node]:
    """The written values in order, and between them slices of the original array."""
    operands, covered, shape = list[Node](), 0, base.type.shape
    for start, end, node in [*parts, (shape[axis], shape[axis], base)]:
        if start > covered:
            begin = tuple(covered if a == axis else 0 for a in range(len(shape)))
            size = tuple(start - covered if a == axis else n for a, n in enumerate(shape))
            operands.append(nodes.apply("slice", (base,), {
                "start": begin, "step": (1,) * len(shape), "size": size}, node.site))
        operands += [node] if node is not base else []
        covered = end
    return operands
