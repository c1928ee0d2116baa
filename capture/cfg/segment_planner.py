"""Plans the segments of a program.

Each block of the control-flow tree gets the segments that compute its operands. Values that later
blocks read as well become outputs of the segment and are stored in registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..autodiff.suspended_backward import SuspendedBackward
from ..graph.graph import Node
from ..heap.access_path import Path
from ..scalars.scalar_expr import elements
from ..segments.segment import Backend, Segment, cone, find_size_inputs, segment_of
from ..trace.value_table import ValueTable
from .ir import BackEdge, Block, walk
from .suspended_call import Captures
from .trace_exit import TraceExit
from .twins import Twins
from .verify import verify

Nodes = dict[Node, None]


def exits_of(root: Block) -> list[TraceExit]:
    """Every trace exit of a tree."""
    return [trace_exit for at in walk(root) for trace_exit in at.exits]


def segments_of(root: Block) -> list[Segment]:
    """Every segment of a tree, those of its exits last."""
    segments = [s for at in walk(root) for s in at.segments]
    return segments + [trace_exit.segment for trace_exit in exits_of(root)
                       if trace_exit.segment is not None]


def sources_of(blocks: Sequence[Block]) -> dict[Block, list[Node]]:
    """The inputs that traces have read, for each block.

    Inputs that more traces through the block have read come first: on other paths, their types may
    differ.
    """
    counts: dict[Block, Counter[Node]] = {}
    for at in reversed(blocks):
        counts[at] = Counter(n for trace_exit in at.exits for n in trace_exit.sources)
        for child in at.children():
            counts[at].update(counts[child])
    everywhere = list(counts[blocks[0]])
    return {at: list(dict.fromkeys([*(n for n, _ in count.most_common()), *everywhere]))
            for at, count in counts.items()}


class SegmentPlanner:
    """Assigns segments to the blocks of a tree. Unchanged segments keep their code."""

    def __init__(self, names: ValueTable, fn: Callable[..., Any], backend: Backend) -> None:
        self.names, self.fn, self.backend = names, fn, backend
        self._segments: dict[Any, Segment] = {}
        self._previous: dict[Any, Segment] = {}
        self._changed: set[Path] = set()  # paths of tensors that calls change, on any path
        self._size_sources: list[Node] = []  # inputs that may determine sizes in the current block

    def plan(self, root: Block) -> None:
        """Sets the segments of every block, and verifies the graph."""
        self._previous, self._segments = self._segments, {}
        self._changed = {e.target for trace_exit in exits_of(root) for e in trace_exit.effects}
        blocks = list(walk(root))
        needs: dict[Block, Nodes] = {}
        demanded: dict[Block, Nodes] = {}
        for at in reversed(blocks):
            needs[at], demanded[at] = dict.fromkeys(cone(at.required)), dict.fromkeys(at.required)
            for child in at.children():
                needs[at] |= needs[child]
                demanded[at] |= demanded[child]
        sources = sources_of(blocks)
        self._twins = Twins(root)
        self._read_when_resumed = {n: None for at in self._twins.backwards for n in needs[at]}
        pending: list[tuple[Block, frozenset[Node]]] = [(root, frozenset())]
        while pending:
            at, available = pending.pop()
            self._size_sources = sources[at]
            available = self._plan_block(at, self._twins.available(at, available), needs, demanded)
            children = [(child, available.union(at.definitions(child)))
                        for child in at.children()]
            pending.extend(reversed(children))  # the paths of a branch before what follows it
        for trace_exit in exits_of(root):
            if isinstance(trace_exit.backward, SuspendedBackward):
                trace_exit.backward.captures = Captures(root, trace_exit.backward, self.names,
                                                        self.fn)
        verify(root, self.names, "planning")

    def _plan_block(self, at: Block, available: frozenset[Node], needs: dict[Block, Nodes],
                    wants: dict[Block, Nodes]) -> frozenset[Node]:
        """Sets the segments of one block. Returns the nodes that are available after it."""
        later: Nodes = {}
        demanded: Nodes = {}
        targets = at.operands if at.exits else at.required
        for child in at.children():
            later |= needs[child]
            demanded |= wants[child]
        if at.exits:
            demanded |= dict.fromkeys(at.required)
            in_exits = cone(at.required)
            later |= dict.fromkeys(in_exits)
            targets += elements(self.names.numbers.get(n) for n in in_exits)
        if self._twins.is_inside(at):
            later |= self._read_when_resumed
        at.segments, available = self._segments_for(targets, available, later, demanded)
        for trace_exit in at.exits:
            trace_exit.prepare(self.names, self.fn, available, self.backend, self._changed)
        if isinstance(at, BackEdge):
            self._plan_vjps(at, available)
        return available

    def _plan_vjps(self, at: BackEdge, available: frozenset[Node]) -> None:
        """Sets the segments of the vjps of the iteration that ends at a back edge."""
        for (repeat, slots), vjp in self.names.iteration_vjps.items():
            if repeat == at.element:
                targets = list(vjp.gradients.values())
                demanded = dict.fromkeys(targets)
                inside_loop = available.union(vjp.incoming.values())
                read_later = dict.fromkeys(cone(targets))
                segments, _ = self._segments_for(targets, inside_loop, read_later, demanded)
                at.vjps[slots] = vjp, segments

    def _segments_for(self, targets: Sequence[Node], available: frozenset[Node], later: Nodes,
                      demanded: Nodes) -> tuple[list[Segment], frozenset[Node]]:
        """The segments that compute `targets`, and the nodes that are available after them."""
        segments: list[Segment] = []
        while True:
            missing = [n for n in dict.fromkeys(targets) if n not in available]
            if not missing:
                return segments, available
            segment = self._segment(self._numbers_first(missing, available), available, later,
                                    demanded)
            segments.append(segment)
            available = available.union(segment.outputs)

    def _numbers_first(self, targets: list[Node], available: frozenset[Node]) -> list[Node]:
        """`targets`, or the missing nodes whose elements its input numbers need first."""
        while True:
            numbers = [n for n in cone(targets, available) if n in self.names.numbers]
            missing = [n for n in elements(self.names.numbers[m] for m in numbers)
                       if n not in available]
            if not missing:
                return targets
            targets = list(dict.fromkeys(missing))

    def _segment(self, targets: list[Node], available: frozenset[Node], later: Nodes,
                 demanded: Nodes) -> Segment:
        new = dict.fromkeys(n for n in cone(targets, available) if n not in available and n.inputs)
        read_later = {i for n in later if n not in new and n not in available for i in n.inputs}
        read_later.update(demanded)
        outputs = [*targets, *(n for n in new if n in read_later and n not in targets)]
        size_inputs = find_size_inputs(self.names, outputs, available, self._size_sources)
        key = (tuple(map(id, outputs)), frozenset(map(id, available)), tuple(map(id, size_inputs)))
        segment = self._previous.get(key)
        if segment is None:
            segment = segment_of(self.names, self.fn, outputs, available, size_inputs, self.backend)
            segment.note_changes(self._changed, {})
        self._segments[key] = segment
        return segment
