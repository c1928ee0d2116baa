"""Lowers scans to GPU kernels.

    along the last axis     a thread group for each row, block by block: a thread combines some
                            neighbours, then the threads combine their sums in log2(threads) steps,
                            and the carry of earlier blocks is combined with each result
    along other axes        a thread for each column, one element after the other

Few long rows or columns are split into chunks: one kernel combines each chunk to one value, a
scan of these gives the carry-in of each chunk, and a third kernel scans each chunk from there.
Earlier elements stay on the left of every combination, so results differ from eager's only by
the rounding of floats. The order depends on sizes alone. A sum of numbers of one sign may
decrease by a bit between the elements of two threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...capture.graph.graph import Node
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scan import Scan
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.builder import ExprValue, cast
from ..ir.inline import Inliner, flatten, memory_reader
from ..ir.loop_ir import Assign, Expr, For, If, Kernel, KernelBuffer, Register, Stmt, Store, const
from ..ir.sizes import Size, ceil_div, is_multiple, least, upper_bound
from ..ir.target_info import Machine
from .thread_mapping import WARP

MAX_ROW_OF_THREAD = 16  # elements
VECTOR_BYTES = 16  # of one access of a thread
MAX_GROUP_THREADS = 256  # the largest group
MIN_GROUPS = 1024  # that keep every processor busy
MIN_CHUNK = 64  # elements of a column

ElementPosition = tuple[Index, Index, Index]  # of an element: before the axis, along it, behind it


@dataclass(frozen=True)
class ScanElements:
    """The elements along a scanned axis of `length`: how they are read, and how results are
    stored."""

    length: int
    read: Callable[[ElementPosition], ExprValue]
    write: Callable[[ElementPosition, Expr], Stmt]


@dataclass(frozen=True)
class ScanChunks:
    """An axis split into `count` chunks of `size` elements.

    With `total`, a kernel stores the combination of each chunk there instead of results. With
    `before`, it reads the carry-in of each chunk from there."""

    count: Size
    size: Size
    total: KernelBuffer | None = None
    before: KernelBuffer | None = None


def lower_scan(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
               ) -> list[Kernel]:
    """The kernels of a scan; none if it has no elements or its result is unused."""
    scan = BlockScan(group, buffers, machine)
    if scan.node.type.size == 0 or scan.node not in buffers:
        return []
    return scan.kernels(name)


class BlockScan(Scan):
    """A scan and its kernels for thread groups."""

    def __init__(self, group: Group, buffers: dict[Node, KernelBuffer], machine: Machine) -> None:
        super().__init__(group, buffers, machine)
        self.by_rows = self.inner_size == 1 and upper_bound(self.length) > MAX_ROW_OF_THREAD
        self.lines = self.outer_size * self.inner_size
        self.per_thread = max(1, VECTOR_BYTES // self.node.type.dtype.itemsize)
        self.identity = ExprValue(const(self.start_value(), self.accumulator))

    def kernels(self, name: str) -> list[Kernel]:
        """The kernels of the whole scan."""
        elements, chunks = ScanElements(self.length, self._read, self._write), self._choose_chunks()
        if chunks.count == 1:
            return [self._chunk_kernel(name, elements, chunks)]
        size = chunks.count * self.lines
        total, before = (KernelBuffer(f"{name}_{part}", self.accumulator, size)
                         for part in ("part", "before"))
        return [self._chunk_kernel(f"{name}_part", elements,
                                   ScanChunks(chunks.count, chunks.size, total=total)),
                self._chunk_kernel(f"{name}_sum", self._chunk_totals(total, before, chunks.count),
                                   ScanChunks(1, chunks.count)),
                self._chunk_kernel(name, elements,
                                   ScanChunks(chunks.count, chunks.size, before=before))]

    def _choose_chunks(self) -> ScanChunks:
        length, lines = upper_bound(self.length), upper_bound(self.lines)
        if self.by_rows:
            block_size = self._threads(length) * self.per_thread
            split = lines < MIN_GROUPS // 4 and length >= 4 * block_size
            size = block_size * max(1, -(-length // (MIN_GROUPS * block_size)))
        else:
            split = lines < MIN_GROUPS * WARP and length >= 2 * MIN_CHUNK
            max_chunks = min(length // MIN_CHUNK, 2 * MIN_GROUPS * WARP // lines)
            size = -(-length // max(1, min(max_chunks, math.isqrt(length))))
        return ScanChunks(ceil_div(self.length, size), size) if split else \
            ScanChunks(1, self.length)

    def _chunk_kernel(self, name: str, elements: ScanElements, chunks: ScanChunks) -> Kernel:
        lower = self._group_kernel if self.by_rows else self._thread_kernel
        var, tasks, body, scratch = lower(elements, chunks)
        return Kernel(name, *buffers_of(body), scratch, var, tasks, body,
                      float(upper_bound(self.lines * elements.length)),
                      (self.node.site,) if self.node.site else ())

    # ---- elements
    def _read(self, position: ElementPosition) -> ExprValue:
        inline = Inliner(memory_reader(self.buffers, (self.node,)))
        return cast(inline.value(self.node.inputs[0], self.index(*position)), self.accumulator)

    def _write(self, position: ElementPosition, value: Expr) -> Stmt:
        at = flatten(self.index(*position), self.shape).expr()
        return Store(self.buffers[self.node], at, value)

    def _chunk_totals(self, total: KernelBuffer, before: KernelBuffer, count: Size) -> ScanElements:
        """The combinations of the chunks, as the elements of another scan."""
        def at(position: ElementPosition) -> Expr:
            return self.chunk_offset(position[0] * self.inner_size + position[2], position[1],
                                     count).expr()

        return ScanElements(count, lambda position: ExprValue(loop_ir.load(total, at(position))),
                            lambda position, value: Store(before, at(position), value))

    def chunk_offset(self, line: Index, chunk: Index, count: Size) -> Index:
        """The index of a chunk's value, such that a thread group reads contiguous values."""
        return line * count + chunk if self.by_rows else chunk * self.lines + line

    def _carry_in(self, chunks: ScanChunks, line: Index, chunk: Index) -> ExprValue:
        """The combination of all elements before a chunk."""
        if chunks.before is None:
            return self.identity
        at = self.chunk_offset(line, chunk, chunks.count)
        previous = self.chunk_offset(as_index(0), as_index(1), chunks.count)
        has_previous = (chunk > 0).expr
        return ExprValue(loop_ir.load(chunks.before, (at - previous).expr(), has_previous,
                                      self.identity.expr))

    # ---- a thread for each column
    def _thread_kernel(self, elements: ScanElements, chunks: ScanChunks
                       ) -> tuple[loop_ir.Var, int, tuple[Stmt, ...], tuple[KernelBuffer, ...]]:
        total = self.lines * chunks.count
        is_small = upper_bound(total) < MIN_GROUPS * MAX_GROUP_THREADS
        threads = WARP if is_small else MAX_GROUP_THREADS
        tasks = ceil_div(total, threads)
        var, task = counter("task", tasks)
        lane, unit = counter("i", total)
        chunk, line = unit // self.lines, unit % self.lines
        one = self._column(elements, chunks, line, chunk)
        return var, tasks, (For(lane, *chunk_bounds(task, threads, total), one, threads),), ()

    def _column(self, elements: ScanElements, chunks: ScanChunks, line: Index,
                chunk: Index) -> tuple[Stmt, ...]:
        running = Register("s", self.accumulator)
        var, k = counter("k", elements.length)
        position = (line // self.inner_size, k, line % self.inner_size)
        step: list[Stmt] = [Assign(running, self.combined(
            ExprValue(loop_ir.read(running)), elements.read(position)).expr)]
        if chunks.total is None:
            step.append(elements.write(position, loop_ir.read(running)))
        body: list[Stmt] = [Assign(running, self._carry_in(chunks, line, chunk).expr),
                            For(var, *chunk_bounds(chunk, chunks.size, elements.length),
                                tuple(step), 0,
                                4)]
        if chunks.total is not None:
            at = self.chunk_offset(line, chunk, chunks.count).expr()
            body.append(Store(chunks.total, at, loop_ir.read(running)))
        return tuple(body)

    # ---- a thread group for each row
    def _threads(self, length: Size) -> int:
        """The threads of a group for this many elements."""
        return min(MAX_GROUP_THREADS,
                   max(WARP, 1 << (-(-upper_bound(length) // self.per_thread) - 1).bit_length()))

    def _group_kernel(self, elements: ScanElements, chunks: ScanChunks
                      ) -> tuple[loop_ir.Var, int, tuple[Stmt, ...], tuple[KernelBuffer, ...]]:
        tasks = self.lines * chunks.count
        var, task = counter("task", tasks)
        line, chunk = task // chunks.count, task % chunks.count
        row = _RowScan(self, elements, chunks, line, chunk, self._threads(elements.length))
        return var, tasks, tuple(row.body(self._carry_in(chunks, line, chunk))), row.scratch


class _RowScan:
    """The scan of one chunk of a row by a thread group.

    A thread moves its neighbours as one vector where rows are aligned for that. Elsewhere
    elements go through shared memory, so that the threads' accesses are contiguous."""

    def __init__(self, scan: BlockScan, elements: ScanElements, chunks: ScanChunks, line: Index,
                 chunk: Index, threads: int) -> None:
        self.scan, self.elements, self.chunks = scan, elements, chunks
        self.line, self.chunk = line, chunk
        self.threads, self.per_thread = threads, scan.per_thread
        self.is_aligned = is_multiple(elements.length, scan.per_thread)
        self.carry = Register("carry",
                              scan.accumulator)  # the combination of all elements before the block
        self.staged = KernelBuffer("own", scan.accumulator, threads * self.per_thread, scratch=True)
        self.sums = [KernelBuffer(name, scan.accumulator, threads, scratch=True) for name in ("sum",
                                                                                        "sum2")]

    @property
    def scratch(self) -> tuple[KernelBuffer, ...]:
        needed = self.chunks.total is None or not self.is_aligned
        return (*((self.staged,) if needed else ()), *self.sums)

    def body(self, carry_in: ExprValue) -> list[Stmt]:
        count = self.threads * self.per_thread
        blocks = ceil_div(least(self.chunks.size, self.elements.length), count)
        var, block = counter("block", blocks)
        block = as_index(0) if blocks == 1 else block
        first = self.chunk * self.chunks.size + block * count
        block_body = self._block(first)
        loop: list[Stmt] = [For(var, const(0), const(blocks),
                                tuple(block_body))] if blocks != 1 else block_body
        if self.chunks.total is not None:
            at = self.scan.chunk_offset(self.line, self.chunk, self.chunks.count).expr()
            loop = [*loop, Store(self.chunks.total, at, loop_ir.read(self.carry))]
        return [Assign(self.carry, carry_in.expr), *loop]

    def _block(self, first: Index) -> list[Stmt]:
        """The scan of one block: some neighbours of each thread, starting at `first`."""
        steps = (self.threads - 1).bit_length()
        sums, combine = self.sums[steps % 2], self.scan.combined
        block_total = loop_ir.load(sums, const(self.threads - 1))
        store = self._store_results if self.is_aligned else self._store_block
        results = [] if self.chunks.total else [store(first, sums)]
        loads = [] if self.is_aligned else [self._load_block(first)]
        return [*loads, self._thread_sums(first), *map(self._step, range(steps)), *results,
                Assign(self.carry,
                       combine(ExprValue(loop_ir.read(self.carry)), ExprValue(block_total)).expr)]

    def _lanes(self, lane: loop_ir.Var, body: list[Stmt]) -> For:
        return For(lane, const(0), const(self.threads), tuple(body), self.threads)

    def _thread_sums(self, first: Index) -> For:
        """Each thread combines its own elements."""
        (lane, t), (var, n) = counter("t", self.threads), counter("n", self.per_thread)
        total, at = Register("s", self.scan.accumulator), t * self.per_thread + n
        element = self.elements.read((self.line, first + at, as_index(0))) if self.is_aligned \
            else ExprValue(loop_ir.load(self.staged, at.expr()))
        step: list[Stmt] = [Assign(total, self.scan.combined(
            ExprValue(loop_ir.read(total)), element).expr)]
        if self.chunks.total is None:
            step.append(Store(self.staged, at.expr(), loop_ir.read(total)))
        return self._lanes(lane, [
            Assign(total, self.scan.identity.expr), self._thread_elements(first, t, var, step),
            Store(self.sums[0], t.expr(), loop_ir.read(total))])

    def _thread_elements(self, first: Index, t: Index, var: loop_ir.Var, body: list[Stmt]) -> Stmt:
        """The statements for each element of a thread, bounded by the end of the row."""
        loop = For(var, const(0), const(self.per_thread), tuple(body), 0, self.per_thread)
        inside = first + t * self.per_thread < self.elements.length
        return If(inside.expr, (loop,)) if self.is_aligned and inside is not True else loop

    # ---- through shared memory
    def _for_each_element(self, first: Index, body: Callable[[Index, Index], list[Stmt]]) -> For:
        """A lane loop over the elements of a block."""
        count = self.threads * self.per_thread
        lane, u = counter("u", count)
        return For(lane, const(0), const(count), tuple(body(u, first + u)), self.threads)

    def _load_block(self, first: Index) -> For:
        """Loads the elements of a block; those beyond the row are the identity."""
        def load_one(u: Index, k: Index) -> list[Stmt]:
            value = Register("own", self.scan.accumulator)
            load = Assign(value, self.elements.read((self.line, k, as_index(0))).expr)
            inside = k < self.elements.length
            return [Assign(value, self.scan.identity.expr),
                    load if inside is True else If(inside.expr, (load,)),
                    Store(self.staged, u.expr(), loop_ir.read(value))]

        return self._for_each_element(first, load_one)

    def _store_block(self, first: Index, sums: KernelBuffer) -> For:
        """Stores the results, element by element."""
        def store_one(u: Index, k: Index) -> list[Stmt]:
            combine = self.scan.combined
            before = combine(ExprValue(loop_ir.read(self.carry)),
                             self._sum(sums, u // self.per_thread, 1))
            local_sum = ExprValue(loop_ir.load(self.staged, u.expr()))
            result = self.elements.write((self.line, k, as_index(0)),
                                         combine(before, local_sum).expr)
            inside = k < self.elements.length
            return [result if inside is True else If(inside.expr, (result,))]

        return self._for_each_element(first, store_one)

    # ---- combination of the threads' sums
    def _step(self, step: int) -> For:
        """Each thread's sum is combined with the sum of the thread 2 ** step before it."""
        lane, t = counter("t", self.threads)
        source, target = self.sums[step % 2], self.sums[(step + 1) % 2]
        value = self.scan.combined(self._sum(source, t, 1 << step),
                                   ExprValue(loop_ir.load(source, t.expr())))
        return self._lanes(lane, [Store(target, t.expr(), value.expr)])

    def _sum(self, sums: KernelBuffer, t: Index, distance: int) -> ExprValue:
        """The sum of the thread `distance` before thread t; the identity if there is none."""
        return ExprValue(loop_ir.load(sums, (t - distance).expr(), (t >= distance).expr,
                                      self.scan.identity.expr))

    def _store_results(self, first: Index, sums: KernelBuffer) -> For:
        """Each thread combines the carry with its local sums and stores them."""
        (lane, t), (var, n) = counter("t", self.threads), counter("n", self.per_thread)
        before, combine = Register("before", self.scan.accumulator), self.scan.combined
        local_sum = ExprValue(loop_ir.load(self.staged, (t * self.per_thread + n).expr()))
        position = (self.line, first + t * self.per_thread + n, as_index(0))
        result = self.elements.write(position,
                                     combine(ExprValue(loop_ir.read(before)), local_sum).expr)
        return self._lanes(lane,
                           [Assign(before, combine(ExprValue(loop_ir.read(self.carry)),
                                                   self._sum(sums, t, 1)).expr),
                            self._thread_elements(first, t, var, [result])])


