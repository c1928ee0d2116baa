"""Finds outputs that may overwrite the input they replace, such as a parameter by its update."""

from __future__ import annotations

from ...capture.graph.graph import Graph, Node
from ..fusion.fusion import Group, reads_of, reads_own_element
from ..fusion.kernel_key import flat_source


def find_donations(graph: Graph, groups: list[Group]) -> dict[Node, Node]:
    """output -> input, for the outputs that can reuse the memory of a donated input."""
    donations: dict[Node, Node] = {}
    used: set[Node] = set(graph.outputs)
    writer = {m: number for number, g in enumerate(groups) for m in g.members}
    last = {n: number for number, g in enumerate(groups) for n in g.reads}
    for j, i in graph.donated.items():
        out, source = graph.outputs[j], graph.inputs[i]
        if source in used or out in donations or last.get(source, -1) > writer.get(out, -1):
            continue
        if out in writer and _can_overwrite(out, source, groups[writer[out]]):
            donations[out] = source
            used.add(source)
    return donations


def _can_overwrite(out: Node, source: Node, group: Group) -> bool:
    """True if the group that writes `out` reads `source` only at the same element."""
    if group.kind == "scatter_rows":
        return _scatters_into(out, source, group)
    if group.kind != "pointwise" or not out.type == source.type or out.type.shape != group.domain:
        return False
    in_memory = {*group.reads, *group.members}
    indices = group.variables()
    return all(n is not source or reads_own_element(n, index, group, indices)
               for m in group.members for n, index in reads_of(m, in_memory))


def _scatters_into(scatter: Node, source: Node, group: Group) -> bool:
    """True if rows are written into `source` itself, or a reshape of it, and it is not read
    otherwise."""
    target = flat_source(scatter.inputs[0], lambda n: n is source)
    reads = [n for n, _ in reads_of(scatter, {*group.reads, scatter})]
    return target is source and reads.count(source) == 1
