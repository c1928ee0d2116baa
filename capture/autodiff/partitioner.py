"""What a forward program keeps for the way back, and what the way back computes again.

Keeping a value costs a store and a load. What is computed by moving elements or by simple formulas
is had again for less where its inputs are read anyway; sums, products of matrices and random
numbers are not. The set with the least traffic is a minimal cut of the graph between the values
that cannot be had again and those that the way back reads.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...eager.core.op import OPS
from ..graph.graph import SPECIAL, Node, Nodes, topological, users
from ..graph.graph_builder import build
from ..sizes.symbolic_dim import concrete

_ENDLESS = 1 << 62
_AGAIN = ("pointwise", "view", "create")  # kinds of ops that are computed again


def opened(nodes: Nodes, roots: Sequence[Node], known: dict[Node, Node]) -> list[Node]:
    """The nodes for `roots` without composites, but for those that stay whole; `known` keeps what
    was opened before."""
    for node in topological(roots):
        if node in known:
            continue
        inputs = tuple(known[i] for i in node.inputs)
        if node.op in SPECIAL:
            known[node] = node
        elif node.kind == "composite" and not OPS[node.op].whole:
            made = build(nodes, OPS[node.op].meaning, inputs, dict(node.params), node.site)
            known[node] = made if made in known else opened(nodes, [made], known)[0]
        else:
            known[node] = nodes.make(node.op, inputs, node.params, node.type, node.site)
            known.setdefault(known[node], known[node])
    return [known[r] for r in roots]


def saved_values(demanded: Iterable[Node], results: Collection[Node],
                 forgotten: Mapping[Node, object]
         ) -> list[Node]:
    """Which values to keep so that all of `demanded` can be computed from them and the inputs.

    results: values that are stored anyway. forgotten: values inside of checkpoints, each with its
    checkpoint, which are computed again whatever that takes.
    """
    order = topological(demanded)
    inner = _inner(order, results, forgotten)
    network = _Network()
    for node in order:
        if node.op in SPECIAL:
            continue
        network.link((node, 0), (node, 1), _cost(node, results, inner))
        if node not in inner and (node in forgotten or not _is_cheap(node)):
            network.link(None, (node, 0), _ENDLESS)
        for i in node.inputs:
            if i.op not in SPECIAL:
                network.link((i, 1), (node, 0), _ENDLESS)
    for node in demanded:
        if node.op not in SPECIAL:
            network.link((node, 1), _END, _ENDLESS)
    behind = network.behind_cut()
    return [n for n in order if (n, 1) in behind and (n, 0) not in behind]


def _is_cheap(node: Node) -> bool:
    op = OPS[node.op]
    return op.kind in _AGAIN and op.passes == 1 and not op.draws


def _cost(node: Node, results: Collection[Node], inner: Collection[Node]) -> int:
    if node in inner:
        return _ENDLESS
    size = 1
    for n in node.type.shape:
        size *= concrete(n)
    bytes = max(size, 1) * int(node.type.dtype.itemsize)
    return bytes if node in results else 2 * bytes


def _inner(order: Sequence[Node], results: Collection[Node], forgotten: Mapping[Node, object]
           ) -> set[Node]:
    """What is known inside of one checkpoint only: forgotten values that no other reads, what they
    alone are computed from, and what the way back makes of them."""
    forward = topological(results) if forgotten else []
    inside, found = dict(forgotten), set()
    readers = users(forward)
    for node in reversed(forward):
        by = {inside.get(n) for n in readers[node]}
        if node not in results and len(by) == 1 and None not in by:
            inside.setdefault(node, *by)
            if by == {inside[node]}:
                found.add(node)
    there = set(forward)
    for node in order:
        if node not in there and any(i in found for i in node.inputs):
            found.add(node)
    return found


_END = "end"


class _Network:
    """A flow network: from None, where flow begins, to _END."""

    def __init__(self) -> None:
        self._room: dict[object, dict[object, int]] = {None: {}, _END: {}}

    def link(self, source: object, target: object, room: int) -> None:
        """Lets `room` flow from `source` to `target`."""
        there = self._room.setdefault(source, {})
        there[target] = there.get(target, 0) + room
        self._room.setdefault(target, {}).setdefault(source, 0)

    def behind_cut(self) -> set[object]:
        """What lies behind the minimal cut that is nearest to the end."""
        while levels := self._levels():
            self._fill(levels)
        behind: set[object] = {_END}
        waiting: deque[object] = deque(behind)
        while waiting:
            at = waiting.popleft()
            for before in self._room[at]:
                if before not in behind and self._room[before].get(at, 0) > 0:
                    behind.add(before)
                    waiting.append(before)
        return behind

    def _levels(self) -> dict[object, int]:
        """How far each place is from the start; nothing where no flow reaches the end."""
        levels: dict[object, int] = {None: 0}
        waiting: deque[object] = deque([None])
        while waiting:
            at = waiting.popleft()
            for to, room in self._room[at].items():
                if room > 0 and to not in levels:
                    levels[to] = levels[at] + 1
                    waiting.append(to)
        return levels if _END in levels else {}

    def _fill(self, levels: dict[object, int]) -> None:
        """Sends flow along ways that lead away from the start until none has room."""
        ahead = {at: list(self._room[at]) for at in levels}
        way: list[object] = [None]
        while way:
            at = way[-1]
            if at == _END:
                self._send(way)
                way = [None]
                continue
            while ahead[at]:
                to = ahead[at][-1]
                if self._room[at][to] > 0 and levels.get(to) == levels[at] + 1:
                    way.append(to)
                    break
                ahead[at].pop()
            else:
                way.pop()
                if way:
                    ahead[way[-1]].pop()

    def _send(self, way: Sequence[object]) -> None:
        pairs = list(itertools.pairwise(way))
        flow = min(self._room[a][b] for a, b in pairs)
        for a, b in pairs:
            self._room[a][b] -= flow
            self._room[b][a] += flow
