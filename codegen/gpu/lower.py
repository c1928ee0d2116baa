"""Groups of rows and columns as kernels for a GPU: which elements a thread has.

    no reduction    a thread has some neighbours, as many as are moved at once; what is read across
                    its rows is turned in shared memory
    rows            a team for each row, a warp or more by its length; few long rows are cut
    columns         a thread for each column; where these are few, their elements are cut

How many teams there are depends on sizes alone, never on the device: so do the numbers. Where sizes
are known at run time only, it depends on the largest that they can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.core.op import OPS
from ..cpu.loop_body import LoopAxes, LoopBody, decode, estimate_work
from ..cpu.loop_nest import LoopNest, identities, kernel, lower_with_column_sums
from ..cpu.partition_work import chunk_bounds
from ..fusion.fusion import MAX_UNROLLED_REDUCTION, Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.inline import Indices
from ..ir.loop_ir import Buffer, Expr, For, Kernel, Stmt, const
from ..ir.target_info import Machine
from .cost_model import ANY, Work, seconds
from .shared_transpose import transpose_kernel, transposed_loads
from .thread_mapping import WARP

_BLOCK = 256  # threads of a team whose lanes do not need each other
_PIECE = 16  # bytes that a thread moves at once
_EACH = 4  # pieces of a row that a thread of a larger team has
_ENOUGH = 1024  # teams that keep every processor busy
_LONG = 1 << 13  # elements of a row that is worth cutting, where rows are few
_DEEP = 64  # elements of a column that is worth cutting, where columns are few
_ADDERS = (WARP, 256)  # threads that may add up the parts of a row
_ADDED = 32  # rows of a team that adds them up on its way


def lower(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str) -> list[Kernel]:
    """The kernels of a group without contraction, mostly one; `buffers`: what lies in memory."""
    body = LoopBody(group, buffers)
    expressions, forms = body.expressions()
    nest = LoopNest(group, body, LoopAxes(group, forms), machine, name, estimate_work(expressions),
                    1)
    if any(group.domain[a] == 0 for a in group.outer_axes):
        return []
    if 0 in group.domain:
        return [identities(nest)]
    if group.axes is None:
        return [_elementwise(nest)]
    return _rows(nest) if group.kind == "rows" else _columns(nest)


Runs = Sequence[tuple[list[int], int]]  # axes that are one loop, and its size


def _runs(nest: LoopNest, axes: Sequence[list[int]]) -> list[tuple[list[int], int]]:
    return [(r, nest.axes.size(r)) for r in axes]


def _neighbours(nest: LoopNest, runs: Runs) -> int:
    """How many elements that lie side by side a thread takes: as many as it can move at once."""
    touched = [b.dtype.itemsize for b in {*nest.body.buffers.values(),
                                          *nest.body.row_caches.values()}]
    count = max(1, _PIECE // max(touched, default=4))
    while count > 1 and (not runs or runs[-1][1] % count):
        count //= 2
    return count


def _counter(name: str, size: int) -> tuple[loop_ir.Var, Index]:
    """A loop's variable, and its index: 0 where there is only one turn, and so no loop."""
    var, index = counter(name, size)
    return var, index if size > 1 else as_index(0)


def _side_by_side(inner: loop_ir.Var, count: int, body: list[Stmt]) -> list[Stmt]:
    """A thread's statements for each of its neighbours."""
    return [For(inner, const(0), const(count), tuple(body), 0, count)] if count > 1 else body


# ---- no reduction
def _elementwise(nest: LoopNest) -> Kernel:
    runs = _runs(nest, nest.axes.outer)
    across = transposed_loads(nest, runs)
    if across is not None:
        return transpose_kernel(nest, runs, across)
    count = _neighbours(nest, runs)
    total = nest.outer_size // count
    tasks = -(-total // _BLOCK)
    var, task = counter("task", tasks)
    lane, i = counter("i", total)
    inner, n = _counter("n", count)
    where = nest.axes.where(decode(i * count + n, runs) if runs else [])
    body = _side_by_side(inner, count, nest.body.element_statements(0, where))
    loop = For(lane, *chunk_bounds(task, _BLOCK, total), tuple(body), _BLOCK)
    return kernel(nest, var, tasks, [loop])


# ---- reductions along the last axis
def _most(nest: LoopNest) -> tuple[int, int]:
    """How many reductions there can be, and of how many elements."""
    return nest.machine.upper_bound(nest.outer_size), nest.machine.upper_bound(nest.inner_size)


def _rows(nest: LoopNest) -> list[Kernel]:
    if nest.body.column_sums:
        return _rows_added(nest)
    outer, inner = _most(nest)
    if outer < _ENOUGH // 4 and inner >= 2 * _LONG and len(nest.body.sweeps) == 1:
        return _cut(nest, nest.inner_size, _LONG)
    var, task = counter("task", nest.outer_size)
    kept = decode(task, _runs(nest, nest.axes.outer)) if nest.axes.outer else []
    return [kernel(nest, var, nest.outer_size, _row(nest, kept))]


def _row(nest: LoopNest, kept: list[tuple[list[int], Index]]) -> list[Stmt]:
    """All sweeps over a row, by the threads of a team."""
    body: list[Stmt] = []
    for sweep in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(sweep)
        body += _sweep(nest, sweep, kept)
        body += nest.body.finish_sweep(sweep, nest.axes.where(kept))
    return body


def _sweep(nest: LoopNest, sweep: int, kept: list[tuple[list[int], Index]],
           limits: tuple[Expr, Expr] | None = None) -> list[Stmt]:
    """One sweep over a row, or over the part of it between two of its pieces."""
    runs = _runs(nest, nest.axes.inner)
    if not runs:
        return nest.body.element_statements(sweep, nest.axes.where(kept))
    count = _neighbours(nest, runs)
    lane, k = counter("k", nest.inner_size // count)
    inner, n = _counter("n", count)
    where = nest.axes.where([*kept, *decode(k * count + n, runs)])
    body = _side_by_side(inner, count, nest.body.element_statements(sweep, where))
    start, stop = limits or (const(0), const(nest.inner_size // count))
    return [For(lane, start, stop, tuple(body), _threads(_most(nest)[1] // count))]


def _threads(pieces: int) -> int:
    """Threads of a team for a row of so many pieces."""
    if pieces <= _EACH * WARP:
        return WARP
    return int(min(1024, max(2 * WARP, 1 << ((pieces - 1) // _EACH).bit_length())))


def _rows_added(nest: LoopNest) -> list[Kernel]:
    """Rows with sums over them: each team adds up some rows, a second kernel what teams have."""
    tasks = -(-_most(nest)[0] // _ADDED)
    var, task = counter("task", tasks)
    position, o = counter("o", nest.outer_size)
    kept = decode(o, _runs(nest, nest.axes.outer))
    rows = For(position, *chunk_bounds(task, _ADDED, nest.outer_size), tuple(_row(nest, kept)))
    return lower_with_column_sums(nest, var, task, tasks, rows, _threads(_most(nest)[1]))


# ---- what one team would take too long for: cut, and added up by a second kernel
def _cut(nest: LoopNest, length: int, piece: int) -> list[Kernel]:
    """Rows in pieces."""
    count = _neighbours(nest, _runs(nest, nest.axes.inner))
    pieces = -(-nest.machine.upper_bound(length) // piece)
    var, task = counter("task", pieces * nest.outer_size)
    kept = decode(task // pieces, _runs(nest, nest.axes.outer)) if nest.axes.outer else []
    limits = chunk_bounds(task % pieces, piece // count, length // count)
    partial = _partials(nest, pieces)
    body = [*nest.body.init_sums(0), *_sweep(nest, 0, kept, limits)]
    body += [loop_ir.Store(b, task.expr(), loop_ir.read(nest.body.registers[r]))
             for r, b in partial.items()]
    first = kernel(nest, var, pieces * nest.outer_size, body)
    return [first, _total_of_row(nest, partial, pieces)]


def _partials(nest: LoopNest, count: int) -> dict[Node, Buffer]:
    return {r: Buffer(f"{nest.name}_part{i}", summed_in(r.type.dtype), count * nest.outer_size)
            for i, r in enumerate(nest.body.sweeps[0].reductions)}


def _total_of_column(nest: LoopNest, partial: dict[Node, Buffer], count: int) -> Kernel:
    """Adds up the parts of each column in order, and does what follows: a thread for each."""
    tasks = -(-nest.outer_size // WARP)
    var, task = counter("task", tasks)
    lane, o = counter("o", nest.outer_size)
    number, p = counter("p", count)
    where = nest.axes.where(decode(o, _runs(nest, nest.axes.outer)) if nest.axes.outer else [])
    added = [loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                            loop_ir.load(b, (p * nest.outer_size + o).expr())) for r,
                            b in partial.items()]
    body = [*nest.body.init_sums(0), For(number, const(0), const(count), tuple(added), 0, 4),
            *nest.body.finish_sweep(0, where)]
    loop = For(lane, *chunk_bounds(task, WARP, nest.outer_size), tuple(body), WARP)
    return kernel(nest, var, tasks, [loop], nest.name + "_total")


def _adding(rows: int, parts: int, threads: int) -> Work:
    """What it takes to add up so many parts of each row: a thread reads four at a time."""
    moved = 4.0 * rows * parts
    return Work(rows, threads, 32, 0, -(-parts // (4 * threads)), 40, moved, moved)


def _total_of_row(nest: LoopNest, partial: dict[Node, Buffer], count: int) -> Kernel:
    """The same for the parts of a row, which lie side by side: a team for each row."""
    threads = min(_ADDERS, key=lambda n: seconds(_adding(_most(nest)[0], count, n), ANY))
    var, task = counter("task", nest.outer_size)
    lane, p = counter("p", count)
    where = nest.axes.where(decode(task, _runs(nest, nest.axes.outer)) if nest.axes.outer else [])
    added = [loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                            loop_ir.load(b, (task * count + p).expr())) for r, b in partial.items()]
    body = [*nest.body.init_sums(0), For(lane, const(0), const(count), tuple(added), threads),
            *nest.body.finish_sweep(0, where)]
    return kernel(nest, var, nest.outer_size, body, nest.name + "_total")


# ---- reductions along other axes
def _columns(nest: LoopNest) -> list[Kernel]:
    outer, inner = _most(nest)
    few = outer < _ENOUGH * WARP and inner >= 2 * _DEEP
    if few and len(nest.body.sweeps) == 1:
        return _cut_columns(nest)
    threads = _BLOCK if outer >= _ENOUGH * _BLOCK else WARP
    tasks = -(-nest.outer_size // threads)
    var, task = counter("task", tasks)
    lane, i = counter("i", nest.outer_size)
    kept = decode(i, _runs(nest, nest.axes.outer))
    body: list[Stmt] = []
    for sweep in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(sweep)
        body += _column(nest, sweep, kept, (const(0), const(nest.inner_size)))
        body += nest.body.finish_sweep(sweep, nest.axes.where(kept))
    loop = For(lane, *chunk_bounds(task, threads, nest.outer_size), tuple(body), threads)
    return [kernel(nest, var, tasks, [loop])]


def _column(nest: LoopNest, sweep: int, kept: list[tuple[list[int], Index]],
            limits: tuple[Expr, Expr]) -> list[Stmt]:
    """A thread's sweep over the elements of a column, or some of them."""
    if _most(nest)[1] <= MAX_UNROLLED_REDUCTION and not nest.machine.is_dynamic(nest.inner_size):
        return _window(nest, sweep, kept)
    var, k = counter("k", nest.inner_size)
    where: Indices = nest.axes.where([*kept, *decode(k, _runs(nest, nest.axes.inner))])
    return [For(var, *limits, tuple(nest.body.element_statements(sweep, where)), 0, 4)]


def _window(nest: LoopNest, sweep: int, kept: list[tuple[list[int], Index]]) -> list[Stmt]:
    """A thread's sweep over few elements, a loop for each axis: what lies side by side in a window
    is moved at once."""
    runs = _runs(nest, nest.axes.inner)
    counters = [counter("k", size) for _, size in runs]
    places = [(run, k) for (run, _), (_, k) in zip(runs, counters)]
    body = nest.body.element_statements(sweep, nest.axes.where([*kept, *places]))
    for (_, size), (var, _) in zip(reversed(runs), reversed(counters)):
        body = [For(var, const(0), const(size), tuple(body), 0, size)]
    return body


def _cut_columns(nest: LoopNest) -> list[Kernel]:
    """Columns in pieces, so that there are enough teams."""
    outer, inner = _most(nest)
    blocks = -(-outer // WARP)
    wanted = max(1, min(inner // _DEEP, 2 * _ENOUGH // blocks))
    piece = -(-inner // wanted)
    pieces = -(-inner // piece)
    var, task = counter("task", pieces * blocks)
    lane, i = counter("i", nest.outer_size)
    kept, number = decode(i, _runs(nest, nest.axes.outer)), task // blocks
    partial = _partials(nest, pieces)
    body = [*nest.body.init_sums(0),
            *_column(nest, 0, kept, chunk_bounds(number, piece, nest.inner_size))]
    body += [loop_ir.Store(b, (number * nest.outer_size + i).expr(),
                           loop_ir.read(nest.body.registers[r]))
             for r, b in partial.items()]
    loop = For(lane, *chunk_bounds(task % blocks, WARP, nest.outer_size), tuple(body), WARP)
    first = kernel(nest, var, pieces * blocks, [loop])
    return [first, _total_of_column(nest, partial, pieces)]
