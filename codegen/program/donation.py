"""Which outputs may be written over the input they replace, such as a parameter by its update."""

from __future__ import annotations

from ...capture.graph.graph import Graph, Node
from ..fusion.fusion import Group, reads_of, reads_own_element
from ..fusion.kernel_key import flat_source


def in_place(graph: Graph, groups: list[Group]) -> dict[Node, Node]:
    """For outputs that can take it, the input whose memory they take."""
    taken: dict[Node, Node] = {}
    used: set[Node] = set(graph.outputs)
    writer = {m: number for number, g in enumerate(groups) for m in g.members}
    last = {n: number for number, g in enumerate(groups) for n in g.reads}
    for j, i in graph.donated.items():
        out, source = graph.outputs[j], graph.inputs[i]
        if source in used or out in taken or last.get(source, -1) > writer.get(out, -1):
            continue
        if out in writer and _allowed(out, source, groups[writer[out]]):
            taken[out] = source
            used.add(source)
    return taken


def _allowed(out: Node, source: Node, group: Group) -> bool:
    """Whether the group that writes `out` reads `source` only at the same element."""
    if group.kind == "put":
        return _written_into(out, source, group)
    if group.kind != "rows" or group.axes is not None or not out.type == source.type \
            or out.type.shape != group.domain:
        return False
    placed = {*group.reads, *group.members}
    where = group.variables()
    return all(n is not source or reads_own_element(n, index, group, where)
               for m in group.members for n, index in reads_of(m, placed))


def _written_into(put: Node, source: Node, group: Group) -> bool:
    """Whether rows are written into `source` itself, or a reshape of it, and not read from it."""
    whole = flat_source(put.inputs[0], lambda n: n is source)
    reads = [n for n, _ in reads_of(put, {*group.reads, put})]
    return whole is source and reads.count(source) == 1
