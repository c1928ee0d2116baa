"""Arrays filled part by part: what reads a part reads what was put there, and the whole is put
together at once.

A loop of `out[t] = h` makes as many arrays as it has turns, each a copy of the one before.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.graph import Graph, Node, Nodes, rebuild, users

_FEWEST = 5  # parts, below which copies are as good


class _Box(NamedTuple):
    """A part of an array without steps: where it begins on each axis, and where it ends."""

    start: tuple[int, ...]
    end: tuple[int, ...]

    def holds(self, other: _Box) -> bool:
        """Whether it has all elements of the other."""
        return all(r <= s and e <= f for s, e, r, f in zip(*other, *self))


def merge_slice_updates(graph: Graph) -> Graph:
    """The graph without most of the copies that arrays were which are filled part by part."""
    if not any(n.op == "put_slice" for n in graph.nodes()):
        return graph
    return _joined(_read_through(graph))


def _box_of(node: Node) -> _Box | None:
    """The part that a slice takes, or that is put; None where it has steps."""
    if any(s != 1 for s in node.params["step"]):
        return None
    start = node.params["start"]
    size = node.inputs[1].type.shape if node.op == "put_slice" else node.type.shape
    return _Box(start, tuple(a + n for a, n in zip(start, size)))


# ---- what is read of it
class _Chain:
    """Puts, each into what the one before it gave."""

    def __init__(self) -> None:
        self.puts: list[Node] = []
        self._boxes: Any = None

    def last(self, box: _Box, count: int) -> int:
        """The last of the first `count` puts that has an element of `box`; -1: none of them."""
        if self._boxes is None:
            boxes = [_box_of(p) or _Box((0,) * p.type.ndim, p.type.shape) for p in self.puts]
            self._boxes = np.array(boxes).swapaxes(0, 1)
        start, end = self._boxes[:, :count]
        met = ((start < box.end) & (end > box.start)).all(-1)
        return int(met.nonzero()[0].max(initial=-1))


def _chains(order: Sequence[Node]) -> dict[Node, tuple[_Chain, int]]:
    """The chain of each put, and its place there, counted from 1."""
    found: dict[Node, tuple[_Chain, int]] = {}
    for node in order:
        if node.op == "put_slice":
            chain, place = found.get(node.inputs[0], (_Chain(), 0))
            if place < len(chain.puts):  # something else was put there, too
                chain, place = _Chain(), 0
            chain.puts.append(node)
            found[node] = chain, place + 1
    return found


def _read_through(graph: Graph) -> Graph:
    """The graph whose slices read what was put there, or what was there before other parts."""
    chains, new = _chains(graph.nodes()), dict[Node, Node]()

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "slice" and node.inputs[0] in chains:
            return _slice(nodes, node, new, chains)
        return nodes.again(node, inputs)

    return rebuild(graph, visit, new=new)


def _slice(nodes: Nodes, node: Node, new: Mapping[Node, Node],
           chains: Mapping[Node, tuple[_Chain, int]]) -> Node:
    box, (source,) = _box_of(node), node.inputs
    while box is not None and source in chains:
        chain, count = chains[source]
        place = chain.last(box, count)
        if place < 0:
            source = chain.puts[0].inputs[0]
            continue
        source = chain.puts[place]
        put, value = _box_of(source), source.inputs[1]
        if put is None or not put.holds(box) or value.type.dtype != node.type.dtype:
            break
        start = tuple(a - b for a, b in zip(box.start, put.start))
        return nodes.make("slice", (new[value],), {**node.params, "start": start}, node.type,
                          node.site)
    return nodes.again(node, (new[source],))


# ---- the whole
def _joined(graph: Graph) -> Graph:
    """The graph with arrays of which many disjoint parts were put written as a concat."""
    puts = [n for n in graph.nodes() if n.op == "put_slice"]
    readers, outputs = users(graph.nodes()), set(graph.outputs)
    inner = {p.inputs[0] for p in puts if p.inputs[0].op == "put_slice"
             and len(readers[p.inputs[0]]) == 1 and p.inputs[0] not in outputs}
    lengths: dict[Node, int] = {}
    for put in puts:
        lengths[put] = 1 + (lengths[put.inputs[0]] if put.inputs[0] in inner else 0)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        made = nodes.again(node, inputs)
        whole = node not in inner and lengths.get(node, 0) >= _FEWEST
        return (_whole(nodes, made, lengths[node]) or made) if whole else made

    return rebuild(graph, visit)


def _whole(nodes: Nodes, last: Node, length: int) -> Node | None:
    """What was put in `length` steps as one concat; None where parts lie on each other."""
    puts, base = list[Node](), last
    for _ in range(length):
        puts.append(base)
        base = base.inputs[0]
    boxes = [_box_of(p) for p in puts]
    axes = {a for box in boxes if box is not None for a, n in enumerate(last.type.shape)
            if box.end[a] - box.start[a] != n}
    if None in boxes or len(axes) != 1 or any(p.inputs[1].type.dtype != last.type.dtype
                                              for p in puts):
        return None
    axis, = axes
    parts = sorted(((box.start[axis], box.end[axis], p.inputs[1])
                    for box, p in zip(boxes, puts) if box is not None), key=lambda part: part[:2])
    if any(end > start for (_, end, _), (start, _, _) in itertools.pairwise(parts)):
        return None
    return nodes.apply("concat", _pieces(nodes, base, axis, parts), {"axis": axis}, last.site)


def _pieces(nodes: Nodes, base: Node, axis: int, parts: list[tuple[int, int, Node]]) -> list[Node]:
    """The parts in their order, and between them what had been there."""
    found, at, shape = list[Node](), 0, base.type.shape
    for start, end, node in [*parts, (shape[axis], shape[axis], base)]:
        if start > at:
            begin = tuple(at if a == axis else 0 for a in range(len(shape)))
            size = tuple(start - at if a == axis else n for a, n in enumerate(shape))
            found.append(nodes.apply("slice", (base,), {
                "start": begin, "step": (1,) * len(shape), "size": size}, node.site))
        found += [node] if node is not base else []
        at = end
    return found
