"""What is computed where: each place of a tree gets the stages that compute what is wanted there,
and what is used again further down is kept in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..graph.graph import Node
from ..heap.access_path import Path
from ..scalars.scalar_expr import elements
from ..segments.segment import Backend, Segment, cone, segment_of, tellers
from ..trace.value_table import ValueTable
from .cfg import BackEdge, Block, Exit, Loop, LoopBackward, SizeBinding
from .trace_exit import TraceExit

Nodes = dict[Node, None]


def walk(root: Block) -> Iterator[Block]:
    """Every place of a tree, those above others first."""
    stack = [root]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(at.children())


def exits_of(root: Block) -> list[TraceExit]:
    """Every leaf of a tree."""
    return [leaf for at in walk(root) if isinstance(at, Exit) for leaf in at.leaves]


def stages_of(root: Block) -> list[Segment]:
    """Every stage of a tree, those of its leaves last."""
    found = [s for at in walk(root) for s in at.stages]
    return found + [leaf.stage for leaf in exits_of(root) if leaf.stage is not None]


def sources_of(order: Sequence[Block]) -> dict[Block, list[Node]]:
    """For each place the inputs that runs of the tree have read. Those that more of the runs
    through this place have read come first: in the others they may be of another type."""
    counts: dict[Block, Counter[Node]] = {}
    for at in reversed(order):
        leaves = at.leaves if isinstance(at, Exit) else []
        counts[at] = Counter(n for leaf in leaves for n in leaf.sources)
        for child in at.children():
            counts[at].update(counts[child])
    everywhere = list(counts[order[0]])
    return {at: list(dict.fromkeys([*(n for n, _ in count.most_common()), *everywhere]))
            for at, count in counts.items()}


class Planner:
    """Gives the places of a tree their stages; those that stay the same keep their code."""

    def __init__(self, names: ValueTable, fn: Callable[..., Any], backend: Backend) -> None:
        self.names, self.fn, self.backend = names, fn, backend
        self._stages: dict[Any, Segment] = {}
        self._kept: dict[Any, Segment] = {}
        self._changed: set[Path] = set()  # what calls change, on one way or another
        self._sources: list[Node] = []  # inputs that tell sizes at the place that is planned

    def plan(self, root: Block) -> None:
        """Sets the stages of every place."""
        self._kept, self._stages = self._stages, {}
        self._changed = {e.target for leaf in exits_of(root) for e in leaf.effects}
        order = list(walk(root))
        needs: dict[Block, Nodes] = {}
        wants: dict[Block, Nodes] = {}
        for at in reversed(order):
            needs[at], wants[at] = dict.fromkeys(cone(at.wants)), dict.fromkeys(at.wants)
            for child in at.children():
                needs[at] |= needs[child]
                wants[at] |= wants[child]
        sources = sources_of(order)
        pending: list[tuple[Block, frozenset[Node]]] = [(root, frozenset())]
        while pending:
            at, known = pending.pop()
            self._sources = sources[at]
            known = self._place(at, known, needs, wants)
            pending.extend((child, known) for child in at.children())

    def _place(self, at: Block, known: frozenset[Node], needs: dict[Block, Nodes],
               wants: dict[Block, Nodes]) -> frozenset[Node]:
        """Sets the stages of one place; what is known after it."""
        later: Nodes = {}
        asked: Nodes = {}
        wanted = at.wanted if isinstance(at, Exit) else at.wants
        for child in at.children():
            later |= needs[child]
            asked |= wants[child]
        if isinstance(at, Exit):
            asked = dict.fromkeys(at.wants)
            later = dict.fromkeys(cone(at.wants))
            wanted += elements(self.names.numbers.get(n) for n in later)
        at.stages, known = self._staged(wanted, known, later, asked)
        if isinstance(at, Exit):
            for leaf in at.leaves:
                leaf.prepare(self.names, self.fn, known, self.backend, self._changed)
        if isinstance(at, BackEdge):
            self._ways_back(at, known)
        if isinstance(at, LoopBackward):
            return known.union(at.element.phis)
        if isinstance(at, SizeBinding):
            return known.union([at.element.node])
        return known.union(at.enter.phis) if isinstance(at, Loop) else known

    def _ways_back(self, at: BackEdge, known: frozenset[Node]) -> None:
        """The stages of the ways back through the turn that ends here."""
        for (jump, slots), way in self.names.iteration_vjps.items():
            if jump == at.jump:
                wanted = list(way.gradients.values())
                asked = dict.fromkeys(wanted)
                given = known.union(way.given.values())
                stages, _ = self._staged(wanted, given, dict.fromkeys(cone(wanted)), asked)
                at.ways[slots] = way, stages

    def _staged(self, wanted: Sequence[Node], known: frozenset[Node], later: Nodes,
                asked: Nodes) -> tuple[list[Segment], frozenset[Node]]:
        """The stages that compute `wanted`, and what is known after them."""
        stages: list[Segment] = []
        while True:
            missing = [n for n in dict.fromkeys(wanted) if n not in known]
            if not missing:
                return stages, known
            stage = self._stage(self._numbers_first(missing, known), known, later, asked)
            stages.append(stage)
            known = known.union(stage.wanted)

    def _numbers_first(self, wanted: list[Node], known: frozenset[Node]) -> list[Node]:
        """`wanted`, or what the numbers among its inputs are elements of, where that is unknown."""
        while True:
            numbers = [n for n in cone(wanted, known) if n in self.names.numbers]
            missing = [n for n in elements(self.names.numbers[m] for m in numbers)
                       if n not in known]
            if not missing:
                return wanted
            wanted = list(dict.fromkeys(missing))

    def _stage(self, wanted: list[Node], known: frozenset[Node], later: Nodes,
               asked: Nodes) -> Segment:
        new = dict.fromkeys(n for n in cone(wanted, known) if n not in known and n.inputs)
        read_later = {i for n in later if n not in new and n not in known for i in n.inputs}
        read_later.update(asked)
        outputs = [*wanted, *(n for n in new if n in read_later and n not in wanted)]
        telling = tellers(self.names, outputs, known, self._sources)
        key = (tuple(map(id, outputs)), frozenset(map(id, known)), tuple(map(id, telling)))
        stage = self._kept.get(key)
        if stage is None:
            stage = segment_of(self.names, self.fn, outputs, known, telling, self.backend)
            stage.change(self._changed, {})
        self._stages[key] = stage
        return stage
