"""Partitions a graph into parts that become native code and nodes that stay library calls.

Calls and parts alternate: odd levels hold calls, even levels hold a part, and each node has the
lowest possible level. So parts are as few and as large as possible, and no part depends on itself.
Between ordered calls that programs do not wait for, a part has only what the next one of them
needs, so that it begins early. Indices that are checked come in a part before all others, if that
lets those overwrite inputs (`indices_first`).
A part is on one device; on a level with several, the CPU's part comes first, since others may read
its numbers, and it reads theirs only by a call. A view that is no larger than its base is made
where it is read: again in each part, and for a call by NumPy, mostly without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...capture.graph.device_placement import Placement, placement_of
from ...capture.graph.graph import SPECIAL, Graph, Node, Nodes, topological, users
from ...eager.arrays.devices import CPU
from ...eager.core.dispatch import LARGE
from ...eager.core.op import OPS
from .support import why_no_code

TOO_LITTLE = "too little work to be worth a kernel"
MAX_NODES_LEFT_TO_LIBRARY = 2  # small nodes between calls; more become a native part


class LibraryCall(NamedTuple):
    """A node that a library computes, and the reason."""

    node: Node
    why: str

    @property
    def reads(self) -> tuple[Node, ...]:
        return self.node.inputs

    @property
    def makes(self) -> tuple[Node, ...]:
        return (self.node,)


class GraphPart(NamedTuple):
    """Nodes that become one native program. The inputs of its graph correspond to `reads`, its
    outputs to `makes`."""

    graph: Graph
    reads: tuple[Node, ...]
    makes: tuple[Node, ...]
    members: tuple[Node, ...]
    device: str


PartitionStep = LibraryCall | GraphPart


def partition(graph: Graph, refused: Mapping[Node, str], checked: Collection[Node],
              runs: Callable[[Node], bool]) -> list[PartitionStep]:
    """The steps of a graph in an order in which they can run. `refused`: nodes whose compilation
    failed. `checked`: values that may be out of range. `runs`: tells if an opaque node has a
    kernel."""
    nodes = graph.nodes()
    placements = placement_of(nodes)
    first = indices_first(graph, checked)
    no_code = {n: why for n in nodes if n.op not in SPECIAL and (why := why_no_code(n, runs))
               and not (n.op == "transfer" and placements[n.inputs[0]] is None)}
    no_code |= refused
    while True:
        plan = _LevelAssignment(graph, nodes, no_code, placements, first)
        small = [n for members in plan.parts().values()
                 if not first and not plan.is_worth_it(members) for n in members]
        if not small:
            return _with_donations(plan.steps(), graph, checked)
        no_code |= dict.fromkeys(small, TOO_LITTLE)


class _LevelAssignment:
    """Assigns each node to native code or a library, and to a level."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], no_code: Mapping[Node, str],
                 placements: Mapping[Node, Placement], first: Collection[Node]) -> None:
        """`first`: the nodes that are computed in steps before all others."""
        self.nodes, self.no_code, self.outputs = nodes, no_code, set(graph.outputs)
        self.persistent = {graph.inputs[i] for i in graph.persistent}
        self.device = {n: device or CPU for n, device in placements.items()}
        self.base: dict[Node, Node | None] = {}
        for n in nodes:
            self.base[n] = self._memory_base(n)
        self.called = self._find_library_nodes()
        self.level: dict[Node, int] = {}
        rounds = _rounds(nodes, first)
        lowest = [0] * (len(set(rounds.values())) + 1)  # level of native code in each round
        for n in sorted(nodes, key=rounds.__getitem__) if len(lowest) > 2 else nodes:
            if n in self.called:
                self.level[n] = max((self._level_of_call_reading(i) for i in n.inputs), default=-1)
                if is_begun(n) or n in first:
                    lowest[rounds[n] + 1] = max(lowest[rounds[n] + 1], self.level[n] + 1)
            elif n.op not in SPECIAL and (self.base[n] is n or n in self.outputs):
                self.level[n] = max((self._level_of_part_reading(self.base[i]) for i in n.inputs),
                                    default=0)
                self.level[n] = max(self.level[n], lowest[rounds[n]])
                if n in first:
                    lowest[rounds[n] + 1] = max(lowest[rounds[n] + 1], self.level[n] + 2)

    def _memory_base(self, node: Node) -> Node | None:
        """The node that must be in memory to read this one: itself, or the base of a view; None if
        it has no inputs."""
        if node.op == "input" or node in self.no_code:
            return node
        if not node.inputs:
            return None
        return self.base[node.inputs[0]] if is_free_view(node) else node

    def _find_library_nodes(self) -> set[Node]:
        """The nodes that a library computes: those without code, and views of them or for them."""
        library_nodes, readers = set(self.no_code), users(self.nodes)
        for n in reversed(self.nodes):
            memory_base = self.base[n]
            if n.op in SPECIAL or memory_base is n:
                continue
            in_memory = memory_base is None or memory_base.op == "input" \
                or memory_base in library_nodes
            if (n in self.outputs and in_memory) or any(r in library_nodes for r in readers[n]):
                library_nodes.add(n)
        return library_nodes

    def _level_of_call_reading(self, node: Node) -> int:
        """The level of a call that reads `node`."""
        if node.op in SPECIAL:
            return -1
        return self.level[node] if node in self.called else self.level[node] + 1

    def _level_of_part_reading(self, node: Node | None) -> int:
        """The level of native code that reads `node`."""
        if node is None or node.op in SPECIAL:
            return 0
        return self.level[node] + 1 if node in self.called else self.level[node]

    def parts(self) -> dict[tuple[int, str], list[Node]]:
        """The nodes of each part, by its level and device."""
        members: dict[tuple[int, str], list[Node]] = {}
        for n, level in self.level.items():
            if n not in self.called:
                members.setdefault((level, self.device[n]), []).append(n)
        return members

    def is_worth_it(self, members: Iterable[Node]) -> bool:
        """True if native code for these nodes gains anything over library calls."""
        work = [n for n in members if self.base[n] is n]
        return len(work) > MAX_NODES_LEFT_TO_LIBRARY or any(
            self.device[n] != CPU or v.type.size >= LARGE for n in work for v in (n, *n.inputs))

    def steps(self) -> list[PartitionStep]:
        """Calls and parts in the order of their levels."""
        wanted, parts = self._read_elsewhere(), self.parts()
        calls: dict[int, list[PartitionStep]] = {}
        for n in self.nodes:
            if n in self.called:
                why = self.no_code.get(n, "a view in NumPy, which copies nothing")
                calls.setdefault(self.level[n], []).append(LibraryCall(n, why))
        found: list[PartitionStep] = []
        for level in sorted({*calls, *(level for level, _ in parts)}):
            found += calls.get(level, ())
            here = {device: members for (at, device), members in parts.items() if at == level}
            found += [self._part(members, device, wanted)
                      for device, members in sorted(here.items(), key=lambda x: x[0] != CPU)]
        return found

    def _read_elsewhere(self) -> set[Node]:
        """The nodes that are read outside of the step that computes them."""
        found = set(self.outputs)
        for n, level in self.level.items():
            read = n.inputs if n in self.called else [self.base[i] for i in n.inputs]
            found.update(i for i in read if i is not None and (
                self.level.get(i) != level or self.device[i] != self.device[n]))
        return found

    def _part(self, members: Sequence[Node], device: str, wanted: Collection[Node]) -> GraphPart:
        makes, inside = tuple(n for n in members if n in wanted), set(members)
        needed: set[Node] = set()
        stack = list(makes)
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                stack.extend(n.inputs if n in inside or self.base[n] is not n else ())
        part_nodes, new, reads = Nodes(), dict[Node, Node](), list[Node]()
        for n in self.nodes:
            if n in needed and (n in inside or self.base[n] is not n):
                new[n] = part_nodes.make(n.op, [new[i] for i in n.inputs], n.params, n.type, n.site)
            elif n in needed:
                new[n] = part_nodes.input(f"x{len(reads)}", n.type, self.device[n])
                reads.append(n)
        persistent = frozenset(i for i, n in enumerate(reads) if n in self.persistent)
        graph = Graph(tuple(new[n] for n in reads), tuple(new[n] for n in makes),
                      persistent=persistent)
        return GraphPart(graph, tuple(reads), makes, tuple(members), device)


def is_begun(node: Node) -> bool:
    """True for an ordered call that begins, and for whose result only those who read it wait."""
    return bool(node.params.get("later")) and OPS[node.op].begin is not None


def indices_first(graph: Graph, checked: Collection[Node]) -> frozenset[Node]:
    """The nodes that compute the `checked` values, if these are to be computed and checked before
    all others: then nothing fails after the check, and outputs may overwrite inputs. Empty if
    nothing would be overwritten, or if they are more work than copies of what would be."""
    donated = sum(graph.inputs[i].type.size for i in graph.donated.values())
    if not donated:
        return frozenset()
    computing = [n for n in topological(checked) if n.op not in SPECIAL]
    work = sum(n.type.size if n.kind == "view" else max(v.type.size for v in (n, *n.inputs))
               for n in computing)
    return frozenset(computing if work < donated else ())


def _rounds(nodes: Sequence[Node], first: Collection[Node]) -> dict[Node, int]:
    """For each node the number of the first begun call that needs it, or of the last round of those
    that none needs. One round if there are less than two such calls. A round of the nodes that come
    `first` precedes these."""
    if first:
        return {n: 0 if n in first else at + 1 for n, at in _rounds(nodes, ()).items()}
    calls = [n for n in nodes if is_begun(n)]
    rounds: dict[Node, int] = {}
    for number, call in enumerate(calls if len(calls) > 1 else ()):
        stack = [call]
        while stack:
            n = stack.pop()
            if n not in rounds:
                rounds[n] = number
                stack.extend(n.inputs)
    return {n: rounds.get(n, len(calls) if rounds else 0) for n in nodes}


def is_free_view(node: Node) -> bool:
    """True if a node is a view of one other that is no larger, and so costs no memory to keep."""
    return node.kind == "view" and len(node.inputs) == 1 \
        and node.type.size >= node.inputs[0].type.size


# ---- which inputs may be written over
def _with_donations(
    steps: Sequence[PartitionStep], graph: Graph, checked: Collection[Node]
) -> list[PartitionStep]:
    """The steps, whose parts may overwrite inputs that nothing reads afterwards.

    Only parts after which nothing can fail get donations: after an error the inputs are unchanged.
    """
    result: list[PartitionStep] = []
    safe, read_later = True, set(graph.outputs)
    for step in reversed(steps):
        safe = safe and not _may_fail(step, checked)
        if isinstance(step, GraphPart) and safe:
            step = step._replace(graph=_donating(step, graph, read_later))
        read_later.update(step.reads)
        result.append(step)
    return result[::-1]


def _donating(part: GraphPart, graph: Graph, read_later: Collection[Node]) -> Graph:
    donated = {}
    for j, i in graph.donated.items():
        out, source = graph.outputs[j], graph.inputs[i]
        if out in part.makes and source in part.reads and source not in read_later:
            donated[part.makes.index(out)] = part.reads.index(source)
    return replace(part.graph, donated=donated)


def _may_fail(step: PartitionStep, checked: Collection[Node]) -> bool:
    """True if a step can raise for some values."""
    if any(n in checked for n in step.makes):
        return True
    if isinstance(step, GraphPart):
        return False
    op = OPS[step.node.op]
    if op.kind == "pointwise":
        return step.node.type.dtype.kind in "iu"  # a negative power of an integer
    return op.kind in ("opaque", "composite") and op.bounds is None
