"""Finds repeated regions of a graph: iterations of an unrolled loop, or equal layers.

Region instances are equal if they compute the same function of other values. Candidate periods are
found in the sequence of node labels, as in a text; equality is then checked node by node, since the
inner edges must agree. Operands from outside may come from anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node, params_key
from ...capture.graph.structure import canonical
from ...eager.arrays.shapes import TensorType
from ..fusion.kernel_key import flat_source, offset_of
from ..ir.sizes import is_dynamic, upper_bound
from .schedule import Scheduler

MIN_REPEATS = 6  # instances
_MAX_PERIODS_TRIED = 12  # the most frequent ones
_MAX_REPEATS_OF_OP = 6  # occurrences of an op within one instance, for its period to be found


class RegionOperand(NamedTuple):
    """A value from outside the region, from element `offset` on."""

    node: Node
    offset: int = 0


@dataclass(frozen=True)
class RegionInstance:
    """One instance of a repeated region.

    `members`: the nodes computed together
    `rows`: how they are computed; equal for equal instances
    `nodes`: the node of each row; constants are in `nodes` alone
    `member_rows`: the rows of the members
    `operands`: the values read from outside
    `donated`: pairs (row, operand); the row may overwrite the operand
    """

    members: Sequence[Node]
    rows: tuple[Any, ...]
    nodes: list[Node]
    operands: list[RegionOperand]
    member_rows: tuple[int, ...]
    donated: tuple[tuple[int, int], ...]

    @property
    def key(self) -> Any:
        """The structural key, equal for equal instances."""
        return self.rows, self.donated


def find_repeated_regions(scheduler: Scheduler) -> list[list[RegionInstance]]:
    """The instances of every repeated region, in order and without overlap."""
    if len(scheduler.heavy) < MIN_REPEATS:
        return []
    labels = _labels(scheduler.nodes)
    regions: list[tuple[int, list[RegionInstance]]] = []
    free = np.ones(len(labels), bool)
    for start, end, period in _periodic_ranges(labels):
        if not free[start:end].all():
            continue
        for first, instances in _equal_instances(scheduler, start, end, period):
            regions.append((first, instances))
            free[first:first + len(instances) * period] = False
    return [instances for _, instances in sorted(regions, key=lambda x: x[0])]


# ---- candidate regions
def _labels(nodes: Sequence[Node]) -> Any:
    """An id for each node; nodes with the same op, parameters and type have the same id."""
    ids: dict[Any, int] = {}
    return np.array([ids.setdefault((n.op, params_key(n.params), n.type), len(ids))
                     for n in nodes])


def _periodic_ranges(labels: Any) -> list[tuple[int, int, int]]:
    """Start, end and period of each periodic range of labels, the longest first."""
    ranges = [(start, end, period) for period in _periods(labels)
              for start, end in _runs(labels[:-period] == labels[period:],
                                      (MIN_REPEATS - 1) * period)]
    covered = sorted(((end - start + period, start, end + period, period)
                      for start, end, period in ranges), key=lambda s: (-s[0], s[3]))
    return [s[1:] for s in covered]


def _periods(labels: Any) -> list[int]:
    """The most frequent distances between equal labels."""
    sorted_nodes = np.argsort(labels, kind="stable")
    sorted_labels, counts = labels[sorted_nodes], Counter[int]()
    for k in range(1, _MAX_REPEATS_OF_OP + 1):
        distances = (sorted_nodes[k:] - sorted_nodes[:-k])[sorted_labels[k:] == sorted_labels[:-k]]
        counts.update(dict(enumerate(np.bincount(distances).tolist())))
    periods = [p for p, n in counts.most_common(_MAX_PERIODS_TRIED) if n >= MIN_REPEATS - 1]
    return sorted(periods)


def _runs(flags: Any, min_length: int) -> Iterator[tuple[int, int]]:
    """The ranges in which at least `min_length` flags in a row are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= min_length:
            yield start, end


# ---- equal instances
def _equal_instances(scheduler: Scheduler, start: int, end: int, period: int
                     ) -> Iterator[tuple[int, list[RegionInstance]]]:
    """Runs of equal consecutive instances, each with the position of its first node."""
    if scheduler.heavy.isdisjoint(scheduler.nodes[start:start + period]):
        return  # a region of cheap operations runs better as a few long kernels
    first_start = start + _best_cut(scheduler, start + (end - start) // period // 2 * period,
                                    period)
    starts = range(first_start, end - period + 1, period)
    instances = [region_instance_of(scheduler, scheduler.nodes[p:p + period]) for p in starts]
    for _, group in groupby(zip(starts, instances), key=lambda x: x[1].key):
        equal = list(group)
        if len(equal) >= MIN_REPEATS:
            yield equal[0][0], [instance for _, instance in equal]


def _best_cut(scheduler: Scheduler, middle: int, period: int) -> int:
    """The offset in a period at which the least data crosses from one instance to the next.

    Values that would not have memory anyway count first, then all values."""
    costs = np.zeros((period + 1, 2), np.int64)
    for position in range(max(0, middle - period), middle + period):
        node = scheduler.nodes[position]
        reader_positions = [at for r in scheduler.readers[node]
                            if (at := scheduler.position[r]) <= position + period]
        if reader_positions:  # the value is live from its own position to that of its last reader
            size = upper_bound(node.type.size)
            cost = (0 if scheduler.has_memory(node) else size, size)
            costs[max(position + 1 - middle, 0):max(max(reader_positions) + 1 - middle, 0)] += cost
    return int(np.lexsort(costs[:period].T[::-1])[0])


def region_instance_of(scheduler: Scheduler, nodes: Sequence[Node],
                       move_slices: bool = True) -> RegionInstance:
    """The region instance of these nodes. `move_slices`: a slice of an operand becomes an operand
    offset."""
    return _RegionWalk(scheduler, nodes, move_slices).build()


class _RegionWalk:
    """Walks through the nodes from which the members are computed, up to values from outside."""

    def __init__(self, scheduler: Scheduler, nodes: Sequence[Node], move_slices: bool) -> None:
        self.scheduler, self.members, self.move_slices = scheduler, nodes, move_slices
        self.inside, self.shown = set(nodes), scheduler.recomputed
        self.numbers: dict[Node, int] = {}
        self.operands: dict[tuple[RegionOperand, TensorType], int] = {}

    def build(self) -> RegionInstance:
        rows, self.numbers = canonical(self.members, self._leaf)
        member_rows = tuple(self.numbers[n] for n in self.members)
        return RegionInstance(self.members, rows, list(self.numbers),
                              [operand for operand, _ in self.operands], member_rows,
                              tuple(self._donated()))

    def _leaf(self, node: Node) -> Any:
        """The row of a value from outside, or None for a node that is computed here."""
        if node not in self.shown:
            return None if node in self.inside else \
                ("operand", self._operand_number(RegionOperand(node), node.type), node.type)
        if not self.move_slices:
            return None
        if node.op == "full" or (node.op == "const" and not node.type.shape):
            return "number", node.type
        return self._slice_row(node) if node.op == "slice" else None

    def _slice_row(self, node: Node) -> Any:
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
        if is_dynamic(operand.offset):
            return None
        number = self._operand_number(operand, source.type)
        return "part", axes, step, node.type, number, source.type

    def _operand_number(self, operand: RegionOperand, of: TensorType) -> int:
        return self.operands.setdefault((operand, of), len(self.operands))

    def _donated(self) -> Iterator[tuple[int, int]]:
        """The nodes that may overwrite an operand which has no later reader."""
        scheduler, values = self.scheduler, Counter(o.node for o, _ in self.operands)
        for (operand, operand_type), number in self.operands.items():
            out, is_whole = scheduler.donated.get(operand.node), not operand.offset
            if out in self.inside and values[operand.node] == 1 \
                    and is_whole and operand_type == operand.node.type \
                    and scheduler.last_use[operand.node] <= scheduler.position[self.members[-1]]:
                yield self.numbers[out], number
