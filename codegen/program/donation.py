"""Finds values that may overwrite memory: an output its input, such as a parameter by its update,
and rows that are written into a value that nobody reads afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Graph, Node
from ..fusion.fusion import Group, reads_of, reads_own_element
from ..fusion.kernel_key import flat_source


class Overwrites:
    """The values of a graph that take the memory of others.

    `donations`: output -> input, for the outputs that take the memory of a donated input.
    `takes`: the value whose memory a value takes; inputs are among these values by donations only.
    """

    def __init__(self, graph: Graph, groups: list[Group], donated: Mapping[int, int]) -> None:
        self.groups, self.outputs = groups, set(graph.outputs)
        self.writer = {m: number for number, g in enumerate(groups) for m in g.members}
        self.last = {n: number for number, g in enumerate(groups) for n in g.reads}
        self.donations: dict[Node, Node] = {}
        self.takes: dict[Node, Node] = {}
        for number, group in enumerate(groups):
            self._scatter_into_temporary(number, group)
        for j, i in donated.items():
            self._donate(graph.outputs[j], graph.inputs[i])

    def _scatter_into_temporary(self, number: int, group: Group) -> None:
        """Rows are written into a value, if it is neither a result nor read later."""
        if group.kind != "scatter_rows":
            return
        scatter, = group.members
        target = flat_source(scatter.inputs[0], lambda n: n in self.writer and n in group.reads)
        if target in self.writer and target not in self.outputs and self.last[target] == number \
                and target.type.dtype == scatter.type.dtype and _scatters_into(target, group):
            self.takes[scatter] = target

    def _donate(self, out: Node, source: Node) -> None:
        """The output takes the input's memory, if the first value there can overwrite the input."""
        first = out
        while first in self.takes:
            first = self.takes[first]
        at = self.writer.get(first, -1)
        if source in self.outputs or out in self.donations or source in self.takes.values() \
                or at < 0 or self.last.get(source, -1) > at:
            return
        if _can_overwrite(first, source, self.groups[at]):
            self.donations[out] = self.takes[first] = source


def _can_overwrite(out: Node, source: Node, group: Group) -> bool:
    """True if the group that writes `out` reads `source` only at the same element."""
    if group.kind == "scatter_rows":
        return _scatters_into(source, group)
    if group.kind != "pointwise" or not out.type == source.type or out.type.shape != group.domain:
        return False
    in_memory = {*group.reads, *group.members}
    indices = group.variables()
    return all(n is not source or reads_own_element(n, index, group, indices)
               for m in group.members for n, index in reads_of(m, in_memory))


def _scatters_into(source: Node, group: Group) -> bool:
    """True if rows are written into `source` itself, or a reshape of it, and it is not read
    otherwise."""
    scatter, = group.members
    target = flat_source(scatter.inputs[0], lambda n: n is source)
    reads = [n for n, _ in reads_of(scatter, {*group.reads, scatter})]
    return target is source and reads.count(source) == 1
