"""Lowers scans: sequential along the axis, side by side across it.

    inner axes follow:    lanes along the inner axes, and the whole scan in each lane
    it is the last axis:  several rows at once, so that none waits for its own sums

Each element is combined with the result of those before it, in NumPy's order, so that the numbers
equal eager's. Sums are carried in float64, so that the last ones are as exact as the first.
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
from ..ir.inline import Indices, Inliner, flatten, memory_reader, unflatten
from ..ir.loop_ir import For, If, Kernel, KernelBuffer, Register, Stmt, const
from ..ir.scalar_ops import SCALAR
from ..ir.sizes import Size, ceil_div, is_dynamic, upper_bound
from ..ir.target_info import Machine
from .loop_body import identity
from .partition_work import buffers_of, chunk_bounds, split_into_tasks

_MIN_ELEMENTS_PER_TASK = 8192
_ROWS_AT_ONCE = 8  # a dependent addition takes as long as four independent ones
_VECTORS_AT_ONCE = 4


def lower_scan(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernel of a scan; none where it has no elements or no reader."""
    scan = Scan(group, buffers, machine)
    if scan.node.type.size == 0 or scan.node not in buffers:
        return []
    across = scan.rows if scan.inner_size == 1 else scan.columns
    return [across(name)]


class Scan:
    """The lowering of one scan. The axes before the scanned one are one axis, and so are those
    after it."""

    def __init__(self, group: Group, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        (self.node,) = group.members
        self.buffers, self.machine = buffers, machine
        self.shape, self.axis = self.node.type.shape, int(self.node.params["axis"])
        self.length = self.shape[self.axis]
        self.outer_size = product(self.shape[:self.axis])
        self.inner_size = product(self.shape[self.axis + 1:])
        combine = OPS[self.node.op].meaning.combine
        self.accumulator = scanned_in(combine, self.node.type.dtype)

    def rows(self, name: str) -> Kernel:
        """The kernel of a scan along the last axis. A task takes some blocks of rows."""
        height = 1 if is_dynamic(self.outer_size) else _ROWS_AT_ONCE
        full_blocks, rest_rows = divmod(self.outer_size, height)
        number, block = counter("block", full_blocks + (rest_rows > 0))

        def scan_rows(count: int) -> tuple[Stmt, ...]:
            starts = [(block * height + i, as_index(0)) for i in range(count)]
            return tuple(self._chains(starts))

        body = scan_rows(height) if full_blocks else scan_rows(rest_rows)
        if full_blocks and rest_rows:
            conditions = [
                loop_ir.call(op, (block.expr(), const(full_blocks)), loop_ir.BOOL)
                for op in ("lt", "eq")
            ]
            body = (If(conditions[0], body), If(conditions[1], scan_rows(rest_rows)))
        return self._kernel(name, number, full_blocks + (rest_rows > 0), body)

    def columns(self, name: str) -> Kernel:
        """The kernel of a scan along another axis. A task takes some blocks of lanes."""
        lanes = self.machine.lanes(max(4, self.accumulator.itemsize)) * _VECTORS_AT_ONCE
        lanes = max(2, min(lanes, 1 << (upper_bound(self.inner_size) - 1).bit_length()))
        blocks = ceil_div(self.inner_size, lanes)
        block_var, block = counter("block", self.outer_size * blocks)
        lane, i = counter("i", self.inner_size)
        limits = chunk_bounds(block % blocks, lanes, self.inner_size)
        body = For(lane, *limits, tuple(self._chains([(block // blocks, i)])), lanes)
        return self._kernel(name, block_var, self.outer_size * blocks, (body,))

    def _kernel(self, name: str, number: loop_ir.Var, count: Size, body: tuple[Stmt, ...]
                ) -> Kernel:
        elements_per_block = max(1, upper_bound(self.node.type.size) // upper_bound(count))
        smallest = -(-_MIN_ELEMENTS_PER_TASK // elements_per_block)
        tasks, blocks_per_task = split_into_tasks(count, smallest, self.machine)
        var, task = counter("task", tasks)
        loops = (For(number, *chunk_bounds(task, blocks_per_task, count), body),)
        return Kernel(name, *buffers_of(loops), (), var, tasks, loops,
                      float(upper_bound(self.node.type.size)),
                      (self.node.site,) if self.node.site else ())

    def _chains(self, starts: Sequence[tuple[Index, Index]]) -> list[Stmt]:
        """Several scans side by side, each with its outer and its inner index."""
        var, k = counter("k", self.length)
        registers = [Register(f"s{i}", self.accumulator) for i in range(len(starts))]
        first = [loop_ir.Assign(r, loop_ir.const(self.start_value(), self.accumulator))
                 for r in registers]
        steps = [s for r, (outer, inner) in zip(registers, starts)
                 for s in self._step(r, self.index(outer, k, inner))]
        return [*first, For(var, const(0), const(self.length), tuple(steps))]

    def start_value(self) -> Any:
        """The value that leaves the first element as it is. For sums that may be -0.0 it is -0.0.
        """
        is_float_sum = OPS[self.node.op].meaning.combine == "add" and kind(self.accumulator) == "f"
        return -0.0 if is_float_sum else identity(self.node)

    def index(self, before: Index, k: Index, behind: Index) -> Indices:
        """The index of an element from its outer index, its position along the axis, and its inner
        index."""
        return (*unflatten(before, self.shape[:self.axis]), k,
                *unflatten(behind, self.shape[self.axis + 1:]))

    def _step(self, register: Register, where: Indices) -> list[Stmt]:
        """Statements that advance the scan by one element."""
        element = Inliner(memory_reader(self.buffers, (self.node,))).value(
            self.node.inputs[0], where
        )
        value = self.combined(ExprValue(loop_ir.read(register)), cast(element, self.accumulator))
        at = flatten(where, self.shape).expr()
        return [loop_ir.Assign(register, value.expr),
                loop_ir.Store(self.buffers[self.node], at, loop_ir.read(register))]

    def combined(self, old: ExprValue, new: ExprValue) -> Any:
        name = OPS[self.node.op].meaning.combine
        return call(name, old, new) if name in SCALAR else OPS[name].meaning(BUILDER, old, new)
