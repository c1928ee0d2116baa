"""Lowers row scatter (rows written at indices known at run time) to GPU kernels.

    few rows    the thread group of a row checks if a later row has the same index
    many        rows are sorted by index, stably: the last row of each index is written

So no two threads write the same element, and of several rows for an index the last one wins.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import product
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scatter_rows import scatter_kernels, store_row_element, target_row
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, atom, counter
from ..ir.builder import ExprValue, call
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import (
    BOOL,
    INT,
    Assign,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Update,
    const,
)
from ..ir.sizes import Size, ceil_div, upper_bound
from ..ir.target_info import Machine
from .argsort import argsort_kernels
from .lower import lower
from .thread_mapping import WARP

MAX_COMPARED_ROWS = 1024  # each is compared with all later ones
MAX_GROUP_THREADS = 256
ELEMENTS_PER_THREAD = 4  # of a row


def lower_scatter_rows(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
                       ) -> list[Kernel]:
    """The kernels of a row scatter; none if its result is unused."""
    return scatter_kernels(group, buffers, machine, name, lower, _row_kernels)


def _row_kernels(node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> list[Kernel]:
    rows = RowScatter(node, buffers)
    if upper_bound(rows.count) <= MAX_COMPARED_ROWS:
        return [rows.compared_kernel(name)]
    return rows.sorted_kernels(machine, name)


class RowScatter:
    """The rows that are written, and the kernels that write them."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer]) -> None:
        self.node, self.buffers = node, buffers
        self.count = node.inputs[2].type.size
        self.width = product(node.type.shape[1:])
        self.inline = Inliner(memory_reader(buffers))

    def _kernel(self, name: str, var: loop_ir.Var, tasks: Size, body: tuple[Stmt, ...]
                ) -> Kernel:
        return Kernel(name, *buffers_of(body), (), var, tasks, body,
                      float(upper_bound(self.count * self.width)),
                      (self.node.site,) if self.node.site else ())

    def _same_index(self, n: Index, m: Index) -> ExprValue:
        """True where two rows have the same index."""
        indices = [target_row(self.node, self.inline, row).expr() for row in (n, m)]
        return ExprValue(loop_ir.call("eq", tuple(indices), BOOL))

    # ---- few rows
    def compared_kernel(self, name: str) -> Kernel:
        """The kernel for few rows: a thread group for each row, or for a part of a long one."""
        threads = min(MAX_GROUP_THREADS,
                      max(WARP, 1 << (-(-upper_bound(self.width) // ELEMENTS_PER_THREAD)
                                      - 1).bit_length()))
        size = threads * ELEMENTS_PER_THREAD
        parts = ceil_div(self.width, size)
        var, task = counter("task", self.count * parts)
        n, part = task // parts, task % parts
        overwritten_later = Register("later", BOOL)
        (lane, m), (column, c) = counter("m", self.count), counter("i", self.width)
        overwritten = Update(overwritten_later, "or", self._same_index(n, m).expr)
        write_row = For(column, *chunk_bounds(part, size, self.width),
                        (store_row_element(self.node, self.buffers, self.inline, n, c),), threads)
        is_last = loop_ir.call("not", (loop_ir.read(overwritten_later),), BOOL)
        body = (Assign(overwritten_later, const(False, BOOL)),
                For(lane, (n + 1).expr(), const(self.count), (overwritten,), threads),
                If(is_last, (write_row,)))
        return self._kernel(name, var, self.count * parts, body)

    # ---- many rows
    def sorted_kernels(self, machine: Machine, name: str) -> list[Kernel]:
        """The kernels for many rows: they sort the indices, then a thread writes each element."""
        order, sort_kernels = argsort_kernels(self.node.inputs[2], self.buffers, machine,
                                              f"{name}_order")
        return [*sort_kernels, self._write_sorted(name, order)]

    def _write_sorted(self, name: str, order: KernelBuffer) -> Kernel:
        """Writes each element unless the next row in sorted order has the same index."""
        total = self.count * self.width
        tasks = ceil_div(total, MAX_GROUP_THREADS)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        position = i // self.width
        is_end = position + 1 >= self.count
        next_position = atom(loop_ir.call("minimum", ((position + 1).expr(), const(self.count - 1)),
                                          INT), (0, self.count - 1))
        n, next_row = (self._row(order, at) for at in (position, next_position))
        is_last = call("or", is_end, call("not", self._same_index(n, next_row)))
        store = store_row_element(self.node, self.buffers, self.inline, n, i % self.width)
        loop = For(lane, *chunk_bounds(task, MAX_GROUP_THREADS, total),
                   (If(is_last.expr, (store,)),),
                   MAX_GROUP_THREADS)
        return self._kernel(name, var, tasks, (loop,))

    def _row(self, order: KernelBuffer, position: Index) -> Index:
        """The number of the row at a position of the sorted order."""
        return atom(loop_ir.load(order, position.expr()), (0, self.count - 1))
