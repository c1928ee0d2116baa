"""Which parts of a graph become native code, and which nodes stay calls of a library.

Calls and parts take turns: at an odd level stand calls, at an even one a part, and everything is
put at the lowest level that it can have. So there are as many parts as there are calls that wait
for each other with native code in between, no part waits for itself, and each is as large as can
be. A part is of one device; where a level has several, the CPU's comes first, as others may read
numbers that it makes, and it reads nothing of theirs but by a call. Views of something that is no
larger are made where they are read: by each part again, and by NumPy, which mostly moves nothing
then, for a call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...capture.graph.device_placement import Placement, placement_of
from ...capture.graph.graph import SPECIAL, Graph, Node, Nodes, users
from ...eager.arrays.devices import CPU
from ...eager.core.dispatch import LARGE
from ...eager.core.op import OPS
from .support import why_no_code

TOO_LITTLE = "too little work to be worth a kernel"
FEW = 2  # small nodes, at most so many of which are not worth native code between calls


class LibraryCall(NamedTuple):
    """A node that a library computes, and why."""

    node: Node
    why: str

    @property
    def reads(self) -> tuple[Node, ...]:
        return self.node.inputs

    @property
    def makes(self) -> tuple[Node, ...]:
        return (self.node,)


class GraphPart(NamedTuple):
    """Nodes that become one native program. Its graph's inputs stand for `reads`, in order, its
    outputs for `makes`."""

    graph: Graph
    reads: tuple[Node, ...]
    makes: tuple[Node, ...]
    members: tuple[Node, ...]
    device: str


Step = LibraryCall | GraphPart


def partition(graph: Graph, refused: Mapping[Node, str], checked: Collection[Node],
              runs: Callable[[Node], bool]) -> list[Step]:
    """The steps of a graph in an order in which they can run. `refused`: nodes for which there is
    no code though their kind has some; `checked`: what may turn out to be out of range; `runs`:
    whether there is code for an opaque one."""
    nodes = graph.nodes()
    places = placement_of(nodes)
    no_code = {n: why for n in nodes if n.op not in SPECIAL and (why := why_no_code(n, runs))
               and not (n.op == "transfer" and places[n.inputs[0]] is None)}
    no_code |= refused
    while True:
        plan = _Levels(graph, nodes, no_code, places)
        small = [n for members in plan.parts().values() if not plan.is_worth_it(members)
                 for n in members]
        if not small:
            return _with_donations(plan.steps(), graph, checked)
        no_code |= dict.fromkeys(small, TOO_LITTLE)


class _Levels:
    """Who computes each node, and at which level."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], no_code: Mapping[Node, str],
                 places: Mapping[Node, Placement]) -> None:
        self.nodes, self.no_code, self.outputs = nodes, no_code, set(graph.outputs)
        self.device = {n: place or CPU for n, place in places.items()}
        self.base: dict[Node, Node | None] = {}
        for n in nodes:
            self.base[n] = self._base(n)
        self.called = self._find_called()
        self.level: dict[Node, int] = {}
        for n in nodes:
            if n in self.called:
                self.level[n] = max((self._after(i) for i in n.inputs), default=-1)
            elif n.op not in SPECIAL and (self.base[n] is n or n in self.outputs):
                self.level[n] = max((self._before(self.base[i]) for i in n.inputs), default=0)

    def _base(self, node: Node) -> Node | None:
        """What has to be in memory for a node to be read: itself, the node it is a view of, or
        nothing where it is made of nothing."""
        if node.op == "input" or node in self.no_code:
            return node
        if not node.inputs:
            return None
        return self.base[node.inputs[0]] if only_shows(node) else node

    def _find_called(self) -> set[Node]:
        """What a library computes: nodes without code, and views of it or for it."""
        called, readers = set(self.no_code), users(self.nodes)
        for n in reversed(self.nodes):
            base = self.base[n]
            if n.op in SPECIAL or base is n:
                continue
            in_memory = base is None or base.op == "input" or base in called
            if (n in self.outputs and in_memory) or any(r in called for r in readers[n]):
                called.add(n)
        return called

    def _after(self, node: Node) -> int:
        """The level of a call that reads `node`."""
        if node.op in SPECIAL:
            return -1
        return self.level[node] if node in self.called else self.level[node] + 1

    def _before(self, node: Node | None) -> int:
        """The level of native code that reads `node`."""
        if node is None or node.op in SPECIAL:
            return 0
        return self.level[node] + 1 if node in self.called else self.level[node]

    def parts(self) -> dict[tuple[int, str], list[Node]]:
        """The nodes of each part, by its level and device."""
        found: dict[tuple[int, str], list[Node]] = {}
        for n, level in self.level.items():
            if n not in self.called:
                found.setdefault((level, self.device[n]), []).append(n)
        return found

    def is_worth_it(self, members: Iterable[Node]) -> bool:
        """Whether code for these nodes gains anything over calls of a library."""
        work = [n for n in members if self.base[n] is n]
        return len(work) > FEW or any(
            self.device[n] != CPU or v.type.size >= LARGE for n in work for v in (n, *n.inputs))

    def steps(self) -> list[Step]:
        """Calls and parts by their levels."""
        wanted, parts = self._wanted(), self.parts()
        calls: dict[int, list[Step]] = {}
        for n in self.nodes:
            if n in self.called:
                why = self.no_code.get(n, "a view in NumPy, which copies nothing")
                calls.setdefault(self.level[n], []).append(LibraryCall(n, why))
        found: list[Step] = []
        for level in sorted({*calls, *(level for level, _ in parts)}):
            found += calls.get(level, ())
            here = {device: members for (at, device), members in parts.items() if at == level}
            found += [self._part(members, device, wanted)
                      for device, members in sorted(here.items(), key=lambda x: x[0] != CPU)]
        return found

    def _wanted(self) -> set[Node]:
        """What is read outside of the step that computes it."""
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
        made, new, reads = Nodes(), dict[Node, Node](), list[Node]()
        for n in self.nodes:
            if n in needed and (n in inside or self.base[n] is not n):
                new[n] = made.make(n.op, [new[i] for i in n.inputs], n.params, n.type, n.site)
            elif n in needed:
                new[n] = made.input(f"x{len(reads)}", n.type, self.device[n])
                reads.append(n)
        graph = Graph(tuple(new[n] for n in reads), tuple(new[n] for n in makes))
        return GraphPart(graph, tuple(reads), makes, tuple(members), device)


def only_shows(node: Node) -> bool:
    """Whether a node is a view of one other that is no larger, and so costs no memory to keep."""
    return node.kind == "view" and len(node.inputs) == 1 \
        and node.type.size >= node.inputs[0].type.size


# ---- which inputs may be written over
def _with_donations(
    steps: Sequence[Step], graph: Graph, checked: Collection[Node]
) -> list[Step]:
    """The steps, their parts allowed to write over inputs that nothing reads afterwards.

    Only parts after which nothing can fail: whoever gets an error finds everything as it was.
    """
    found: list[Step] = []
    safe, read_later = True, set(graph.outputs)
    for step in reversed(steps):
        safe = safe and not _may_fail(step, checked)
        if isinstance(step, GraphPart) and safe:
            step = step._replace(graph=_donating(step, graph, read_later))
        read_later.update(step.reads)
        found.append(step)
    return found[::-1]


def _donating(part: GraphPart, graph: Graph, read_later: Collection[Node]) -> Graph:
    donated = {}
    for j, i in graph.donated.items():
        out, source = graph.outputs[j], graph.inputs[i]
        if out in part.makes and source in part.reads and source not in read_later:
            donated[part.makes.index(out)] = part.reads.index(source)
    return Graph(part.graph.inputs, part.graph.outputs, donated)


def _may_fail(step: Step, checked: Collection[Node]) -> bool:
    """Whether a step can end in an error for some values."""
    if any(n in checked for n in step.makes):
        return True
    if isinstance(step, GraphPart):
        return False
    op = OPS[step.node.op]
    if op.kind == "pointwise":
        return step.node.type.dtype.kind in "iu"  # a negative power of an integer
    return op.kind in ("opaque", "composite") and op.bounds is None
