"""Which outputs may be written over the input they replace, such as a parameter by its update."""

from __future__ import annotations

from ..capture.graph import Graph, Node
from .fuse import Group, own_element, reads_of


def in_place(graph: Graph, groups: list[Group]) -> dict[Node, Node]:
    """For outputs that can take it, the input whose memory they take."""
    taken: dict[Node, Node] = {}
    used: set[Node] = set(graph.outputs)
    for j, i in graph.donated.items():
        out, source = graph.outputs[j], graph.inputs[i]
        if source not in used and out not in taken and _allowed(out, source, groups):
            taken[out] = source
            used.add(source)
    return taken


def _allowed(out: Node, source: Node, groups: list[Group]) -> bool:
    """Whether `source` is last read where `out` is written, and only at the same element."""
    writer = next((n for n, g in enumerate(groups) if out in g.members), None)
    if writer is None or any(source in g.reads for g in groups[writer + 1:]):
        return False
    group = groups[writer]
    if group.kind != "rows" or group.axes is not None or out.type.shape != group.domain:
        return False
    placed = {*group.reads, *group.members}
    where = group.variables()
    return all(n is not source or own_element(n, index, group, where)
               for m in group.members for n, index in reads_of(m, placed))
