"""Lowers scatter-add (rows added at indices known at run time), the gradient of `take`, to GPU
kernels.

    few rows    a thread for each element of the result compares its index with that of every row
    others      rows are sorted by index, stably; a search finds where each index starts; a thread
                for each element adds up its rows

Each element is 0 plus its rows, one after the other, in their order, as `numpy.add.at` computes
it; 16-bit floats are added up in float32. Where an index has many rows, the chunks of the
sorted order that belong to it entirely are added up first, a thread for each column of a chunk,
and their sums replace them. Chunks depend on sizes alone: so the result is deterministic, and
each row is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ..cpu.partition_work import buffers_of, chunk_bounds
from ..cpu.scatter_rows import clamped_index, unflatten_row
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, atom, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import (
    BOOL,
    INT,
    Assign,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    const,
    load,
    read,
)
from ..ir.sizes import Size, ceil_div, upper_bound
from ..ir.target_info import Machine
from .argsort import argsort_kernels

MAX_SCANNED_ROWS = 32  # whose indices every thread compares
BLOCK_THREADS = 256
MIN_CHUNK_ROWS = 64

UNROLL = 4  # loads in flight of a thread


def lower_add_at(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> list[Kernel]:
    """The kernels of a scatter-add; none if its result is empty or unused."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    scan_all = upper_bound(node.inputs[1].type.size) <= MAX_SCANNED_ROWS
    return (ScanningScatterAdd if scan_all else SortedScatterAdd)(node, buffers, machine,
                                                                  name).kernels()


class ScatterAdd:
    """The rows that are added up: `count` rows for each of `outer` slices, of `width` elements
    each."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> None:
        self.node, self.buffers, self.machine, self.name = node, buffers, machine, name
        self.values, self.indices = node.inputs
        axis, shape = int(node.params["axis"]), node.type.shape
        self.before, self.size, self.after = shape[:axis], shape[axis], shape[axis + 1:]
        self.outer, self.width = product(self.before), product(self.after)
        self.count = self.indices.type.size
        self.total = Register("total", summed_in(node.type.dtype))
        self.inline = Inliner(memory_reader(buffers))

    def kernels(self) -> list[Kernel]:
        """All kernels, in launch order."""
        raise NotImplementedError

    def kernel_of(self, name: str, total: Size, body: Callable[[Index], list[Stmt]]) -> Kernel:
        """A kernel with a thread for each of `total` elements."""
        tasks = ceil_div(total, BLOCK_THREADS)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        loop = (For(lane, *chunk_bounds(task, BLOCK_THREADS, total), tuple(body(i)),
                    BLOCK_THREADS),)
        return Kernel(name, *buffers_of(loop), (), var, tasks, loop,
                      float(upper_bound(self.values.type.size + total)),
                      (self.node.site,) if self.node.site else ())

    def element_kernel(self, body: Callable[[Index, Index, Index], list[Stmt]]) -> Kernel:
        """The kernel that sums up each element of the result; `body` adds to the total, given the
        outer slice, the index and the column."""
        def element(i: Index) -> list[Stmt]:
            outer, index, column = i // self.width // self.size, i // self.width % self.size, \
                i % self.width
            sums = cast(ExprValue(read(self.total)), self.node.type.dtype).expr
            return [self.clear_total(), *body(outer, index, column),
                    Store(self.buffers[self.node], i.expr(), sums)]

        return self.kernel_of(self.name, self.node.type.size, element)

    def index_of_row(self, n: Index) -> Expr:
        """The index at which a row is added."""
        index = self.inline.value(self.indices, unflatten_row(n, self.indices.type.shape))
        return clamped_index(index, self.size).expr()

    def clear_total(self) -> Assign:
        """Sets the total to 0."""
        return Assign(self.total, const(0, self.total.dtype))

    def add_value(self, value: Expr) -> Assign:
        """Adds a value to the total."""
        dtype = self.total.dtype
        addend = cast(ExprValue(value), dtype).expr
        return Assign(self.total, loop_ir.call("add", (read(self.total), addend), dtype))

    def add_row(self, outer: Index, n: Index, column: Index) -> Assign:
        """Adds an element of a row to the total."""
        index = (*unflatten_row(outer, self.before), *unflatten_row(n, self.indices.type.shape),
                 *unflatten_row(column, self.after))
        return self.add_value(self.inline.value(self.values, index).expr)


class ScanningScatterAdd(ScatterAdd):
    """Few rows: every thread compares the indices of all of them."""

    def kernels(self) -> list[Kernel]:
        """The single kernel."""
        return [self.element_kernel(self._scan_rows)]

    def _scan_rows(self, outer: Index, index: Index, column: Index) -> list[Stmt]:
        if self.count == 0:
            return []
        var, n = counter("n", self.count)
        is_match = loop_ir.call("eq", (self.index_of_row(n), index.expr()), BOOL)
        body = If(is_match, (self.add_row(outer, n, column),))
        return [For(var, const(0), const(self.count), (body,), 0, UNROLL)]


class SortedScatterAdd(ScatterAdd):
    """Rows sorted by index; `chunk` consecutive rows of that order make a chunk."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> None:
        super().__init__(node, buffers, machine, name)
        self.row_order, self.sort_kernels = argsort_kernels(self.indices, buffers, machine,
                                                            f"{name}_order")
        self.row_starts = KernelBuffer(f"{name}_begins", INT, self.size + 1)
        most = upper_bound(self.count).bit_length()
        self.chunk = max(MIN_CHUNK_ROWS, 1 << (most - 1) // 2)
        self.chunks = self.count // self.chunk
        self.sums = KernelBuffer(f"{name}_sums", self.total.dtype,
                                 self.outer * self.chunks * self.width)

    def kernels(self) -> list[Kernel]:
        """The kernels that sort the rows, find the start of each index, sum the chunks, and sum the
        elements."""
        kernels = [*self.sort_kernels,
                   self.kernel_of(f"{self.name}_begins", self.size + 1, self._find_start)]
        if self.chunks < 2:
            return [*kernels, self.element_kernel(self._add_rows_directly)]
        return [*kernels, self.kernel_of(f"{self.name}_chunks", self.sums.size, self._chunk_sum),
                self.element_kernel(self._add_chunks)]

    def _sorted_row(self, m: Index) -> Index:
        """The number of the row at a position of the sorted order."""
        return atom(load(self.row_order, m.expr()), (0, self.count - 1))

    def _find_start(self, i: Index) -> list[Stmt]:
        """Counts the rows of smaller indices: there the rows of this index start."""
        count_before, step = Register("before", INT), Register("step", INT)
        bits = upper_bound(self.count).bit_length()
        var, _ = counter("bit", bits)
        candidate = loop_ir.call("add", (read(count_before), read(step)), INT)
        in_range = ExprValue(loop_ir.call("le", (candidate, const(self.count)), BOOL))
        last = atom(loop_ir.call("minimum", (candidate, const(self.count)), INT), (1, self.count))
        index = self.index_of_row(self._sorted_row(last - 1))
        is_earlier = ExprValue(loop_ir.call("lt", (index, i.expr()), BOOL))
        return [
            Assign(count_before, const(0)), Assign(step, const(1 << bits - 1)),
            For(var, const(0), const(bits), (
                If(call("and", in_range, is_earlier).expr, (Assign(count_before, candidate),)),
                Assign(step, loop_ir.call("shr", (read(step), const(1)), INT)))),
            Store(self.row_starts, i.expr(), read(count_before))]

    def _add_rows(self, start: Expr, stop: Expr, outer: Index, column: Index) -> For:
        """Adds the rows between two positions of the sorted order."""
        var, m = counter("m", self.count)
        return For(var, start, stop, (self.add_row(outer, self._sorted_row(m), column),), 0, UNROLL)

    def _load_start(self, name: str, index: Index) -> Assign:
        return Assign(Register(name, INT), load(self.row_starts, index.expr()))

    def _add_rows_directly(self, outer: Index, index: Index, column: Index) -> list[Stmt]:
        limits = self._load_start("start", index), self._load_start("stop", index + 1)
        start, stop = (read(s.register) for s in limits)
        return [*limits, self._add_rows(start, stop, outer, column)]

    # ---- chunks
    def _chunk_sum(self, i: Index) -> list[Stmt]:
        """Adds up a chunk of the sorted order if all of it has one index."""
        part, column = i // self.width, i % self.width
        outer, start = part // self.chunks, part % self.chunks * self.chunk
        stop = start + self.chunk
        indices = [self.index_of_row(self._sorted_row(m)) for m in (start, stop - 1)]
        return [If(loop_ir.call("eq", tuple(indices), BOOL), (
            self.clear_total(), self._add_rows(start.expr(), stop.expr(), outer, column),
            Store(self.sums, i.expr(), read(self.total))))]

    def _add_chunks(self, outer: Index, index: Index, column: Index) -> list[Stmt]:
        """Adds the rows before the first whole chunk, the chunks, and the rows after the last."""
        limits = self._load_start("start", index), self._load_start("stop", index + 1)
        start, stop = (atom(read(s.register), (0, self.count)) for s in limits)
        first, last = (start + self.chunk - 1) // self.chunk, stop // self.chunk
        head = loop_ir.call("minimum", ((first * self.chunk).expr(), stop.expr()), INT)
        tail = loop_ir.call("maximum", ((last * self.chunk).expr(), head), INT)
        var, p = counter("p", self.chunks)
        sum_index = ((outer * self.chunks + p) * self.width + column).expr()
        return [*limits, self._add_rows(start.expr(), head, outer, column),
                For(var, first.expr(), last.expr(), (self.add_value(load(self.sums, sum_index)),),
                    0, UNROLL), self._add_rows(tail, stop.expr(), outer, column)]
