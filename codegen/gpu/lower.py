"""Lowers groups of rows and columns to GPU kernels: chooses the elements that each thread
computes.

    no reduction    a thread computes a vector of neighbouring elements; reads across rows are
                    transposed through shared memory
    rows            a thread group (a warp or a block, by length) reduces each row; a few long rows
                    are split into chunks
    columns         a thread reduces each column; where these are few, they are split into chunks

The number of thread groups depends on sizes alone, never on the device: so results are the same
on every GPU. Where sizes are dynamic, it depends on their upper bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.core.op import OPS
from ..cpu.loop_body import LoopAxes, LoopBody, decode
from ..cpu.loop_nest import LoopNest, identities, kernel, lower_with_column_sums
from ..cpu.partition_work import chunk_bounds
from ..fusion.fusion import MAX_UNROLLED_REDUCTION, Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.inline import Indices
from ..ir.loop_ir import Expr, For, Kernel, KernelBuffer, Stmt, const
from ..ir.op_cost import expression_cost
from ..ir.sizes import ceil_div, is_dynamic, is_multiple, upper_bound
from ..ir.target_info import Machine
from .cost_model import REFERENCE_CHIP, KernelWork, predicted_seconds
from .shared_transpose import transpose_kernel, transposed_loads
from .thread_mapping import WARP

BLOCK_THREADS = 256  # where lanes are independent
VECTOR_BYTES = 16  # of one access of a thread
VECTORS_PER_THREAD = 4  # of a row, in groups larger than a warp
MIN_GROUPS = 1024  # that keep every processor busy
MIN_SPLIT_ROW = 1 << 13  # elements, where rows are few
MIN_SPLIT_COLUMN = 64  # elements, where columns are few
REDUCTION_THREADS = (WARP, 256)  # candidates for adding up the chunks of a row
ROWS_PER_COLUMN_SUM = 32  # of one thread group


def lower(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine,
          name: str) -> list[Kernel]:
    """The kernels of a group without a contraction, usually one; `buffers` holds the nodes that lie
    in memory."""
    body = LoopBody(group, buffers, machine.gpu)
    expressions, forms = body.expressions()
    nest = LoopNest(group, body, LoopAxes(group, forms), machine, name,
                    expression_cost(expressions, machine.gpu), 1)
    if any(group.domain[a] == 0 for a in group.outer_axes):
        return []
    if 0 in group.domain:
        return [identities(nest)]
    if group.axes is None:
        return [_elementwise(nest)]
    return _columns(nest) if group.kind == "outer_reduce" else _rows(nest)


CoalescedAxes = Sequence[tuple[list[int], int]]  # axes that are one loop, and their common size


def _with_sizes(nest: LoopNest, axes: Sequence[list[int]]) -> list[tuple[list[int], int]]:
    return [(r, nest.axes.size(r)) for r in axes]


def _vector_width(nest: LoopNest, runs: CoalescedAxes) -> int:
    """The number of neighbouring elements that a thread computes: as many as one access can
    move."""
    touched = [b.dtype.itemsize for b in {*nest.body.buffers.values(),
                                          *nest.body.row_caches.values()}]
    count = max(1, VECTOR_BYTES // max(touched, default=4))
    while count > 1 and (not runs or not is_multiple(runs[-1][1], count)):
        count //= 2
    return count


def _loop_index(name: str, size: int) -> tuple[loop_ir.Var, Index]:
    """A loop's variable and its index; the index is 0 if the loop has a single iteration."""
    var, index = counter(name, size)
    return var, index if size > 1 else as_index(0)


def _unrolled(inner: loop_ir.Var, count: int, body: list[Stmt]) -> list[Stmt]:
    """The statements of a thread, once for each element of its vector."""
    return [For(inner, const(0), const(count), tuple(body), 0, count)] if count > 1 else body


# ---- no reduction
def _elementwise(nest: LoopNest) -> Kernel:
    runs = _with_sizes(nest, nest.axes.outer)
    transpose = transposed_loads(nest, runs)
    if transpose is not None:
        return transpose_kernel(nest, runs, transpose)
    count = _vector_width(nest, runs)
    total = nest.outer_size // count
    tasks = ceil_div(total, BLOCK_THREADS)
    var, task = counter("task", tasks)
    lane, i = counter("i", total)
    inner, n = _loop_index("n", count)
    coordinates = nest.axes.where(decode(i * count + n, runs) if runs else [])
    body = _unrolled(inner, count, nest.body.element_statements(0, coordinates))
    loop = For(lane, *chunk_bounds(task, BLOCK_THREADS, total), tuple(body), BLOCK_THREADS)
    return kernel(nest, var, tasks, [loop])


# ---- reductions along the last axis
def _max_extents(nest: LoopNest) -> tuple[int, int]:
    """The upper bounds of the number of reductions, and of the elements of each."""
    return upper_bound(nest.outer_size), upper_bound(nest.inner_size)


def _rows(nest: LoopNest) -> list[Kernel]:
    if nest.body.column_sums:
        return _rows_with_column_sums(nest)
    outer, inner = _max_extents(nest)
    if outer < MIN_GROUPS // 4 and inner >= 2 * MIN_SPLIT_ROW and len(nest.body.sweeps) == 1:
        return _split_rows(nest, nest.inner_size, MIN_SPLIT_ROW)
    var, task = counter("task", nest.outer_size)
    outer_coordinates = decode(task, _with_sizes(nest, nest.axes.outer)) if nest.axes.outer else []
    return [kernel(nest, var, nest.outer_size, _row_sweeps(nest, outer_coordinates))]


def _row_sweeps(nest: LoopNest, outer_coordinates: list[tuple[list[int], Index]]) -> list[Stmt]:
    """All sweeps over a row, by the threads of a group."""
    body: list[Stmt] = []
    for sweep in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(sweep)
        body += _row_sweep(nest, sweep, outer_coordinates)
        body += nest.body.finish_sweep(sweep, nest.axes.where(outer_coordinates))
    return body


def _row_sweep(nest: LoopNest, sweep: int, outer_coordinates: list[tuple[list[int], Index]],
               limits: tuple[Expr, Expr] | None = None) -> list[Stmt]:
    """One sweep over a row, or over the vectors of it between two limits."""
    runs = _with_sizes(nest, nest.axes.inner)
    if not runs:
        return nest.body.element_statements(sweep, nest.axes.where(outer_coordinates))
    count = _vector_width(nest, runs)
    lane, k = counter("k", nest.inner_size // count)
    inner, n = _loop_index("n", count)
    coordinates = nest.axes.where([*outer_coordinates, *decode(k * count + n, runs)])
    body = _unrolled(inner, count, nest.body.element_statements(sweep, coordinates))
    start, stop = limits or (const(0), const(nest.inner_size // count))
    return [For(lane, start, stop, tuple(body), _threads_for_row(_max_extents(nest)[1] // count))]


def _threads_for_row(vectors: int) -> int:
    """The threads of a group for a row of this many vectors."""
    if vectors <= VECTORS_PER_THREAD * WARP:
        return WARP
    return int(min(1024, max(2 * WARP, 1 << ((vectors - 1) // VECTORS_PER_THREAD).bit_length())))


def _rows_with_column_sums(nest: LoopNest) -> list[Kernel]:
    """Rows that are also summed over: each group adds up some rows, a second kernel adds up the
    groups' sums."""
    tasks = -(-_max_extents(nest)[0] // ROWS_PER_COLUMN_SUM)
    var, task = counter("task", tasks)
    position, o = counter("o", nest.outer_size)
    outer_coordinates = decode(o, _with_sizes(nest, nest.axes.outer))
    rows = For(position, *chunk_bounds(task, ROWS_PER_COLUMN_SUM, nest.outer_size),
               tuple(_row_sweeps(nest, outer_coordinates)))
    return lower_with_column_sums(nest, var, task, tasks, rows,
                                  _threads_for_row(_max_extents(nest)[1]))


# ---- long reductions: split, and added up by a second kernel
def _split_rows(nest: LoopNest, length: int, chunk: int) -> list[Kernel]:
    """Rows split into chunks: one kernel reduces the chunks, a second kernel their results."""
    count = _vector_width(nest, _with_sizes(nest, nest.axes.inner))
    chunks = -(-upper_bound(length) // chunk)
    var, task = counter("task", chunks * nest.outer_size)
    outer_coordinates = decode(task // chunks,
                               _with_sizes(nest, nest.axes.outer)) if nest.axes.outer else []
    limits = chunk_bounds(task % chunks, chunk // count, length // count)
    partial = _partial_buffers(nest, chunks)
    body = [*nest.body.init_sums(0), *_row_sweep(nest, 0, outer_coordinates, limits)]
    body += [loop_ir.Store(b, task.expr(), loop_ir.read(nest.body.registers[r]))
             for r, b in partial.items()]
    first_kernel = kernel(nest, var, chunks * nest.outer_size, body)
    return [first_kernel, _total_of_row(nest, partial, chunks)]


def _partial_buffers(nest: LoopNest, count: int) -> dict[Node, KernelBuffer]:
    return {r: KernelBuffer(f"{nest.name}_part{i}", summed_in(r.type.dtype),
                            count * nest.outer_size)
            for i, r in enumerate(nest.body.sweeps[0].reductions)}


def _total_of_column(nest: LoopNest, partial: dict[Node, KernelBuffer], count: int) -> Kernel:
    """The kernel that reduces the chunks of each column in order and computes what follows; a
    thread for each column."""
    tasks = ceil_div(nest.outer_size, WARP)
    var, task = counter("task", tasks)
    lane, o = counter("o", nest.outer_size)
    chunk_var, p = counter("p", count)
    coordinates = nest.axes.where(decode(o, _with_sizes(nest, nest.axes.outer))
                                  if nest.axes.outer else [])
    updates = [loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                              loop_ir.load(b, (p * nest.outer_size + o).expr()))
               for r, b in partial.items()]
    body = [*nest.body.init_sums(0), For(chunk_var, const(0), const(count), tuple(updates), 0, 4),
            *nest.body.finish_sweep(0, coordinates)]
    loop = For(lane, *chunk_bounds(task, WARP, nest.outer_size), tuple(body), WARP)
    return kernel(nest, var, tasks, [loop], nest.name + "_total")


def _reduction_work(rows: int, chunks: int, threads: int) -> KernelWork:
    """The work of reducing this many chunks of each row; a thread reads four at a time."""
    bytes_moved = 4.0 * rows * chunks
    return KernelWork(rows, threads, 32, 0, -(-chunks // (4 * threads)), 40, bytes_moved,
                      bytes_moved)


def _total_of_row(nest: LoopNest, partial: dict[Node, KernelBuffer], count: int) -> Kernel:
    """The kernel that reduces the chunks of each row, which are contiguous; a thread group for each
    row."""
    threads = min(REDUCTION_THREADS,
                  key=lambda n: predicted_seconds(_reduction_work(_max_extents(nest)[0], count, n),
                                                  REFERENCE_CHIP))
    var, task = counter("task", nest.outer_size)
    lane, p = counter("p", count)
    coordinates = nest.axes.where(decode(task, _with_sizes(nest, nest.axes.outer))
                                  if nest.axes.outer else [])
    updates = [loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                              loop_ir.load(b, (task * count + p).expr()))
               for r, b in partial.items()]
    body = [*nest.body.init_sums(0), For(lane, const(0), const(count), tuple(updates), threads),
            *nest.body.finish_sweep(0, coordinates)]
    return kernel(nest, var, nest.outer_size, body, nest.name + "_total")


# ---- reductions along other axes
def _columns(nest: LoopNest) -> list[Kernel]:
    outer, inner = _max_extents(nest)
    few = outer < MIN_GROUPS * WARP and inner >= 2 * MIN_SPLIT_COLUMN
    if few and len(nest.body.sweeps) == 1:
        return _split_columns(nest)
    threads = BLOCK_THREADS if outer >= MIN_GROUPS * BLOCK_THREADS else WARP
    tasks = ceil_div(nest.outer_size, threads)
    var, task = counter("task", tasks)
    lane, i = counter("i", nest.outer_size)
    outer_coordinates = decode(i, _with_sizes(nest, nest.axes.outer))
    body: list[Stmt] = []
    for sweep in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(sweep)
        body += _column_sweep(nest, sweep, outer_coordinates, (const(0), const(nest.inner_size)))
        body += nest.body.finish_sweep(sweep, nest.axes.where(outer_coordinates))
    loop = For(lane, *chunk_bounds(task, threads, nest.outer_size), tuple(body), threads)
    return [kernel(nest, var, tasks, [loop])]


def _column_sweep(nest: LoopNest, sweep: int, outer_coordinates: list[tuple[list[int], Index]],
                  limits: tuple[Expr, Expr]) -> list[Stmt]:
    """A thread's sweep over the elements of a column, or over some of them."""
    is_short = _max_extents(nest)[1] <= MAX_UNROLLED_REDUCTION
    if is_short and not is_dynamic(nest.inner_size):
        return _unrolled_window(nest, sweep, outer_coordinates)
    var, k = counter("k", nest.inner_size)
    coordinates: Indices = nest.axes.where([*outer_coordinates,
                                            *decode(k, _with_sizes(nest, nest.axes.inner))])
    return [For(var, *limits, tuple(nest.body.element_statements(sweep, coordinates)), 0, 4)]


def _unrolled_window(nest: LoopNest, sweep: int,
                     outer_coordinates: list[tuple[list[int], Index]]) -> list[Stmt]:
    """A thread's sweep over few elements, a loop for each axis, so that contiguous elements become
    one vector access."""
    runs = _with_sizes(nest, nest.axes.inner)
    counters = [counter("k", size) for _, size in runs]
    inner_coordinates = [(run, k) for (run, _), (_, k) in zip(runs, counters)]
    body = nest.body.element_statements(sweep,
                                        nest.axes.where([*outer_coordinates, *inner_coordinates]))
    for (_, size), (var, _) in zip(reversed(runs), reversed(counters)):
        body = [For(var, const(0), const(size), tuple(body), 0, size)]
    return body


def _split_columns(nest: LoopNest) -> list[Kernel]:
    """Columns split into chunks, so that there are enough thread groups."""
    outer, inner = _max_extents(nest)
    blocks = -(-outer // WARP)
    max_chunks = max(1, min(inner // MIN_SPLIT_COLUMN, 2 * MIN_GROUPS // blocks))
    chunk = -(-inner // max_chunks)
    chunks = -(-inner // chunk)
    var, task = counter("task", chunks * blocks)
    lane, i = counter("i", nest.outer_size)
    outer_coordinates, chunk_number = decode(i, _with_sizes(nest, nest.axes.outer)), task // blocks
    partial = _partial_buffers(nest, chunks)
    body = [*nest.body.init_sums(0),
            *_column_sweep(nest, 0, outer_coordinates,
                           chunk_bounds(chunk_number, chunk, nest.inner_size))]
    body += [loop_ir.Store(b, (chunk_number * nest.outer_size + i).expr(),
                           loop_ir.read(nest.body.registers[r]))
             for r, b in partial.items()]
    loop = For(lane, *chunk_bounds(task % blocks, WARP, nest.outer_size), tuple(body), WARP)
    first_kernel = kernel(nest, var, chunks * blocks, [loop])
    return [first_kernel, _total_of_column(nest, partial, chunks)]
