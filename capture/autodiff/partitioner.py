"""Partitions values between forward and backward: saved by the forward, or recomputed.

A saved value costs a store and a load. Pointwise ops and views are cheaper to recompute if their
inputs are read anyway; sums, matrix products and random numbers are not. The saved set with the
least memory traffic is a minimum cut between the values that cannot be recomputed and the values
that the backward reads.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...eager.arrays.dtypes import kind
from ...eager.core.op import OPS
from ..graph.graph import SPECIAL, Node, Nodes, topological, users
from ..graph.graph_builder import build
from ..sizes.symbolic_dim import concrete

UNLIMITED = 1 << 62
RECOMPUTED_KINDS = ("pointwise", "view", "create")  # kinds of ops that the backward may recompute


def decomposed(nodes: Nodes, roots: Sequence[Node], decompositions: dict[Node, Node]) -> list[Node]:
    """The nodes of `roots` with composites decomposed, except ops marked `whole`.

    `decompositions` maps nodes to their decompositions; new ones are added.
    """
    for node in topological(roots):
        if node in decompositions:
            continue
        inputs = tuple(decompositions[i] for i in node.inputs)
        if node.op in SPECIAL:
            decompositions[node] = node
        elif node.kind == "composite" and not OPS[node.op].whole:
            root = build(nodes, OPS[node.op].meaning, inputs, dict(node.params), node.site)
            decompositions[node] = root if root in decompositions else decomposed(nodes, [root],
                                                                                  decompositions)[0]
        else:
            decompositions[node] = nodes.make(node.op, inputs, node.params, node.type, node.site)
            decompositions.setdefault(decompositions[node], decompositions[node])
    return [decompositions[r] for r in roots]


def saved_values(demanded: Iterable[Node], results: Collection[Node],
                 checkpointed: Mapping[Node, object]) -> list[Node]:
    """The values to save, from which and the inputs all of `demanded` can be computed.

    results: values that are stored anyway. checkpointed: values inside of checkpoints, by their
    checkpoint; these are always recomputed.
    """
    nodes = topological(demanded)
    inner = _inner(nodes, results, checkpointed)
    network = _FlowNetwork()
    for node in nodes:
        if node.op in SPECIAL:
            continue
        network.link((node, 0), (node, 1), _cost(node, results, inner))
        if node not in inner and (node in checkpointed or not _may_recompute(node)):
            network.link(None, (node, 0), UNLIMITED)
        for i in node.inputs:
            if i.op not in SPECIAL:
                network.link((i, 1), (node, 0), UNLIMITED)
    for node in demanded:
        if node.op not in SPECIAL:
            network.link((node, 1), _SINK, UNLIMITED)
    sink_side = network.sink_side()
    return [n for n in nodes if (n, 1) in sink_side and (n, 0) not in sink_side]


def _may_recompute(node: Node) -> bool:
    """True if the backward may compute a node again: cheaply, and with the forward's value."""
    op = OPS[node.op]
    is_cheap = op.kind in RECOMPUTED_KINDS and op.passes == 1 and not op.draws
    return is_cheap and not _needs_equal_bits(node)


def _needs_equal_bits(node: Node) -> bool:
    """True if a node asks whether computed floats are equal.

    The gradient of a maximum asks which elements equal it. Another program may round an element in
    another way than the program that computed the maximum; then no element would equal it, and the
    gradient would be 0.
    """
    return OPS[node.op].tests_equality and any(
        kind(i.type.dtype) == "f" and _is_computed(i) for i in node.inputs)


def _is_computed(node: Node) -> bool:
    """True if a node's value is no input or constant, and no view of one."""
    while node.op not in SPECIAL and OPS[node.op].kind == "view":
        node = node.inputs[0]
    return node.op not in SPECIAL


def _cost(node: Node, results: Collection[Node], inner: Collection[Node]) -> int:
    if node in inner:
        return UNLIMITED
    size = 1
    for n in node.type.shape:
        size *= concrete(n)
    bytes = max(size, 1) * int(node.type.dtype.itemsize)
    return bytes if node in results else 2 * bytes


def _inner(nodes: Sequence[Node], results: Collection[Node], checkpointed: Mapping[Node, object]
           ) -> set[Node]:
    """The values that are internal to one checkpoint.

    These are checkpointed values without readers outside, their own operands, and the backward's
    values of them.
    """
    forward = topological(results) if checkpointed else []
    checkpoint_of, inner = dict(checkpointed), set()
    readers = users(forward)
    for node in reversed(forward):
        checkpoints = {checkpoint_of.get(n) for n in readers[node]}
        if node not in results and len(checkpoints) == 1 and None not in checkpoints:
            checkpoint_of.setdefault(node, *checkpoints)
            if checkpoints == {checkpoint_of[node]}:
                inner.add(node)
    in_forward = set(forward)
    for node in nodes:
        if node not in in_forward and any(i in inner for i in node.inputs):
            inner.add(node)
    return inner


_SINK = "end"


class _FlowNetwork:
    """A flow network from the source None to _SINK (Dinic's algorithm)."""

    def __init__(self) -> None:
        self._capacity: dict[object, dict[object, int]] = {None: {}, _SINK: {}}

    def link(self, source: object, target: object, capacity: int) -> None:
        """Adds capacity from `source` to `target`."""
        targets = self._capacity.setdefault(source, {})
        targets[target] = targets.get(target, 0) + capacity
        self._capacity.setdefault(target, {}).setdefault(source, 0)

    def sink_side(self) -> set[object]:
        """The nodes on the sink's side of the minimum cut that is nearest to the sink."""
        while levels := self._levels():
            self._augment(levels)
        behind: set[object] = {_SINK}
        waiting: deque[object] = deque(behind)
        while waiting:
            at = waiting.popleft()
            for source in self._capacity[at]:
                if source not in behind and self._capacity[source].get(at, 0) > 0:
                    behind.add(source)
                    waiting.append(source)
        return behind

    def _levels(self) -> dict[object, int]:
        """The distance of each node from the source; empty if no flow reaches the sink."""
        levels: dict[object, int] = {None: 0}
        waiting: deque[object] = deque([None])
        while waiting:
            at = waiting.popleft()
            for to, capacity in self._capacity[at].items():
                if capacity > 0 and to not in levels:
                    levels[to] = levels[at] + 1
                    waiting.append(to)
        return levels if _SINK in levels else {}

    def _augment(self, levels: dict[object, int]) -> None:
        """Sends flow along shortest paths until none has capacity left."""
        untried = {at: list(self._capacity[at]) for at in levels}
        path: list[object] = [None]
        while path:
            at = path[-1]
            if at == _SINK:
                self._send(path)
                path = [None]
                continue
            while untried[at]:
                to = untried[at][-1]
                if self._capacity[at][to] > 0 and levels.get(to) == levels[at] + 1:
                    path.append(to)
                    break
                untried[at].pop()
            else:
                path.pop()
                if path:
                    untried[path[-1]].pop()

    def _send(self, path: Sequence[object]) -> None:
        pairs = list(itertools.pairwise(path))
        flow = min(self._capacity[a][b] for a, b in pairs)
        for a, b in pairs:
            self._capacity[a][b] -= flow
            self._capacity[b][a] += flow
