"""Groups the nodes of a graph into kernels.

A *materialized* node is a member of a group; all others are computed where they are read. Outputs,
contractions, their operands, and reductions are materialized, and so are values that several
readers would otherwise compute again. A group has a domain, the shape of its loops; every member is
an element of the domain, or of the domain with the group's `axes` reduced. A member reads other
members only at its own element, so the whole group is one pass over its domain.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...capture.graph.graph import Graph, Node, users
from ...capture.graph.structure import canonical
from ...eager.arrays.shapes import product
from ..ir.affine_index import Index, as_index, variable
from ..ir.builder import BUILDER, ExprValue
from ..ir.inline import Indices, Inliner, broadcast_index
from ..ir.sizes import Size, is_dynamic, upper_bound
from .materialize import (
    OWN_KERNEL_REFUSALS,
    choose_materialized,
    count_readers,
    is_preallocated,
    is_split_concat,
)

_MAX_REDUCTIONS_PER_KERNEL = 8  # each reduction can need another pass over the rows
MAX_UNROLLED_REDUCTION = 9  # elements
_MAX_OPS_PER_KERNEL = 1000  # so that the iterations of a loop become several equal kernels, not one
_MAX_READER_CANDIDATES = 8  # per value read
_LARGE_ARRAY_ELEMENTS = 1 << 18  # an array of so many elements is read once where possible
_MIN_ROWS_TO_OUTER_REDUCE, _MAX_ROW_TO_OUTER_REDUCE = 256, 1 << 14  # rows; elements of a row
_MAX_MEMBERS_TO_SHARE_READS = 8  # in larger kernels, a shared operand is no reason to fuse


@dataclass
class Group:
    """Nodes computed by one kernel. `axes`: the reduced axes, None without reductions."""

    # "pointwise"; "inner_reduce" or "outer_reduce": over the last axes or not, see `reduce_kind`;
    # "contract"; a kind of OWN_KERNEL_REFUSALS; or "split_concat", with a kernel for each operand
    kind: str
    domain: tuple[int, ...]
    axes: tuple[int, ...] | None
    members: list[Node] = field(default_factory=list)
    reads: set[Node] = field(default_factory=set)  # materialized nodes of other groups, and inputs
    refusals: list[str] = field(default_factory=list)
    reader_count: int = 1  # number of computations that read the first member
    work: float = 0  # simple operations of all members
    layout: tuple[Size, ...] = ()  # shape of the array that the results are a slice of, or empty
    offset: Size = 0  # the first of their elements in it

    @property
    def outer_axes(self) -> tuple[int, ...]:
        """The axes of the domain that are not reduced."""
        return tuple(i for i in range(len(self.domain)) if i not in (self.axes or ()))

    def is_outer_reduce(self, node: Node) -> bool:
        """True if a member is reduced over the rows, rather than along each of them."""
        return node.kind == "reduce" and tuple(node.params["axis"]) != self.axes

    def variables(self) -> Indices:
        """The loop variables of the domain."""
        return axis_variables(self.domain)


_AXES: dict[tuple[int, ...], Indices] = {}


def axis_variables(shape: tuple[int, ...]) -> Indices:
    """The loop variables of a domain; equal shapes give the same objects."""
    variables = _AXES.get(shape)
    if variables is None:  # another thread may have stored them
        variables = _AXES.setdefault(shape, tuple(variable(f"i{a}", n)
                                                  for a, n in enumerate(shape)))
    return variables


def fuse(graph: Graph, on_gpu: bool = False, stored: Collection[Node] = ()) -> list[Group]:
    """The groups of a graph, in an order in which they can run.

    `on_gpu`: the target is a GPU; `stored`: values to materialize in any case"""
    nodes = graph.nodes()
    readers, outputs = users(nodes), set(graph.outputs)
    reader_counts = count_readers(nodes, readers, outputs)
    materialized, work = choose_materialized(
        nodes, readers, outputs, reader_counts, on_gpu)
    materialized.update(stored)
    builder = GroupBuilder(Reads(materialized), work)
    for node in nodes:
        if node in materialized and not is_preallocated(node):
            group = builder.add(node)
            if len(group.members) == 1:
                group.reader_count = reader_counts[node]
    return builder.sorted_groups()


# ---- the reads of a node, and their elements
def domain_of(node: Node) -> tuple[int, ...]:
    """The shape of the loops that compute a node."""
    return node.inputs[0].type.shape if node.kind == "reduce" else node.type.shape


def reads_of(
    node: Node, materialized: Container[Node], element: Indices | None = None
) -> list[tuple[Node, Indices]]:
    """The materialized nodes that computing one element of `node` reads, each with the index read.

    `element` is the element computed; by default it is that of the node's own loops."""
    reads: list[tuple[Node, Indices]] = []

    def note_read(n: Node, index: Indices, mask: object) -> ExprValue | None:
        if n is node or n not in materialized:
            return None
        reads.append((n, tuple(as_index(i) for i in index)))
        return BUILDER.const(0, n.type.dtype) if n.type.dtype.kind != "i" else _opaque(n, index)

    inline = Inliner(note_read)
    at = axis_variables(domain_of(node)) if element is None else element
    if node.kind in ("contract", "sort", "composite") or is_split_concat(node):
        for n in node.inputs:
            inline.value(n, axis_variables(n.type.shape))
    elif node.kind in ("scatter_rows", "opaque"):
        for n in node.inputs:  # separate inliners: a node read by two operands is listed twice
            Inliner(note_read).value(n, axis_variables(n.type.shape))
    elif node.kind in ("reduce", "scan"):
        inline.value(node.inputs[0], at)
    else:
        inline.value(node, at)
    return reads


def _opaque(node: Node, index: Indices) -> ExprValue:
    """A stand-in for an integer read from memory. It may be used as an index."""
    from_memory = variable(f"x{id(node)}", 1 << 40)
    return ExprValue(from_memory.expr())


class Reads:
    """Caches `reads_of` for nodes that are computed in the same way."""

    def __init__(self, materialized: Container[Node]) -> None:
        self.materialized = materialized
        self._cache: dict[Any, list[tuple[int, Indices]]] = {}

    def of(self, node: Node) -> list[tuple[Node, Indices]]:
        """The materialized nodes that computing one element of `node` reads, each with the index
        read."""
        key, leaves = self._structure(node)
        cached = self._cache.get(key)
        if cached is None:
            number = {n: i for i, n in enumerate(leaves)}
            reads = reads_of(node, self.materialized)
            cached = self._cache[key] = [(number[n], index) for n, index in reads]
        return [(leaves[i], index) for i, index in cached]

    def _structure(self, root: Node) -> tuple[Any, list[Node]]:
        """A key of how a node is computed, and the materialized nodes that it reads."""
        def leaf(node: Node) -> Any:
            return node.type if node in self.materialized and node is not root else None

        rows, numbers = canonical([root], leaf)
        return rows, [n for n in numbers if leaf(n)]


# ---- fusing
class GroupBuilder:
    """The groups built so far, by number, and their dependencies."""

    def __init__(self, reads: Reads, work: Mapping[Node, float]) -> None:
        self.reads, self.work = reads, work
        self.groups: list[Group] = []
        self.group_of: dict[Node, int] = {}
        self._groups_reading: dict[Node, list[int]] = {}
        # a bit for every group that each one depends on, directly or not
        self._dependencies: list[int] = []
        self._depended_on = 0  # a bit for every group that another one depends on

    def add(self, node: Node) -> Group:
        """Adds `node` to a group that it can be fused with, or to a new one. Returns the group."""
        reads = self.reads.of(node)
        refusals = []
        for number in self._candidates(node, reads):
            refusal = self._refusal(node, reads, number)
            if not refusal:
                return self._add_to(node, reads, number)
            last = self.groups[number].members[-1]
            refusals.append(f"{node.op} ({node.site}) not with {last.op}: {refusal}")
        group = _new_group(node)
        group.refusals = refusals
        self.groups.append(group)
        self._dependencies.append(0)
        return self._add_to(node, reads, len(self.groups) - 1)

    def _candidates(self, node: Node, reads: list[tuple[Node, Indices]]) -> list[int]:
        """The groups that make an operand of the node or read the same operands, newest first."""
        candidates = {self.group_of[n] for n, _ in reads if n in self.group_of}
        for n, _ in reads:
            if upper_bound(n.type.size) > 1 or node.type.size == 1:
                recent_readers = self._groups_reading.get(n, ())[-_MAX_READER_CANDIDATES:]
                candidates.update(
                    i for i in recent_readers if self._saves_reads(node, self.groups[i])
                )
        return sorted(candidates, reverse=True)

    @staticmethod
    def _saves_reads(node: Node, group: Group) -> bool:
        """True if a shared operand is a reason to fuse."""
        return len(group.members) < _MAX_MEMBERS_TO_SHARE_READS or (
            node.kind == "reduce"
            and domain_of(node) == group.domain
            and _can_outer_reduce(node, group)
        )

    def _add_to(self, node: Node, reads: list[tuple[Node, Indices]], number: int) -> Group:
        group = self.groups[number]
        if node.kind == "reduce" and group.axes is None:
            group.axes, group.kind = tuple(node.params["axis"]), reduce_kind(node)
        group.members.append(node)
        group.work += self.work[node]
        self.group_of[node] = number
        for n in {n for n, _ in reads if n not in group.members} - group.reads:
            group.reads.add(n)
            self._groups_reading.setdefault(n, []).append(number)
        self._add_dependencies(number, {self.group_of[n] for n, _ in reads
                                        if n in self.group_of} - {number})
        return group

    def _add_dependencies(self, number: int, others: set[int]) -> None:
        added = 0
        for other in others:
            added |= self._dependencies[other] | 1 << other
            self._depended_on |= 1 << other
        added &= ~self._dependencies[number]
        self._dependencies[number] |= added
        if added and self._depended_on >> number & 1:
            for i, needs in enumerate(self._dependencies):
                if needs >> number & 1:
                    self._dependencies[i] = needs | added

    def _refusal(self, node: Node, reads: list[tuple[Node, Indices]], number: int) -> str:
        """The reason why `node` cannot be fused with a group, or an empty text if it can."""
        group = self.groups[number]
        for kind, refusal in OWN_KERNEL_REFUSALS.items():
            if kind in (node.kind, group.kind):
                return refusal
        if node.kind == "contract":
            return "a contraction begins a kernel of its own"
        refusal = _shape_refusal(node, group)
        if refusal:
            return refusal
        if group.work + self.work[node] > _MAX_OPS_PER_KERNEL:
            return "the kernel is long already"
        at = group.variables()
        if node.kind != "reduce" and node.type.shape != group.domain:  # once per outer position
            own = reduced_index(node.type.shape, group, at)
            reads = reads_of(node, self.reads.materialized, own)
        if len([m for m in group.members if m.kind == "reduce"]) >= _MAX_REDUCTIONS_PER_KERNEL:
            return "the kernel has many reductions already"
        for n, index in reads:
            if n in group.members and (
                    group.is_outer_reduce(n) or not reads_own_element(n, index, group, at)):
                return f"it reads other elements of {n.op}"
        if (
            group.kind == "contract"
            and _has_several_readers(group)
            and _extra_reads(node, reads, group)
        ):
            return "the product is stored anyway, and a sweep of its own is faster"
        outside = {self.group_of[n] for n, _ in reads if n in self.group_of} - {number}
        if any(self._dependencies[other] >> number & 1 for other in outside):
            return "something between them runs in another kernel"
        if node.type.size == 1 and self._would_serialize(reads, outside, number):
            return "one would wait for what only the other needs"
        return ""

    def _would_serialize(self, reads: list[tuple[Node, Indices]], outside: set[int],
                         number: int) -> bool:
        """True if fusing a scalar would delay it, or its group, only to save a small read.

        Readers of the scalar could then not be fused with the groups of its operands."""
        dependencies = 0
        for other in outside:
            dependencies |= self._dependencies[other] | 1 << other
        group = self.groups[number]
        return (
            upper_bound(product(group.domain)) < _LARGE_ARRAY_ELEMENTS
            and dependencies != self._dependencies[number]
            and all(n not in group.members for n, _ in reads)
        )

    def sorted_groups(self) -> list[Group]:
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
            dependencies = {self.group_of[n] for n in self.groups[number].reads
                            if n in self.group_of} - {number}
            stack.extend((n, False) for n in sorted(dependencies, reverse=True))
        return [self.groups[n] for n in done]


def _new_group(node: Node) -> Group:
    domain = domain_of(node)
    if node.kind == "contract":
        return Group("contract", domain, ())
    if node.kind in OWN_KERNEL_REFUSALS:
        return Group(node.kind, domain, None)
    if is_split_concat(node):
        return Group("split_concat", domain, None)
    if node.kind != "reduce":
        return Group("pointwise", domain, None)
    return Group(reduce_kind(node), domain, tuple(node.params["axis"]))


def reduce_kind(node: Node) -> str:
    """"inner_reduce" where the last axis longer than 1 is reduced, else "outer_reduce".

    Many short rows are "outer_reduce" too: lanes run over the rows, and the reduction is unrolled
    in each lane."""
    shape, axes = node.inputs[0].type.shape, node.params["axis"]
    length = 1
    for a in axes:
        length *= shape[a]
    is_short = not is_dynamic(length) and length <= MAX_UNROLLED_REDUCTION
    if is_short and upper_bound(node.type.size) >= 16 * MAX_UNROLLED_REDUCTION:
        return "outer_reduce"
    last = max((i for i, n in enumerate(shape) if n != 1), default=len(shape) - 1)
    return "inner_reduce" if last in axes or not shape else "outer_reduce"


def _has_several_readers(group: Group) -> bool:
    return group.reader_count > 1


def _extra_reads(node: Node, reads: list[tuple[Node, Indices]], group: Group) -> bool:
    return any(n.type.shape == group.domain and n not in group.members for n, _ in reads)


def _shape_refusal(node: Node, group: Group) -> str:
    if group.kind == "split_concat" or is_split_concat(node):
        return "the operands of a concat are written one by one"
    if node.kind == "reduce":
        if group.kind == "contract":
            return "sums over a contraction's result are not made in its epilogue"
        if domain_of(node) != group.domain:
            return f"its loops run over {domain_of(node)}, the kernel's over {group.domain}"
        if group.axes is None:
            fits = reduce_kind(node) == "inner_reduce" or len(group.members) == 0
            return "" if fits else "the kernel is pointwise, it reduces outer axes"
        fits = tuple(node.params["axis"]) == group.axes or _can_outer_reduce(node, group)
        return "" if fits else f"it reduces axes {node.params['axis']}, the kernel {group.axes}"
    if node.type.shape == group.domain:
        return "the kernel reduces outer axes" if group.kind == "outer_reduce" else ""
    if group.axes and is_reduced_shape(node.type.shape, group):
        return ""
    return f"its shape is {node.type.shape}, the kernel's {group.domain}"


def _can_outer_reduce(node: Node, group: Group) -> bool:
    """True if sums over rows can be made while rows are computed.

    That is done where it saves a second read of a large array, and where the sums of a task are
    small beside its input."""
    rows = upper_bound(product(group.domain[i] for i in group.outer_axes))
    elements = upper_bound(node.inputs[0].type.size)
    leading = group.outer_axes == tuple(range(len(group.outer_axes)))
    return (
        group.kind == "inner_reduce"
        and leading
        and tuple(node.params["axis"]) == group.outer_axes
        and rows >= _MIN_ROWS_TO_OUTER_REDUCE
        and _LARGE_ARRAY_ELEMENTS <= elements <= rows * _MAX_ROW_TO_OUTER_REDUCE
    )


def is_reduced_shape(shape: tuple[int, ...], group: Group) -> bool:
    """True if a shape is the group's domain with its axes reduced, axes of size 1 disregarded."""
    outer_sizes = [group.domain[i] for i in group.outer_axes]
    return [n for n in shape if n != 1] == [n for n in outer_sizes if n != 1]


def reduced_index(shape: tuple[int, ...], group: Group, where: Indices) -> Indices:
    """The element of a reduced member at the position `where` of the loops."""
    outer = iter([where[i] for i in group.outer_axes if group.domain[i] != 1])
    return tuple([0 if n == 1 else next(outer) for n in shape])


def reads_own_element(node: Node, index: Indices, group: Group, where: Indices) -> bool:
    """True if `index` is the element of a member at the position `where` of the loops."""
    is_full = node.type.shape == group.domain and node.kind != "reduce"
    own = where if is_full else reduced_index(node.type.shape, group, where)
    own = broadcast_index(own, node.type.shape)
    return len(index) == len(own) and all(
        Index.equals(as_index(a), b) for a, b in zip(index, own))
