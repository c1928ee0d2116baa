"""Arrays filled part by part: what reads a part reads what was put there, and the whole is put
together at once.

A loop of `out[t] = h` makes as many arrays as it has turns, each a copy of the one before.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from ..graph import Graph, Node, Nodes, rebuild, users

_FEWEST = 5  # parts, below which copies are as good


class _Box(NamedTuple):
    """A part of an array without steps: where it begins on each axis, and where it ends."""

    start: tuple[int, ...]
    end: tuple[int, ...]

    def misses(self, other: _Box) -> bool:
        """Whether they have no element in common."""
        return any(e <= r or f <= s for s, e, r, f in zip(*other, *self))

    def holds(self, other: _Box) -> bool:
        """Whether it has all elements of the other."""
        return all(r <= s and e <= f for s, e, r, f in zip(*other, *self))


def join_puts(graph: Graph) -> Graph:
    """The graph without most of the copies that arrays were which are filled part by part."""
    if not any(n.op == "put_slice" for n in graph.nodes()):
        return graph
    return _joined(rebuild(graph, _read_through))


def _read_through(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
    """A slice of what was put there, or of what had been there before other parts were put."""
    box = _box(node, node.params.get("size"))
    source = inputs[0] if inputs else node
    while node.op == "slice" and box is not None and source.op == "put_slice":
        put = _box(source, source.inputs[1].type.shape)
        if put is None:
            break
        if put.holds(box) and source.inputs[1].type.dtype == node.type.dtype:
            start = tuple(a - b for a, b in zip(box.start, put.start))
            return nodes.make("slice", (source.inputs[1],), {**node.params, "start": start},
                              node.type, node.site)
        if not put.misses(box):
            break
        source = source.inputs[0]
    return nodes.again(node, (source, *inputs[1:]) if inputs else ())


def _box(node: Node, size: tuple[int, ...] | None) -> _Box | None:
    """The part that a node takes or puts; None where it has steps, or is nothing of the kind."""
    if size is None or any(s != 1 for s in node.params["step"]):
        return None
    start = node.params["start"]
    return _Box(start, tuple(a + n for a, n in zip(start, size)))


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
    puts, base = [], last
    for _ in range(length):
        puts.append(base)
        base = base.inputs[0]
    shape = last.type.shape
    boxes = [_box(p, p.inputs[1].type.shape) for p in puts]
    axes = {a for box in boxes if box is not None for a, n in enumerate(shape)
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
