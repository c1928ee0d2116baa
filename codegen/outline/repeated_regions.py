"""Parts of a graph that repeat: the turns of an unrolled loop, equal layers, updates of parameters.

Turns are equal if they compute the same from other values. Where they begin is found by the period
of what is computed, as a text; that they are equal is then looked at node by node, since their
inside must be wired in the same way. What they read from outside may be wired as it likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node, missing_below, params_key
from ...eager.arrays.shapes import TensorType
from ..fusion.fusion import row_of
from ..fusion.kernel_key import flat_source, offset_of
from .schedule import Scheduler

FEWEST = 6  # turns that are worth it
_PERIODS = 12  # lengths of a turn that are tried
_NEXT = 6  # how often the same op may come in a turn, for its length to be seen


class RegionOperand(NamedTuple):
    """A value from outside, from one of its elements on."""

    node: Node
    offset: int = 0


@dataclass(frozen=True)
class RegionInstance:
    """`members` are computed together. `rows` say how, and are equal for equal turns; `nodes` are
    what the rows stand for, `own` the rows of the members, `operands` what they read from outside,
    `donated` which rows may take the memory of which operand. Numbers are told by `nodes` alone."""

    members: Sequence[Node]
    rows: tuple[Any, ...]
    nodes: list[Node]
    operands: list[RegionOperand]
    own: tuple[int, ...]
    donated: tuple[tuple[int, int], ...]

    @property
    def form(self) -> Any:
        """Equal for equal turns."""
        return self.rows, self.donated


def find_repeated_regions(order: Scheduler) -> list[list[RegionInstance]]:
    """The turns of all that repeats, none of them overlapping, in order."""
    if len(order.heavy) < FEWEST:
        return []
    labels = _labels(order.nodes)
    found: list[tuple[int, list[RegionInstance]]] = []
    free = np.ones(len(labels), bool)
    for start, end, period in _stretches(labels):
        if not free[start:end].all():
            continue
        for first, turns in _equal_turns(order, start, end, period):
            found.append((first, turns))
            free[first:first + len(turns) * period] = False
    return [turns for _, turns in sorted(found, key=lambda x: x[0])]


# ---- where turns may be
def _labels(nodes: Sequence[Node]) -> Any:
    """A number for each node, the same for those that do the same."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault((n.op, params_key(n.params), n.type), len(numbers))
                     for n in nodes])


def _stretches(labels: Any) -> list[tuple[int, int, int]]:
    """Start, end and period of what has a period, what covers most first."""
    found = [(start, end, period) for period in _periods(labels)
             for start, end in _runs(labels[:-period] == labels[period:], (FEWEST - 1) * period)]
    covered = sorted(((end - start + period, start, end + period, period)
                      for start, end, period in found), key=lambda s: (-s[0], s[3]))
    return [s[1:] for s in covered]


def _periods(labels: Any) -> list[int]:
    """The distances at which the same is done again most often."""
    order = np.argsort(labels, kind="stable")
    same, counts = labels[order], Counter[int]()
    for k in range(1, _NEXT + 1):
        apart = (order[k:] - order[:-k])[same[k:] == same[:-k]]
        counts.update(dict(enumerate(np.bincount(apart).tolist())))
    often = [p for p, n in counts.most_common(_PERIODS) if n >= FEWEST - 1]
    return sorted(often)


def _runs(true: Any, least: int) -> Iterator[tuple[int, int]]:
    """Where at least so many in a row are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], true, [0]])))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= least:
            yield start, end


# ---- which turns are equal
def _equal_turns(order: Scheduler, start: int, end: int, period: int
                 ) -> Iterator[tuple[int, list[RegionInstance]]]:
    """Turns in a row that are equal, and the place of the first."""
    if order.heavy.isdisjoint(order.nodes[start:start + period]):
        return  # what only has cheap operations runs better as few long kernels
    begin = start + _best_cut(order, start + (end - start) // period // 2 * period, period)
    places = range(begin, end - period + 1, period)
    turns = [region_instance_of(order, order.nodes[p:p + period]) for p in places]
    for _, group in groupby(zip(places, turns), key=lambda x: x[1].form):
        equal = list(group)
        if len(equal) >= FEWEST:
            yield equal[0][0], [turn for _, turn in equal]


def _best_cut(order: Scheduler, middle: int, period: int) -> int:
    """Where in a period the least goes from one turn to the next: first of what would not lie in
    memory anyway, then of all."""
    costs = np.zeros((period + 1, 2), np.int64)
    for place in range(max(0, middle - period), middle + period):
        node = order.nodes[place]
        near = [at for r in order.readers[node] if (at := order.at[r]) <= place + period]
        if near:  # it goes over the places from its own to that of its last reader
            cost = (0 if order.has_memory(node) else node.type.size, node.type.size)
            costs[max(place + 1 - middle, 0):max(max(near) + 1 - middle, 0)] += cost
    return int(np.lexsort(costs[:period].T[::-1])[0])


def region_instance_of(order: Scheduler, nodes: Sequence[Node],
                       moving: bool = True) -> RegionInstance:
    """What nodes compute. With `moving` a slice of an operand is the operand from there on."""
    return _Reader(order, nodes, moving).turn()


class _Reader:
    """Walks through what nodes are computed from, as far as it is not computed elsewhere."""

    def __init__(self, order: Scheduler, nodes: Sequence[Node], moving: bool) -> None:
        self.order, self.members, self.moving = order, nodes, moving
        self.inside, self.shown = set(nodes), order.shown
        self.rows: list[Any] = []
        self.nodes: list[Node] = []
        self.numbers: dict[Node, int] = {}
        self.operands: dict[tuple[RegionOperand, TensorType], int] = {}

    def turn(self) -> RegionInstance:
        for member in self.members:
            for node in missing_below(member, self.numbers, self._leaf):
                self.rows.append(self._leaf(node) or row_of(node, self.numbers))
                self.numbers[node] = len(self.nodes)
                self.nodes.append(node)
        own = tuple(self.numbers[n] for n in self.members)
        return RegionInstance(self.members, tuple(self.rows), self.nodes, [o
                                                                           for o,
                                                                           _ in self.operands], own,
                              tuple(self._donated()))

    def _leaf(self, node: Node) -> Any:
        """The row of what comes from outside; None for what is computed here."""
        if node not in self.shown:
            return None if node in self.inside else \
                ("operand", self._number(RegionOperand(node), node.type), node.type)
        if not self.moving:
            return None
        if node.op == "full" or (node.op == "const" and not node.type.shape):
            return "number", node.type
        return self._part(node) if node.op == "slice" else None

    def _part(self, node: Node) -> Any:
        """The row of a slice of an operand, whose axes may have been permuted before."""
        (source,), start, step = node.inputs, node.params["start"], node.params["step"]
        axes = tuple(range(len(start)))
        if source in self.shown and source.op == "permute_dims":
            axes, (source,) = source.params["axes"], source.inputs
        flat = flat_source(source, lambda n: n not in self.shown)
        if flat in self.shown or flat in self.inside or min(step, default=1) < 1:
            return None
        first = [start[axes.index(a)] for a in range(len(axes))]
        operand = RegionOperand(flat, offset_of(tuple(first), source.type.shape))
        number = self._number(operand, source.type)
        return "part", axes, step, node.type, number, source.type

    def _number(self, operand: RegionOperand, of: TensorType) -> int:
        return self.operands.setdefault((operand, of), len(self.operands))

    def _donated(self) -> Iterator[tuple[int, int]]:
        """The nodes that may take the memory of an operand which nobody reads after these."""
        order, values = self.order, Counter(o.node for o, _ in self.operands)
        for (operand, of), number in self.operands.items():
            out, whole = order.donated.get(operand.node), not operand.offset
            if out in self.inside and values[operand.node] == 1 \
                    and whole and of == operand.node.type \
                    and order.last[operand.node] <= order.at[self.members[-1]]:
                yield self.numbers[out], number
