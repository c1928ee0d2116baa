"""Defines the loop nest of a pointwise or reduction group, and the kernel around its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, counter
from ..ir.blocked_sums import MAX_SEQUENTIAL_ADDS, TOTAL_DTYPE, SumBlocker, block_sums
from ..ir.loop_ir import For, Kernel, KernelBuffer, Register, Stmt, Var, const
from ..ir.sizes import Size, is_dynamic, upper_bound
from ..ir.target_info import Machine
from .loop_body import LoopAxes, LoopBody, decode, identity
from .partition_work import buffers_of, chunk_bounds, sites_of, split_into_tasks
from .prefetch import add_prefetches

MIN_ELEMENTS_PER_TASK = 8192  # of cheap operations; costly elements need fewer
_MIN_TASK_NS = 4000  # for costly elements


@dataclass
class LoopNest:
    """A group, and everything known about it when its loops are made."""

    group: Group
    body: LoopBody
    axes: LoopAxes
    machine: Machine
    name: str
    cost: float  # simple operations per element
    vectors: int  # the number of vectors that a lane loop takes at once

    @property
    def lanes(self) -> int:
        widest = max((summed_in(n.type.dtype).itemsize for n in self.group.members), default=4)
        return self.machine.lanes(min(4, widest) if widest < 8 else 8)

    def lanes_for(self, size: int, vectors: int = 1) -> int:
        """Lanes for a loop of `size`: at most its iterations, rounded up to a power of two."""
        return max(2, min(vectors * self.lanes, 1 << (upper_bound(size) - 1).bit_length()))

    def lanes_in_flight(self, size: int) -> int:
        """Lanes for a loop of `size` independent iterations.

        Several vectors hide latency, but no more are taken than the last iteration can fill."""
        vectors = 1 if is_dynamic(size) else self.vectors
        while vectors > 1 and size % (vectors * self.lanes) and size < 4 * vectors * self.lanes:
            vectors //= 2
        return self.lanes_for(size, vectors)

    @property
    def elements_per_task(self) -> int:
        """The smallest number of elements per task."""
        return min(MIN_ELEMENTS_PER_TASK, round(_MIN_TASK_NS / self.nanoseconds(1)))

    def chunks_per_task(self, elements: int) -> int:
        """The smallest number of chunks of `elements` elements per task."""
        return max(1, self.elements_per_task // max(1, upper_bound(elements)))

    def nanoseconds(self, elements: int) -> float:
        """The approximate time of `elements` elements, or of the most that there can be."""
        return upper_bound(elements) * max(self.cost, 1) / (2.5 * self.machine.lanes())

    @property
    def outer_size(self) -> Size:
        return product(map(self.axes.size, self.axes.outer))  # type: ignore[no-any-return]

    @property
    def inner_size(self) -> Size:
        return product(map(self.axes.size, self.axes.inner))  # type: ignore[no-any-return]


def kernel(nest: LoopNest, var: Var, tasks: Size, body: Sequence[Stmt], name: str = "") -> Kernel:
    """The kernel around a body, with the buffers that the body reads and writes."""
    reads, writes = buffers_of(tuple(body))
    elements = nest.outer_size * nest.inner_size
    if not is_dynamic(elements):
        body = add_prefetches(body, max(1, elements), max(1, nest.inner_size))
    body = block_sums(body)
    scratch = (*nest.body.row_caches.values(), *nest.body.column_sums.values())
    return Kernel(name or nest.name, reads, writes, scratch, var, tasks, tuple(body),
                  nest.nanoseconds(elements), sites_of(nest.group.members))


def identities(nest: LoopNest) -> Kernel:
    """The kernel of reductions over no elements: each result is its start value."""
    var, _ = counter("task", 1)
    position, o = counter("o", nest.outer_size)
    outer = decode(o, [(r, nest.axes.size(r)) for r in nest.axes.outer])
    body: list[Stmt] = []
    for i in range(len(nest.body.sweeps)):
        body += [*nest.body.init_sums(i), *nest.body.finish_sweep(i, nest.axes.where(outer))]
    return kernel(nest, var, 1, [For(position, const(0), const(nest.outer_size), tuple(body))])


def lower_with_column_sums(nest: LoopNest, var: Var, task: Index, tasks: int, rows: For, lanes: int
                           ) -> list[Kernel]:
    """The kernels of rows with sums over them: one with sums per task, and one that adds these up
    in order."""
    columns, width = nest.body.column_sums, nest.inner_size
    task_sums = {n: KernelBuffer(f"{nest.name}_{b.name}", b.dtype, tasks * width)
                 for n, b in columns.items()}
    lane, k = counter("k", width)
    index = (task * width + k).expr()
    totals = _column_totals(nest, rows)
    accumulators = columns | totals
    before_block, after_block = _row_block_statements(columns, totals, lane)
    init = [
        loop_ir.Store(b, lane, loop_ir.const(identity(n), b.dtype)) for n, b in accumulators.items()
    ]
    save = [
        loop_ir.Store(task_sums[n], index, loop_ir.load(b, lane)) for n, b in accumulators.items()
    ]
    around = [[_row_loop(nest, lane, s, lanes)] if s else [] for s in (before_block, after_block)]
    blocks = SumBlocker().split_into_blocks(rows, MAX_SEQUENTIAL_ADDS,
                                                        *around) if totals else [rows]
    statements = [_row_loop(nest, lane, init, lanes), *blocks, _row_loop(nest, lane, save, lanes)]
    lowered = kernel(nest, var, tasks, statements)
    lowered = replace(lowered, scratch=(*lowered.scratch, *totals.values()))
    return [lowered, _task_sums_kernel(nest, task_sums, tasks)]


def _column_totals(nest: LoopNest, rows: For) -> dict[Node, KernelBuffer]:
    """Float64 buffers for sums over many rows, to which blocks of rows are added."""
    if SumBlocker().max_iterations(rows) <= MAX_SEQUENTIAL_ADDS:
        return {}
    return {n: KernelBuffer(f"{b.name}_total", TOTAL_DTYPE, b.size, scratch=True)
            for n, b in nest.body.column_sums.items()
            if b.dtype.kind == "f" and OPS[n.op].meaning.combine == "add"}


def _row_block_statements(columns: dict[Node, KernelBuffer], totals: dict[Node, KernelBuffer],
                          lane: Var
                          ) -> tuple[list[Stmt], list[Stmt]]:
    """The statements before and after each block of rows."""
    clear: list[Stmt] = []
    fold: list[Stmt] = []
    for n, total in totals.items():
        column_sum = columns[n]
        clear.append(loop_ir.Store(column_sum, lane, loop_ir.const(identity(n), column_sum.dtype)))
        value = loop_ir.call("cast", (loop_ir.load(column_sum, lane),), TOTAL_DTYPE)
        both = loop_ir.call("add", (loop_ir.load(total, lane), value), TOTAL_DTYPE)
        fold.append(loop_ir.Store(total, lane, both))
    return clear, fold


def _row_loop(nest: LoopNest, lane: Var, body: Sequence[Stmt], lanes: int) -> For:
    return For(lane, const(0), const(nest.inner_size), tuple(body), lanes)


def _task_sums_kernel(nest: LoopNest, task_sums: dict[Node, KernelBuffer], count: int) -> Kernel:
    """The second kernel: for each column the sum of the tasks' sums."""
    blocks, block = split_into_tasks(nest.inner_size, 4 * nest.lanes, nest.machine)
    var, task = counter("task", blocks)
    lane, i = counter("i", nest.inner_size)
    number, p = counter("p", count)
    body: list[Stmt] = []
    for n, sums in task_sums.items():
        total = Register(sums.name, sums.dtype)
        term = loop_ir.load(sums, (p * nest.inner_size + i).expr())
        add = loop_ir.Update(total, OPS[n.op].meaning.combine, term)
        body += [loop_ir.Assign(total, loop_ir.const(identity(n), sums.dtype)),
                 For(number, const(0), const(count), (add,), 0, 4),
                 loop_ir.Store(nest.body.buffers[n], lane, loop_ir.read(total))]
    loop = For(lane, *chunk_bounds(task, block, nest.inner_size), tuple(body),
               nest.lanes_for(block))
    lowered = kernel(nest, var, blocks, [loop], nest.name + "_total")
    share = upper_bound(count) / upper_bound(nest.outer_size)
    return replace(lowered, scratch=(), cost=lowered.cost * share)
