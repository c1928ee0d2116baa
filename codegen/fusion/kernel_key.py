"""What a group computes, apart from where its operands lie: groups of one form share their kernels.

A form numbers nodes and places in the order in which they are met. It leaves out where slices of
operands begin: the turns of a loop over `x[:, t]` read one array from different places on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...capture.graph.graph import Node, Nodes, missing_below
from ..ir.loop_ir import Buffer
from .fusion import Group, row_of

Start = tuple[int, ...]


@dataclass(frozen=True)
class BufferView:
    """A buffer from one of its elements on."""

    buffer: Buffer
    offset: int = 0


@dataclass
class KernelKey:
    """`key` is equal for groups that can share kernels; `places` has what differs between them, and
    `shifts` how far the starts of slices were moved for that."""

    key: Any
    places: list[BufferView]
    shifts: dict[Node, Start]


@dataclass
class _Operand:
    """A value in memory: its number among the places, and the slices that read it."""

    number: int
    whole: bool = False
    slices: list[Node] = field(default_factory=list)


def kernel_key_of(group: Group, places: Mapping[Node, BufferView]) -> KernelKey:
    """The form of a group whose operands and results lie at `places`."""
    return _Reader(group, places).form()


class _Reader:
    """Walks through what the members of a group are computed from."""

    def __init__(self, group: Group, places: Mapping[Node, BufferView]) -> None:
        self.group, self.given, self.members = group, places, set(group.members)
        self.numbers: dict[Node, int] = {}
        self.rows: list[Any] = []
        self.buffers: dict[BufferView, int] = {}
        self.places: list[BufferView] = []
        self.operands: dict[Node, _Operand] = {}

    def form(self) -> KernelKey:
        group = self.group
        for member in group.members:
            for node in missing_below(member, self.numbers, self._is_leaf):
                self.rows.append(self._row(node))
                self.numbers[node] = len(self.numbers)
        stored = tuple((self.numbers[m], self._place(self.given[m]))
                       for m in group.members if m in self.given)
        order = tuple(self.numbers[m] for m in group.members)
        shifts, starts = self._move_slices()
        key = (group.kind, group.domain, group.axes, group.layout, order, stored,
               tuple(self.rows), starts)
        return KernelKey(key, self.places, shifts)

    def _place(self, place: BufferView) -> int:
        if place not in self.buffers:
            self.buffers[place] = len(self.places)
            self.places.append(place)
        return self.buffers[place]

    def _is_leaf(self, node: Node) -> bool:
        return self._is_operand(node) or self._sliced(node) is not None

    def _is_operand(self, node: Node) -> bool:
        return node in self.given and node not in self.members

    def _sliced(self, node: Node) -> Node | None:
        """What a slice is a part of, where that lies in memory."""
        if node.op != "slice" or node in self.members or min(node.params["step"], default=1) < 1:
            return None
        source = flat_source(node.inputs[0], self._is_operand)
        return source if self._is_operand(source) else None

    def _row(self, node: Node) -> Any:
        if self._is_operand(node):
            operand = self._operand(node)
            operand.whole = True
            return "operand", operand.number, node.type
        source = self._sliced(node)
        if source is not None:
            operand = self._operand(source)
            operand.slices.append(node)
            return "slice", operand.number, node.params["step"], node.type, node.inputs[0].type
        return row_of(node, self.numbers)

    def _operand(self, node: Node) -> _Operand:
        if node not in self.operands:
            self.operands[node] = _Operand(self._place(self.given[node]))
        return self.operands[node]

    def _move_slices(self) -> tuple[dict[Node, Start], Any]:
        """Moves the slices of each operand to its first elements, and its place as far instead."""
        shifts: dict[Node, Start] = {}
        starts = []
        for operand in self.operands.values():
            by = self._common_start(operand)
            for node in operand.slices:
                starts.append(tuple(a - b for a, b in zip(node.params["start"], by)))
            if any(by):
                whole = operand.slices[0].inputs[0].type.shape
                place = self.places[operand.number]
                moved = BufferView(place.buffer, place.offset + offset_of(by, whole))
                self.places[operand.number] = moved
                shifts |= dict.fromkeys(operand.slices, by)
        return shifts, tuple(starts)

    def _common_start(self, operand: _Operand) -> Start:
        """The lowest place that the slices of an operand begin at; 0 where they must stay."""
        if not operand.slices:
            return ()
        lowest = tuple(map(min, zip(*(n.params["start"] for n in operand.slices))))
        same_source = len({n.inputs[0] for n in operand.slices}) == 1
        free = same_source and not operand.whole and not self._met_again(operand)
        return lowest if free else (0,) * len(lowest)

    def _met_again(self, operand: _Operand) -> bool:
        """Whether another value of the group has an operand's place: one overwrites the other."""
        values = [o.number for o in self.operands.values() if o is not operand]
        values += [self.buffers[self.given[m]] for m in self.members if m in self.given]
        return operand.number in values


def flat_source(node: Node, stop: Callable[[Node], bool]) -> Node:
    """What a node is a reshape of: the same elements in the same order."""
    while node.op == "reshape" and not stop(node):
        node = node.inputs[0]
    return node


def offset_of(start: Start, shape: tuple[int, ...]) -> int:
    """The position of an element in row-major memory."""
    total = 0
    for at, n in zip(start, shape):
        total = total * n + at
    return total


def shifted(group: Group, given: Mapping[Node, Any], shifts: Mapping[Node, Start]
            ) -> tuple[Group, dict[Node, Node]]:
    """The group with slices moved towards the start by `shifts`, and its new nodes by the old."""
    made, members = Nodes(), set(group.members)
    new: dict[Node, Node] = {}
    if not shifts:
        return group, new

    def outside(node: Node) -> bool:
        return node in given and node not in members

    for member in group.members:
        for node in missing_below(member, new, outside):
            new[node] = node if outside(node) else _moved(made, node, new, shifts.get(node, ()))
    return replace(group, members=[new[m] for m in group.members]), new


def _moved(made: Nodes, node: Node, new: Mapping[Node, Node], by: Start) -> Node:
    params = dict(node.params)
    if by:
        params["start"] = tuple(a - b for a, b in zip(params["start"], by))
    return made.make(node.op, [new[i] for i in node.inputs], params, node.type, node.site)
