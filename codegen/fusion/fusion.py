"""Which nodes are computed together: graph -> groups, each of which becomes one kernel.

A node is *placed* when it gets a home in a group; all others are computed where they are read.
Placed are outputs, contractions and what they read, reductions, and values that several readers
would otherwise compute again. A group has a domain, the shape of its loops; every member is an
element of the domain, or of the domain with the group's `axes` reduced. A member reads other
members only at its own element, so the whole group is one pass over its domain.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...capture.graph.graph import SPECIAL, Graph, Node, missing_below, params_key, users
from ...eager.arrays.shapes import product
from ..ir.affine_index import Index, as_index, variable
from ..ir.builder import BUILDER, ExprValue
from ..ir.inline import Indices, Inliner, broadcast_index

WHOLE = ("contract", "scan", "composite")  # kinds that read more of an operand than an element
_HEAVY = {"exp", "log", "tanh", "pow", "sin", "cos", "erf", "uniform", "expm1", "log1p", "sigmoid",
          "atan2"}
_MOST_SUMS = 8  # reductions of one kernel: what comes after one passes over the rows again
_COSTLY = 10  # simple operations that are worth one where every row would repeat them
_WORTH = 4  # simple operations that are worth a place in memory when several readers need them
SHORT = 9  # elements of a reduction that is unrolled
_LARGEST_TREE = 200  # operations computed in place, before a value gets a home of its own
_LONGEST = 500  # operations of a kernel: turns of a loop become several that are equal, not one
_MOST_PIECES = 8  # of a concat that is read piece by piece rather than written
_MOST_SLICES = 4  # of a value, before it gets a home: each is of use to another kernel
_CANDIDATES = 8  # kernels that are asked for a place because they read the same
_LARGE = 1 << 18  # elements of an array that is not read twice if once is enough
_MANY_ROWS, _LONGEST_ROW = 256, 1 << 14  # of a kernel that adds up rows on its way
_MOST_ALIKE = 8  # values of a kernel, before reading the same is no reason to join it
_NEEDS_OTHERS = "a scan or an order, whose elements need others, has a kernel of its own"
_ALONE = {"scan": _NEEDS_OTHERS, "sort": _NEEDS_OTHERS,
          "put": "rows written at places known at run time have a kernel of their own",
          **dict.fromkeys(("composite", "opaque"), "an op kept whole has a kernel of its own")}


@dataclass
class Group:
    """Nodes computed by one kernel. `axes`: what is reduced, None while nothing is."""

    kind: str  # rows, columns, contract, one of _ALONE, or pieces: a kernel for each
    domain: tuple[int, ...]
    axes: tuple[int, ...] | None
    members: list[Node] = field(default_factory=list)
    reads: set[Node] = field(default_factory=set)  # placed nodes of other groups, and inputs
    refusals: list[str] = field(default_factory=list)
    fan: int = 1  # how many computations read the first member
    work: int = 0  # operations of all members
    layout: tuple[int, ...] = ()  # of the array in which the results are a part, if they are one

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes of the domain that are not reduced."""
        return tuple(i for i in range(len(self.domain)) if i not in (self.axes or ()))

    def crosses(self, node: Node) -> bool:
        """Whether a member is reduced over the rows, rather than along each of them."""
        return node.kind == "reduce" and tuple(node.params["axis"]) != self.axes

    def variables(self) -> Indices:
        return axis_variables(self.domain)


_AXES: dict[tuple[int, ...], Indices] = {}


def axis_variables(shape: tuple[int, ...]) -> Indices:
    """The loop variables of a domain, the same ones each time."""
    found = _AXES.get(shape)
    if found is None:  # another thread may ask for the same
        found = _AXES.setdefault(shape, tuple(variable(f"i{a}", n) for a, n in enumerate(shape)))
    return found


def fuse(graph: Graph) -> list[Group]:
    """The groups of a graph, in an order in which they can run."""
    nodes = graph.nodes()
    readers, outputs = users(nodes), set(graph.outputs)
    fan = _fan_out(nodes, readers, outputs)
    placed, work = choose_placed(nodes, readers, outputs, fan)
    fusing = Fusing(Reads(placed), work)
    for node in nodes:
        if node in placed and not given(node):
            group = fusing.place(node)
            if len(group.members) == 1:
                group.fan = fan[node]
    return fusing.in_order()


def given(node: Node) -> bool:
    """Whether a value lies in memory before the program begins: an input, or an array constant."""
    return node.op == "input" or (node.op == "const" and bool(node.type.shape))


def choose_placed(
    nodes: list[Node], readers: Mapping[Node, list[Node]], outputs: set[Node],
    fan: Mapping[Node, int],
) -> tuple[set[Node], dict[Node, int]]:
    """The nodes that get a home, and how many operations each node takes from there on."""
    packed, reach = _contracted(nodes), _reach(nodes, readers)
    placed: set[Node] = set()
    size: dict[Node, int] = {}
    for node in nodes:
        own = 10 if node.op in _HEAVY else 1
        size[node] = own + sum(size[i] for i in node.inputs if i not in placed)
        if node.op in SPECIAL:
            needed = given(node) or node in outputs
        else:
            again = node in packed or (
                reach[node] > 1.5 * max(1, node.type.size) and not _counts(node)) or (
                size[node] >= _COSTLY and any(_repeats(r, node) for r in readers[node]))
            needed = node in outputs or _needs_home(
                node, size[node], fan[node], again, readers[node])
        if needed:
            placed.add(node)
    return placed, size


def _needs_home(node: Node, size: int, fan: int, again: bool, readers: list[Node]) -> bool:
    """`again`: what reads the node would compute its elements many times."""
    if node.kind in ("reduce", "contract", *_ALONE):
        return True
    if is_pieces(node) or _is_cut_up(node, readers):
        return True
    if node.kind == "view" or not node.type.shape:
        return size > _LARGEST_TREE
    if again or size > _LARGEST_TREE:
        return True
    return fan > 1 and size >= _WORTH


def is_pieces(node: Node) -> bool:
    """Whether a node is a concat of so many values that each is written to its place."""
    return node.op == "concat" and len(node.inputs) > _MOST_PIECES


def _is_cut_up(node: Node, readers: list[Node]) -> bool:
    return node.op != "broadcast_to" and sum(r.op == "slice" for r in readers) > _MOST_SLICES


def _passes_on(node: Node) -> bool:
    """Whether who reads a node reads what that one reads: it is a view without memory."""
    return node.kind == "view" and not is_pieces(node)


def _fan_out(
    nodes: list[Node], readers: dict[Node, list[Node]], outputs: set[Node]
) -> dict[Node, int]:
    """How many computations read an element of a node, directly or through views."""
    fan: dict[Node, int] = {}
    for node in reversed(nodes):
        own = [fan[r] if _passes_on(r) else 1 for r in readers[node]]
        apart = _are_parts(readers[node], node)
        fan[node] = (max(own) if apart else sum(own)) + (node in outputs)
    return fan


def _are_parts(readers: list[Node], node: Node) -> bool:
    """Whether all readers together read no more than the elements of a node, each some of them."""
    return len(readers) > 1 and all(r.op == "slice" for r in readers) \
        and sum(r.type.size for r in readers) <= node.type.size


def _contracted(nodes: list[Node]) -> set[Node]:
    """The nodes that are read by what reads them whole, directly or through views."""
    found: set[Node] = set()
    stack = [i for n in nodes if n.kind in WHOLE for i in n.inputs]
    while stack:
        node = stack.pop()
        if node not in found:
            if not _widens(node):  # to read what is smaller is faster than a copy that is larger
                found.add(node)
            stack.extend(node.inputs if _passes_on(node) or _widens(node) else ())
    return found


def _widens(node: Node) -> bool:
    """Whether a node is a cast of smaller numbers, perhaps counted from another zero."""
    if node.op == "subtract" and not node.inputs[1].type.shape:
        node = node.inputs[0]
    return node.op == "cast" and \
        node.inputs[0].type.dtype.itemsize < node.type.dtype.itemsize


def _counts(node: Node) -> bool:
    """Whether a node is one of smaller whole numbers, which windows read as they lie."""
    return node.type.dtype.kind in "iu" and _widens(node)


def _reach(nodes: list[Node], readers: Mapping[Node, list[Node]]) -> dict[Node, int]:
    """The most elements that a node is read as, through views."""
    found: dict[Node, int] = {}
    for node in reversed(nodes):
        views = [found[r] for r in readers[node] if _passes_on(r) or _counts(r)]
        found[node] = max([node.type.size, *views])
    return found


def _repeats(reader: Node, node: Node) -> bool:
    """Whether a reader computes each lane of a node anew in every row. What is the same for all of
    a row is computed once for it."""
    shape, whole = node.type.shape, reader.type.shape
    return reader.kind == "pointwise" and bool(shape) and shape[-1] == whole[-1] > 1 \
        and reader.type.size > 1.5 * node.type.size


# ---- what a node reads, and at which element
def domain_of(node: Node) -> tuple[int, ...]:
    """The shape of the loops that compute a node."""
    return node.inputs[0].type.shape if node.kind == "reduce" else node.type.shape


def reads_of(
    node: Node, placed: Container[Node], at: Indices | None = None
) -> list[tuple[Node, Indices]]:
    """The placed nodes that computing one element of `node` reads, each with the element read.

    `at` is the element; by default that of the node's own loops.
    """
    found: list[tuple[Node, Indices]] = []

    def leaf(n: Node, index: Indices, mask: object) -> ExprValue | None:
        if n is node or n not in placed:
            return None
        found.append((n, tuple(as_index(i) for i in index)))
        return BUILDER.const(0, n.type.dtype) if n.type.dtype.kind != "i" else _opaque(n, index)

    inline = Inliner(leaf)
    where = axis_variables(domain_of(node)) if at is None else at
    if node.kind in ("contract", "sort", "composite") or is_pieces(node):
        for n in node.inputs:
            inline.value(n, axis_variables(n.type.shape))
    elif node.kind in ("put", "opaque"):
        for n in node.inputs:  # one after the other: what two of them read is found twice
            Inliner(leaf).value(n, axis_variables(n.type.shape))
    elif node.kind in ("reduce", "scan"):
        inline.value(node.inputs[0], where)
    else:
        inline.value(node, where)
    return found


def _opaque(node: Node, index: Indices) -> ExprValue:
    """A stand-in for an integer that is read: it may be used as an index."""
    from_memory = variable(f"x{id(node)}", 1 << 40)
    return ExprValue(from_memory.expr())


class Reads:
    """`reads_of`, worked out once for nodes that are computed in the same way."""

    def __init__(self, placed: Container[Node]) -> None:
        self.placed = placed
        self._made: dict[Any, list[tuple[int, Indices]]] = {}

    def of(self, node: Node) -> list[tuple[Node, Indices]]:
        """The placed nodes that computing one element of `node` reads, each with its element."""
        key, leaves = self._form(node)
        found = self._made.get(key)
        if found is None:
            number = {n: i for i, n in enumerate(leaves)}
            reads = reads_of(node, self.placed)
            found = self._made[key] = [(number[n], index) for n, index in reads]
        return [(leaves[i], index) for i, index in found]

    def _form(self, root: Node) -> tuple[Any, list[Node]]:
        """How a node is computed from placed ones, and these."""
        number: dict[Node, int] = {}
        rows: list[Any] = []
        leaves: list[Node] = []

        def is_leaf(node: Node) -> bool:
            return node in self.placed and node is not root

        for node in missing_below(root, number, is_leaf):
            number[node] = len(number)
            leaves += [node] if is_leaf(node) else []
            rows.append(node.type if is_leaf(node) else row_of(node, number))
        return tuple(rows), leaves


def row_of(node: Node, number: Mapping[Node, int]) -> tuple[Any, ...]:
    """How a node is computed, its inputs by their numbers."""
    return node.op, params_key(node.params), node.type, tuple([number[i] for i in node.inputs])


# ---- joining
class Fusing:
    """The groups made so far, by number, and which of them need which others."""

    def __init__(self, reads: Reads, work: Mapping[Node, int]) -> None:
        self.reads, self.work = reads, work
        self.groups: list[Group] = []
        self.home: dict[Node, int] = {}
        self._readers: dict[Node, list[int]] = {}
        self._needs: list[int] = []  # a bit for every group that one needs, directly or not
        self._needed = 0

    def place(self, node: Node) -> Group:
        """The group that `node` joins, or a new one."""
        reads = self.reads.of(node)
        refusals = []
        for number in self._related(node, reads):
            why = self._refusal(node, reads, number)
            if not why:
                return self._join(node, reads, number)
            last = self.groups[number].members[-1]
            refusals.append(f"{node.op} ({node.site}) not with {last.op}: {why}")
        made = _new_group(node)
        made.refusals = refusals
        self.groups.append(made)
        self._needs.append(0)
        return self._join(node, reads, len(self.groups) - 1)

    def _related(self, node: Node, reads: list[tuple[Node, Indices]]) -> list[int]:
        """The groups that make or read what the node reads, the newest first."""
        found = {self.home[n] for n, _ in reads if n in self.home}
        for n, _ in reads:
            if n.type.size > 1 or node.type.size == 1:
                near = self._readers.get(n, ())[-_CANDIDATES:]
                found.update(i for i in near if self._is_worth(node, self.groups[i]))
        return sorted(found, reverse=True)

    @staticmethod
    def _is_worth(node: Node, group: Group) -> bool:
        """Whether reading the same is a reason to join a group."""
        return len(group.members) < _MOST_ALIKE or (
            node.kind == "reduce" and domain_of(node) == group.domain and _may_cross(node, group))

    def _join(self, node: Node, reads: list[tuple[Node, Indices]], number: int) -> Group:
        group = self.groups[number]
        if node.kind == "reduce" and group.axes is None:
            group.axes, group.kind = tuple(node.params["axis"]), reduce_kind(node)
        group.members.append(node)
        group.work += self.work[node]
        self.home[node] = number
        for n in {n for n, _ in reads if n not in group.members} - group.reads:
            group.reads.add(n)
            self._readers.setdefault(n, []).append(number)
        self._note_needs(number, {self.home[n] for n, _ in reads if n in self.home} - {number})
        return group

    def _note_needs(self, number: int, others: set[int]) -> None:
        more = 0
        for other in others:
            more |= self._needs[other] | 1 << other
            self._needed |= 1 << other
        more &= ~self._needs[number]
        self._needs[number] |= more
        if more and self._needed >> number & 1:
            for i, needs in enumerate(self._needs):
                if needs >> number & 1:
                    self._needs[i] = needs | more

    def _refusal(self, node: Node, reads: list[tuple[Node, Indices]], number: int) -> str:
        """Why `node` cannot join a group; an empty text if it can."""
        group = self.groups[number]
        for kind, why in _ALONE.items():
            if kind in (node.kind, group.kind):
                return why
        if node.kind == "contract":
            return "a contraction begins a kernel of its own"
        why = _shape_refusal(node, group)
        if why:
            return why
        if group.work + self.work[node] > _LONGEST:
            return "the kernel is long already"
        where = group.variables()
        if node.kind != "reduce" and node.type.shape != group.domain:  # once per outer position
            own = reduced_index(node.type.shape, group, where)
            reads = reads_of(node, self.reads.placed, own)
        if len([m for m in group.members if m.kind == "reduce"]) >= _MOST_SUMS:
            return "the kernel has many reductions already"
        for n, index in reads:
            if n in group.members and (
                    group.crosses(n) or not own_element(n, index, group, where)):
                return f"it reads other elements of {n.op}"
        if group.kind == "contract" and _stored_anyway(group) and _extra_reads(node, reads, group):
            return "the product is stored anyway, and a sweep of its own is faster"
        outside = {self.home[n] for n, _ in reads if n in self.home} - {number}
        if any(self._needs[other] >> number & 1 for other in outside):
            return "something between them runs in another kernel"
        if node.type.size == 1 and self._waits(reads, outside, number):
            return "one would wait for what only the other needs"
        return ""

    def _waits(self, reads: list[tuple[Node, Indices]], outside: set[int], number: int) -> bool:
        """Whether a number would have to wait, or its kernel for it, only to spare reading a small
        array again: what reads the number could then not join what the others are made of."""
        needs = 0
        for other in outside:
            needs |= self._needs[other] | 1 << other
        group = self.groups[number]
        return product(group.domain) < _LARGE and needs != self._needs[number] \
            and all(n not in group.members for n, _ in reads)

    def in_order(self) -> list[Group]:
        """The groups, each after those it reads from."""
        done: dict[int, None] = {}
        stack = [(n, False) for n in reversed(range(len(self.groups)))]
        while stack:
            number, ready = stack.pop()
            if number in done:
                continue
            if ready:
                done[number] = None
                continue
            stack.append((number, True))
            before = {self.home[n] for n in self.groups[number].reads if n in self.home} - {number}
            stack.extend((n, False) for n in sorted(before, reverse=True))
        return [self.groups[n] for n in done]


def _new_group(node: Node) -> Group:
    domain = domain_of(node)
    if node.kind == "contract":
        return Group("contract", domain, ())
    if node.kind in _ALONE:
        return Group(node.kind, domain, None)
    if is_pieces(node):
        return Group("pieces", domain, None)
    if node.kind != "reduce":
        return Group("rows", domain, None)
    return Group(reduce_kind(node), domain, tuple(node.params["axis"]))


def reduce_kind(node: Node) -> str:
    """rows where the last axis longer than 1 is reduced, else columns. Many short rows are columns
    too: lanes run over the rows, and what is reduced is unrolled inside of each."""
    shape, axes = node.inputs[0].type.shape, node.params["axis"]
    length = 1
    for a in axes:
        length *= shape[a]
    if length <= SHORT and node.type.size >= 16 * SHORT:
        return "columns"
    last = max((i for i, n in enumerate(shape) if n != 1), default=len(shape) - 1)
    return "rows" if last in axes or not shape else "columns"


def _stored_anyway(group: Group) -> bool:
    return group.fan > 1


def _extra_reads(node: Node, reads: list[tuple[Node, Indices]], group: Group) -> bool:
    return any(n.type.shape == group.domain and n not in group.members for n, _ in reads)


def _shape_refusal(node: Node, group: Group) -> str:
    if group.kind == "pieces" or is_pieces(node):
        return "the pieces of a concat are written one by one"
    if node.kind == "reduce":
        if group.kind == "contract":
            return "sums over a contraction's result are not made in its epilogue"
        if domain_of(node) != group.domain:
            return f"its loops run over {domain_of(node)}, the kernel's over {group.domain}"
        if group.axes is None:
            plain = reduce_kind(node) == "rows" or len(group.members) == 0
            return "" if plain else "the kernel writes rows, it sums columns"
        fits = tuple(node.params["axis"]) == group.axes or _may_cross(node, group)
        return "" if fits else f"it reduces axes {node.params['axis']}, the kernel {group.axes}"
    if node.type.shape == group.domain:
        return {"columns": "the kernel sums columns", "rows": ""}.get(group.kind, "")
    if group.axes and is_reduced_shape(node.type.shape, group):
        return ""
    return f"its shape is {node.type.shape}, the kernel's {group.domain}"


def _may_cross(node: Node, group: Group) -> bool:
    """Whether sums over rows are made while rows are computed: where that spares reading a large
    array again, and what a task adds up is small beside what it reads."""
    rows = product(group.domain[i] for i in group.kept)
    leading = group.kept == tuple(range(len(group.kept)))
    return group.kind == "rows" and leading and tuple(node.params["axis"]) == group.kept \
        and rows >= _MANY_ROWS and _LARGE <= node.inputs[0].type.size <= rows * _LONGEST_ROW


def is_reduced_shape(shape: tuple[int, ...], group: Group) -> bool:
    """Whether a shape is the group's domain with its axes reduced, axes of size 1 left aside."""
    kept = [group.domain[i] for i in group.kept]
    return [n for n in shape if n != 1] == [n for n in kept if n != 1]


def reduced_index(shape: tuple[int, ...], group: Group, where: Indices) -> Indices:
    """The element of a reduced member that belongs to the loops' present position."""
    long = iter([where[i] for i in group.kept if group.domain[i] != 1])
    return tuple([0 if n == 1 else next(long) for n in shape])


def own_element(node: Node, index: Indices, group: Group, where: Indices) -> bool:
    full = node.type.shape == group.domain and node.kind != "reduce"
    own = where if full else reduced_index(node.type.shape, group, where)
    own = broadcast_index(own, node.type.shape)
    return len(index) == len(own) and all(
        Index.same(as_index(a), b) for a, b in zip(index, own))
