"""Scans as kernels: along the axis one element after the other, across it side by side.

    something lies behind the axis: lanes along that, and the whole scan in each of them
    it is the last axis:            some rows at once, so that none has to wait for its own sums

Each element is combined with what those before it gave, in NumPy's order: the numbers are eager's.
Sums are carried in float64, so that the last ones are as right as the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import kind
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ...eager.ops.statistics.cumulative import scanned_in
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.builder import BUILDER, ExprValue, call, cast
from ..ir.inline import Indices, Inliner, flat, in_memory, unflat
from ..ir.loop_ir import Buffer, For, If, Kernel, Register, Stmt, const
from ..ir.scalar_ops import SCALAR
from ..ir.target_info import Machine
from .loop_body import identity
from .partition_work import bounds, buffers_of, chunks

_TASK = 8192  # elements that make a task worth while
_ROWS = 8  # rows at once: one sum takes as long as four additions that need not wait for it
_VECTORS = 4  # vectors at once


def lower_scan(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernel of a scan; none where it has no elements, or none that anybody reads."""
    scan = Scan(group, buffers, machine)
    if scan.node.type.size == 0 or scan.node not in buffers:
        return []
    across = scan.rows if scan.behind == 1 else scan.columns
    return [across(name)]


class Scan:
    """A scan by its axis; what lies in front of that and behind it is one axis each."""

    def __init__(self, group: Group, buffers: dict[Node, Buffer], machine: Machine) -> None:
        (self.node,) = group.members
        self.buffers, self.machine = buffers, machine
        self.shape, self.axis = self.node.type.shape, int(self.node.params["axis"])
        self.length = self.shape[self.axis]
        self.before = int(product(self.shape[:self.axis]))
        self.behind = int(product(self.shape[self.axis + 1:]))
        combine = OPS[self.node.op].meaning.combine
        self.wide = scanned_in(combine, self.node.type.dtype)

    def rows(self, name: str) -> Kernel:
        """Along the last axis: a task takes some blocks of rows."""
        height = 1 if self.machine.varies(self.before) else _ROWS
        whole, rest = divmod(self.before, height)
        number, block = counter("block", whole + (rest > 0))

        def some(count: int) -> tuple[Stmt, ...]:
            starts = [(block * height + i, as_index(0)) for i in range(count)]
            return tuple(self._chains(starts))

        body = some(height) if whole else some(rest)
        if whole and rest:
            here = [loop_ir.call(op, (block.expr(), const(whole)), loop_ir.BOOL) for op in ("lt",
                                                                                            "eq")]
            body = (If(here[0], body), If(here[1], some(rest)))
        return self._kernel(name, number, whole + (rest > 0), body)

    def columns(self, name: str) -> Kernel:
        """Along another axis: a task takes some blocks of lanes."""
        lanes = self.machine.lanes(max(4, self.wide.itemsize)) * _VECTORS
        lanes = max(2, min(lanes, 1 << (self.behind - 1).bit_length()))
        blocks = -(-self.behind // lanes)
        number, unit = counter("block", self.before * blocks)
        lane, i = counter("i", self.behind)
        limits = bounds(unit % blocks, lanes, self.behind)
        body = For(lane, *limits, tuple(self._chains([(unit // blocks, i)])), lanes)
        return self._kernel(name, number, self.before * blocks, (body,))

    def _kernel(self, name: str, number: loop_ir.Var, count: int, body: tuple[Stmt, ...]) -> Kernel:
        each = self.node.type.size // count
        smallest = 1 if self.machine.varies(each) else -(-_TASK // each)
        tasks, piece = chunks(count, smallest, self.machine)
        var, task = counter("task", tasks)
        whole = (For(number, *bounds(task, piece, count), body),)
        return Kernel(name, *buffers_of(whole), (), var, tasks, whole, float(self.node.type.size),
                      (self.node.site,) if self.node.site else ())

    def _chains(self, starts: Sequence[tuple[Index, Index]]) -> list[Stmt]:
        """Several scans side by side, each with its place before the axis and behind it."""
        var, k = counter("k", self.length)
        registers = [Register(f"s{i}", self.wide) for i in range(len(starts))]
        first = [loop_ir.Assign(r, loop_ir.const(self.start(), self.wide)) for r in registers]
        steps = [s for r, (before, behind) in zip(registers, starts)
                 for s in self._step(r, self.index(before, k, behind))]
        return [*first, For(var, const(0), const(self.length), tuple(steps))]

    def start(self) -> Any:
        """What leaves the first element as it is; of sums that may be -0.0."""
        plain = OPS[self.node.op].meaning.combine == "add" and kind(self.wide) == "f"
        return -0.0 if plain else identity(self.node)

    def index(self, before: Index, k: Index, behind: Index) -> Indices:
        """An element by its places before the axis, along it, and behind it."""
        return (*unflat(before, self.shape[:self.axis]), k,
                *unflat(behind, self.shape[self.axis + 1:]))

    def _step(self, register: Register, where: Indices) -> list[Stmt]:
        """One element further."""
        found = Inliner(in_memory(self.buffers, (self.node,))).value(self.node.inputs[0], where)
        value = self.combined(ExprValue(loop_ir.read(register)), cast(found, self.wide))
        at = flat(where, self.shape).expr()
        return [loop_ir.Assign(register, value.expr),
                loop_ir.Store(self.buffers[self.node], at, loop_ir.read(register))]

    def combined(self, old: ExprValue, new: ExprValue) -> Any:
        name = OPS[self.node.op].meaning.combine
        return call(name, old, new) if name in SCALAR else OPS[name].meaning(BUILDER, old, new)
