"""Computes structural keys of groups: groups with equal keys share their kernels.

A key numbers nodes and views in the order in which they are visited. It leaves out the offsets of
slices of operands: the iterations of a loop over `x[:, t]` read one array at different offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...capture.graph.graph import Node, Nodes, missing_below
from ...capture.graph.structure import canonical
from ..ir.loop_ir import KernelBuffer
from ..ir.sizes import has_dynamic_sizes, is_dynamic
from .fusion import Group

Start = tuple[int, ...]


@dataclass(frozen=True)
class BufferView:
    """A buffer, from element `offset` on."""

    buffer: KernelBuffer
    offset: int = 0


@dataclass
class KernelKey:
    """The key of a group, and the data that groups of one key do not share.

    `key` is equal for groups that can share kernels. `views` are the buffers of a group in the
    order of the key. `shifts` tells how far the starts of slices were moved into the offsets of the
    views."""

    key: Any
    views: list[BufferView]
    shifts: dict[Node, Start]


@dataclass
class _Operand:
    """A value in memory: the number of its view, and the slices that read it."""

    number: int
    whole: bool = False
    slices: list[Node] = field(default_factory=list)


def kernel_key_of(group: Group, views: Mapping[Node, BufferView]) -> KernelKey:
    """The key of a group whose operands and results are in these views."""
    return _MemberWalk(group, views).build()


class _MemberWalk:
    """Walks through the nodes from which the members of a group are computed."""

    def __init__(self, group: Group, views: Mapping[Node, BufferView]) -> None:
        self.group, self.memory, self.members = group, views, set(group.members)
        self.buffers: dict[BufferView, int] = {}
        self.views: list[BufferView] = []
        self.operands: dict[Node, _Operand] = {}

    def build(self) -> KernelKey:
        group = self.group
        rows, numbers = canonical(group.members, self._leaf)
        stored = tuple((numbers[m], self._view_number(self.memory[m]))
                       for m in group.members if m in self.memory)
        member_numbers = tuple(numbers[m] for m in group.members)
        shifts, starts = self._move_slices()
        key = (group.kind, group.domain, group.axes, group.layout, group.offset, member_numbers,
               stored, rows, starts)
        return KernelKey(key, self.views, shifts)

    def _view_number(self, view: BufferView) -> int:
        if view not in self.buffers:
            self.buffers[view] = len(self.views)
            self.views.append(view)
        return self.buffers[view]

    def _is_operand(self, node: Node) -> bool:
        return node in self.memory and node not in self.members

    def _slice_source(self, node: Node) -> Node | None:
        """The operand that a slice is read from, or None if it is not a slice of a value in memory.
        """
        if node.op != "slice" or node in self.members or min(node.params["step"], default=1) < 1:
            return None
        source = flat_source(node.inputs[0], self._is_operand)
        return source if self._is_operand(source) else None

    def _leaf(self, node: Node) -> Any:
        """The row of a value in memory, or of a slice of one; None for other nodes."""
        if self._is_operand(node):
            operand = self._operand(node)
            operand.whole = True
            return "operand", operand.number, node.type
        source = self._slice_source(node)
        if source is None:
            return None
        operand = self._operand(source)
        operand.slices.append(node)
        return "slice", operand.number, node.params["step"], node.type, node.inputs[0].type

    def _operand(self, node: Node) -> _Operand:
        if node not in self.operands:
            self.operands[node] = _Operand(self._view_number(self.memory[node]))
        return self.operands[node]

    def _move_slices(self) -> tuple[dict[Node, Start], Any]:
        """Moves the slices of each operand to its first elements, and its view by the same offset.
        """
        shifts: dict[Node, Start] = {}
        starts = []
        for operand in self.operands.values():
            by = self._common_start(operand)
            for node in operand.slices:
                starts.append(tuple(a - b for a, b in zip(node.params["start"], by)))
            if any(by):
                source_shape = operand.slices[0].inputs[0].type.shape
                view = self.views[operand.number]
                moved = BufferView(view.buffer, view.offset + offset_of(by, source_shape))
                self.views[operand.number] = moved
                shifts |= dict.fromkeys(operand.slices, by)
        return shifts, tuple(starts)

    def _common_start(self, operand: _Operand) -> Start:
        """The lowest start of the slices of an operand, or 0 where they cannot be moved."""
        if not operand.slices:
            return ()
        starts = [n.params["start"] for n in operand.slices]
        if has_dynamic_sizes(starts):
            return (0,) * len(starts[0])
        lowest = tuple(map(min, zip(*starts)))
        has_offset = not is_dynamic(offset_of(lowest, operand.slices[0].inputs[0].type.shape))
        same_source = len({n.inputs[0] for n in operand.slices}) == 1
        free = same_source and has_offset and not operand.whole and not self._is_aliased(operand)
        return lowest if free else (0,) * len(lowest)

    def _is_aliased(self, operand: _Operand) -> bool:
        """True if another value of the group has the operand's memory: one overwrites the other."""
        values = [o.number for o in self.operands.values() if o is not operand]
        values += [self.buffers[self.memory[m]] for m in self.members if m in self.memory]
        return operand.number in values


def flat_source(node: Node, stop: Callable[[Node], bool]) -> Node:
    """The node that this one is a reshape of, with the same elements in the same order."""
    while node.op == "reshape" and not stop(node):
        node = node.inputs[0]
    return node


def offset_of(start: Start, shape: tuple[int, ...]) -> int:
    """The position of an element in row-major memory."""
    total = 0
    for at, n in zip(start, shape):
        total = total * n + at
    return total


def shift_slices(group: Group, memory: Mapping[Node, Any], shifts: Mapping[Node, Start]
                 ) -> tuple[Group, dict[Node, Node]]:
    """The group with slices moved towards the start by `shifts`, and its new nodes by the old ones.
    """
    nodes, members = Nodes(), set(group.members)
    new: dict[Node, Node] = {}
    if not shifts:
        return group, new

    def outside(node: Node) -> bool:
        return node in memory and node not in members

    for member in group.members:
        for node in missing_below(member, new, outside):
            new[node] = node if outside(node) else _moved(nodes, node, new, shifts.get(node, ()))
    return replace(group, members=[new[m] for m in group.members]), new


def _moved(nodes: Nodes, node: Node, new: Mapping[Node, Node], by: Start) -> Node:
    params = dict(node.params)
    if by:
        params["start"] = tuple(a - b for a, b in zip(params["start"], by))
    return nodes.make(node.op, [new[i] for i in node.inputs], params, node.type, node.site)
