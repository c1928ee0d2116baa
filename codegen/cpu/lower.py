"""Lowers pointwise and reduction groups: chooses the loops around a body and their tasks."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.core.op import OPS
from ..fusion.fusion import MAX_UNROLLED_REDUCTION, Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.blocked_sums import MAX_SEQUENTIAL_ADDS
from ..ir.loop_ir import Expr, For, Kernel, KernelBuffer, Stmt, Var, const
from ..ir.op_cost import expression_cost
from ..ir.sizes import Size, ceil_div, is_at_least, is_dynamic, largest, upper_bound
from ..ir.target_info import Machine
from .long_columns import has_long_columns, strip_sums
from .loop_body import LoopAxes, LoopBody, decode, is_vectorizable
from .loop_nest import MIN_ELEMENTS_PER_TASK, LoopNest, identities, kernel, lower_with_column_sums
from .partition_work import chunk_bounds, split_into_tasks
from .random_groups import draws_groups, group_loop, lower_groups
from .register_tile import RegisterTile, register_tile
from .transposed_reads import lower_transposed
from .transposed_rows import transposed_rows
from .window_sums import window_sums

_MAX_OPS_OF_STALLED_SUM = 4.0  # with more, the processor does not wait for the previous addition
_MIN_ROWS_PER_OUTER_REDUCE_TASK = 16  # rows
_MAX_ROWS_WITH_CACHED_SUMS = 4096  # their sums stay in the innermost cache
_MIN_OPS_TO_VECTORIZE_AFTER = 8.0  # simple operations after a reduction
_MAX_REDUCTION_CHUNK = 1 << 15  # elements; a longer reduction is split into chunks of fixed size


def lower_loops(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine,
                name: str) -> list[Kernel]:
    """The kernels of a group without contraction, usually one. `buffers`: the nodes in memory."""
    body = LoopBody(group, buffers, machine.gpu)
    expressions, forms = body.expressions()
    cost = expression_cost(expressions, machine.gpu)
    vectors = machine.vectors_in_flight(cost) if is_vectorizable(group, expressions, forms) else 1
    nest = LoopNest(group, body, LoopAxes(group, forms), machine, name, cost, vectors)
    if any(group.domain[a] == 0 for a in group.outer_axes):
        return []
    if 0 in group.domain:
        return [identities(nest)]
    if group.axes is not None and (windows := window_sums(nest)) is not None:
        return [windows]
    if group.kind == "outer_reduce":
        return _lower_columns(nest)
    if group.axes is None:
        return [_lower_pointwise(nest)]
    return _lower_rows(nest)


# ---- no reduction
def _lower_pointwise(nest: LoopNest) -> Kernel:
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    last = runs[-1] if runs else ([], 1)
    if (transposed := lower_transposed(nest, runs)) is not None:
        return transposed
    if len(runs) > 1 and upper_bound(last[1]) < nest.lanes // 2:
        return _lower_flattened(nest, runs)
    if len(runs) <= 1:
        draws = draws_groups(nest.group, last[1])
        return lower_groups(nest, last) if draws else _lower_1d(nest, last)
    return _lower_nested(nest, runs)


def _lower_1d(nest: LoopNest, run: tuple[list[int], int]) -> Kernel:
    """The kernel of one loop over all elements. Tasks are chunks of it."""
    axes, size = run
    tasks, chunk = split_into_tasks(size, nest.elements_per_task, nest.machine)
    is_split = is_dynamic(size) or tasks > 1
    lanes = nest.lanes_in_flight(chunk if is_split else size)
    chunk = -(-chunk // lanes) * lanes if is_split else chunk
    tasks = largest(1, ceil_div(size, chunk))
    var, task = counter("task", tasks)
    lane, i = counter("i", size)
    where = nest.axes.where([(axes, i)] if axes else [])
    start, stop = chunk_bounds(task, chunk, size)
    loop = For(lane, start, stop, tuple(nest.body.element_statements(0, where)), lanes)
    return kernel(nest, var, tasks, [loop])


def _lower_flattened(nest: LoopNest, runs: list[tuple[list[int], int]]) -> Kernel:
    """The kernel with lanes over all positions; the axes' indices are quotients and remainders."""
    total = nest.outer_size
    tasks, chunk = split_into_tasks(total, nest.elements_per_task // 2, nest.machine)
    is_split = is_dynamic(total) or tasks > 1
    chunk = -(-chunk // nest.lanes) * nest.lanes if is_split else chunk
    tasks = largest(1, ceil_div(total, chunk))
    var, task = counter("task", tasks)
    lane, i = counter("i", total)
    where = nest.axes.where(decode(i, runs))
    start, stop = chunk_bounds(task, chunk, total)
    loop = For(lane, start, stop, tuple(nest.body.element_statements(0, where)), nest.lanes)
    return kernel(nest, var, tasks, [loop])


def _lower_nested(nest: LoopNest, runs: list[tuple[list[int], int]]) -> Kernel:
    """The kernel that runs outer positions one by one, with lanes along the last run of axes."""
    (axes, size), outer_runs = runs[-1], runs[:-1]
    outer = nest.outer_size // size
    tasks, chunk = split_into_tasks(outer, nest.chunks_per_task(size), nest.machine)
    var, task = counter("task", tasks)
    position, o = counter("o", outer)
    outer_where = decode(o, outer_runs)

    def statements(i: Index) -> list[Stmt]:
        return nest.body.element_statements(0, nest.axes.where([*outer_where, (axes, i)]))

    if draws_groups(nest.group, size):
        loop = group_loop(size, statements)
    else:
        lane, i = counter("i", size)
        loop = For(lane, const(0), const(size), tuple(statements(i)), nest.lanes_in_flight(size))
    start, stop = chunk_bounds(task, chunk, outer)
    return kernel(nest, var, tasks, [For(position, start, stop, (loop,))])


# ---- reductions along the last axis
def _lower_rows(nest: LoopNest) -> list[Kernel]:
    if (
        upper_bound(nest.outer_size) < 4
        and upper_bound(nest.inner_size) > 2 * _MAX_REDUCTION_CHUNK
        and len(nest.body.sweeps) == 1
    ):
        return _lower_chunked_rows(nest)
    smallest = nest.chunks_per_task(nest.inner_size)
    smallest = max(smallest, _MIN_ROWS_PER_OUTER_REDUCE_TASK) if nest.body.column_sums else smallest
    tasks, chunk = split_into_tasks(nest.outer_size, smallest, nest.machine)
    var, task = counter("task", tasks)
    limits = chunk_bounds(task, chunk, nest.outer_size)
    if _vectorizes_after_rows(nest, chunk):
        return [_lower_rows_then_lanes(nest, (var, tasks), chunk, task * chunk, limits)]
    if (tile := register_tile(nest)) is not None:
        return [_lower_tiles(nest, tile)]
    if (transposed := transposed_rows(nest, functools.partial(_row, nest))) is not None:
        return [transposed]
    position, o = counter("o", nest.outer_size)
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    rows = For(position, *limits, tuple(_row(nest, decode(o, runs) if runs else [])))
    if not nest.body.column_sums:
        return [kernel(nest, var, tasks, [rows])]
    return lower_with_column_sums(nest, var, task, tasks, rows, nest.lanes_for(nest.inner_size))


def _row(nest: LoopNest, outer: Any) -> list[Stmt]:
    """The statements of the row at an outer position."""
    body: list[Stmt] = []
    for i in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(i)
        body += _sweep_loops([nest.body], nest, i, [outer])
        body += nest.body.finish_sweep(i, nest.axes.where(outer))
    return body


def _lower_tiles(nest: LoopNest, tile: RegisterTile) -> Kernel:
    """The kernel that computes the results of a tile side by side."""
    runs = [(r, tile.size(r, nest.axes.size(r))) for r in nest.axes.outer]
    total = nest.outer_size // tile.rows
    smallest = nest.chunks_per_task(nest.inner_size * tile.rows)
    tasks, chunk = split_into_tasks(total, smallest, nest.machine)
    var, task = counter("task", tasks)
    position, o = counter("o", total)
    bodies, first = tile.bodies(nest), decode(o, runs)
    positions = [tile.position(first, t) for t in range(tile.rows)]
    body = [s for b in bodies for s in b.init_sums(0)]
    body += _sweep_loops(bodies, replace(nest, vectors=tile.vectors(nest)), 0, positions)
    for each, at in zip(bodies, positions):
        body += each.finish_sweep(0, nest.axes.where(at))
    limits = chunk_bounds(task, chunk, total)
    return kernel(nest, var, tasks, [For(position, *limits, tuple(body))])


def _vectorizes_after_rows(nest: LoopNest, rows: int) -> bool:
    """True if the operations after a task's sums are worth lanes over rows.

    An activation on one lane takes longer than a short sum."""
    is_single_sweep = (
        len(nest.body.sweeps) == len(nest.axes.outer) == 1 and not nest.body.column_sums
    )
    if (
        not is_single_sweep
        or is_dynamic(nest.outer_size)
        or not nest.lanes <= rows <= _MAX_ROWS_WITH_CACHED_SUMS
    ):
        return False
    return nest.body.work_after(0) >= _MIN_OPS_TO_VECTORIZE_AFTER


def _lower_rows_then_lanes(nest: LoopNest, tasks: tuple[Var, int], rows: int, first: Index,
                           limits: tuple[Expr, Expr]) -> Kernel:
    """The kernel that computes a task's sums row by row, and then their readers with rows as lanes.
    """
    body, axes = nest.body, nest.axes.outer[0]
    sums = {body.registers[n]: KernelBuffer(f"sum{i}", summed_in(n.type.dtype), rows, scratch=True)
            for i, n in enumerate(body.sweeps[0].reductions)}
    position, o = counter("o", nest.outer_size)
    lane, i = counter("i", nest.outer_size)
    save = [loop_ir.Store(b, (o - first).expr(), loop_ir.read(r)) for r, b in sums.items()]
    restore = [loop_ir.Assign(r, loop_ir.load(b, (i - first).expr())) for r, b in sums.items()]
    sums_loops = _sweep_loops([body], nest, 0, [[(axes, o)]])
    rows_loop = For(position, *limits, (*body.init_sums(0), *sums_loops, *save))
    lanes_loop = For(lane, *limits, (*restore, *body.finish_sweep(0, nest.axes.where([(axes, i)]))),
                     nest.lanes_for(rows))
    lowered = kernel(nest, *tasks, [rows_loop, lanes_loop])
    return replace(lowered, scratch=(*lowered.scratch, *sums.values()))


def _sweep_loops(bodies: Sequence[LoopBody], nest: LoopNest, sweep: int, outer: Sequence[Any]
                 ) -> list[Stmt]:
    """The loops of a sweep over the reduced axes; the last of them has the lanes.

    `bodies` differ in their registers; each has its outer position."""
    runs = nest.axes.inner
    if not runs:
        return _element_statements(bodies, nest, sweep, outer, [])
    counters = [counter(f"k{n}", nest.axes.size(r)) for n, r in enumerate(runs)]
    inner = [(r, k) for r, (_, k) in zip(runs, counters)]
    loops = [(var, nest.axes.size(r)) for r, (var, _) in zip(runs, counters)]
    lane, width = loops.pop()
    lanes = nest.lanes_in_flight(width)
    if loops and upper_bound(width) < nest.lanes // 2:
        lane, k = counter("k", nest.inner_size)
        loops, width, lanes = [], nest.inner_size, nest.lanes
        inner = decode(k, [(r, nest.axes.size(r)) for r in runs])
    elif loops and not is_dynamic(width) and width <= lanes:
        return _lanes_around_loops(bodies, nest, sweep, outer, inner, (*loops, (lane, width)))
    step = _element_statements(bodies, nest, sweep, outer, inner)
    return _nested(loops, [For(lane, const(0), const(width), tuple(step), lanes)])


def _element_statements(bodies: Sequence[LoopBody], nest: LoopNest, sweep: int,
                        outer: Sequence[Any], inner: Any) -> list[Stmt]:
    return [s for body, at in zip(bodies, outer)
            for s in body.element_statements(sweep, nest.axes.where([*at, *inner]))]


def _nested(loops: Iterable[tuple[Var, Size]], body: list[Stmt]) -> list[Stmt]:
    for var, size in reversed(tuple(loops)):
        body = [For(var, const(0), const(size), tuple(body))]
    return body


def _lanes_around_loops(bodies: Sequence[LoopBody], nest: LoopNest, sweep: int,
                        outer: Sequence[Any], inner: Any, loops: tuple[tuple[Var, Size], ...]
                        ) -> list[Stmt]:
    """The lane loop around the other loops: lanes are added up once, after all of them.

    A last axis that fits into few vectors would otherwise be added up in every step of the others.
    """
    in_lanes = [b.with_own_sums(sweep, "lane") for b in bodies]
    step = _element_statements(in_lanes, nest, sweep, outer, inner)
    ends = [loop_ir.Update(total, OPS[n.op].meaning.combine, loop_ir.read(b.registers[n]))
            for whole, b in zip(bodies, in_lanes) for n, total in whole.registers.items()
            if n in b.sweeps[sweep].reductions]
    init = [s for b in in_lanes for s in b.init_sums(sweep)]
    lane, width = loops[-1]
    return [For(lane, const(0), const(width), (*init, *_nested(loops[:-1], step), *ends),
                nest.lanes_in_flight(width))]


# ---- few long rows: chunks of fixed size, so that the result does not depend on the threads
def _lower_chunked_rows(nest: LoopNest) -> list[Kernel]:
    runs = nest.axes.inner
    sizes = [(r, nest.axes.size(r)) for r in runs]
    split_run = max(range(len(runs)), key=lambda n: upper_bound(sizes[n][1]))
    count, chunk = _chunk_sizes(sizes[split_run][1], nest.inner_size)
    outer_runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    var, task = counter("task", count * nest.outer_size)
    outer = decode(task // count, outer_runs) if outer_runs else []
    chunk_number = task % count
    partial = _partial_sums(nest, count)
    body: list[Stmt] = list(nest.body.init_sums(0))
    counters = [counter(f"k{n}", size) for n, (_, size) in enumerate(sizes)]
    where = nest.axes.where([*outer, *[(r, k) for r, (_, k) in zip(runs, counters)]])
    inner: tuple[Stmt, ...] = tuple(nest.body.element_statements(0, where))
    for n in range(len(runs) - 1, -1, -1):
        limits = (
            chunk_bounds(chunk_number, chunk, sizes[n][1])
            if n == split_run
            else (const(0), const(sizes[n][1]))
        )
        last = n == len(runs) - 1
        inner = (For(counters[n][0], *limits, inner, nest.lanes_in_flight(chunk) if last else 0),)
    body += inner
    body += [loop_ir.Store(partial[r], task.expr(), loop_ir.read(nest.body.registers[r]))
             for r in nest.body.sweeps[0].reductions]
    first = kernel(nest, var, count * nest.outer_size, body)
    return [first, _chunk_sums_kernel(nest, partial, count)]


def _chunk_sizes(longest: Size, inner: Size) -> tuple[Size, int]:
    """(number of chunks, iterations of the longest run in each)."""
    rest = max(1, upper_bound(inner // longest))
    chunk = max(1, _MAX_REDUCTION_CHUNK // rest)
    return ceil_div(longest, chunk), chunk


def _partial_sums(nest: LoopNest, count: Size) -> dict[Node, KernelBuffer]:
    return {r: KernelBuffer(f"{nest.name}_part{i}", summed_in(r.type.dtype),
                            count * nest.outer_size)
            for i, r in enumerate(nest.body.sweeps[0].reductions)}


def _chunk_sums_kernel(nest: LoopNest, partial: dict[Node, KernelBuffer], count: Size) -> Kernel:
    """The second kernel: adds up the chunks' sums in order, and computes the readers of the
    reduction."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    var, _ = counter("task", 1)
    position, o = counter("o", nest.outer_size)
    number, p = counter("p", count)
    body: list[Stmt] = list(nest.body.init_sums(0))
    body.append(For(number, const(0), const(count), tuple(
        loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                       loop_ir.load(b, (o * count + p).expr())) for r, b in partial.items())))
    body += nest.body.finish_sweep(0, nest.axes.where(decode(o, runs) if runs else []))
    return kernel(nest, var, 1, [For(position, const(0), const(nest.outer_size), tuple(body))],
                  nest.name + "_total")


# ---- reductions along other axes: lanes run along the last outer one
def _lower_columns(nest: LoopNest) -> list[Kernel]:
    width = nest.axes.size(nest.axes.outer[-1])
    if _has_few_costly_columns(nest, width):
        return _lower_rows(nest)
    if _is_unrolled(nest) and upper_bound(width) < nest.lanes // 2 < upper_bound(nest.outer_size):
        return [_lower_short_rows(nest)]
    rows = nest.outer_size // width
    block = width if _is_unrolled(nest) or is_at_least(4 * nest.lanes, width) else 4 * nest.lanes
    blocks = ceil_div(width, block)
    if (
        upper_bound(blocks * rows) < 4
        and upper_bound(nest.inner_size * width) > 4 * MIN_ELEMENTS_PER_TASK
        and len(nest.body.sweeps) == 1
    ):
        return _lower_chunked_columns(nest, width)
    if has_long_columns(nest, width):
        count = ceil_div(nest.inner_size, MAX_SEQUENTIAL_ADDS)
        partial = _partial_sums(nest, count)
        return [strip_sums(nest, partial, width),
                _column_chunk_sums_kernel(nest, partial, count, width)]
    if upper_bound(rows) > 1 and upper_bound(nest.inner_size * width) < MIN_ELEMENTS_PER_TASK:
        return [_lower_small_columns(nest, rows, width)]
    var, task = counter("task", rows * blocks)
    body = _column_block(nest, task // blocks, chunk_bounds(task % blocks, block, width), None)
    return [kernel(nest, var, rows * blocks, body)]


def _has_few_costly_columns(nest: LoopNest, width: Size) -> bool:
    """True if lanes along the reduced axes waste less than lanes over the columns.

    Rows are read with the columns' number as stride. That costs more than a plain sum saves."""
    return (
        upper_bound(width) <= nest.lanes // 4
        and upper_bound(nest.inner_size) >= 4 * nest.lanes
        and nest.cost > _MAX_OPS_OF_STALLED_SUM
    )


def _is_unrolled(nest: LoopNest) -> bool:
    """True if a reduction is so short that its steps are statements one after the other."""
    return not is_dynamic(nest.inner_size) and nest.inner_size <= MAX_UNROLLED_REDUCTION


def _lower_small_columns(nest: LoopNest, rows: Size, width: Size) -> Kernel:
    """The kernel of small blocks of columns, many of them in a task."""
    tasks, chunk = split_into_tasks(rows, nest.chunks_per_task(nest.inner_size * width),
                                    nest.machine)
    var, task = counter("task", tasks)
    position, row = counter("o", rows)
    body = _column_block(nest, row, (const(0), const(width)), None)
    return kernel(nest, var, tasks, [For(position, *chunk_bounds(task, chunk, rows), tuple(body))])


def _lower_short_rows(nest: LoopNest) -> Kernel:
    """The kernel with lanes over all flattened positions, and in each lane the unrolled reduction.
    """
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    tasks, chunk = split_into_tasks(
        nest.outer_size, max(nest.lanes, nest.chunks_per_task(4 * nest.inner_size)), nest.machine
    )
    chunk = -(-chunk // nest.lanes) * nest.lanes
    tasks = ceil_div(nest.outer_size, chunk)
    var, task = counter("task", tasks)
    lane, i = counter("i", nest.outer_size)
    outer = decode(i, runs)
    body: list[Stmt] = []
    for s in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(s)
        body += _unrolled(nest, s, outer)
        body += nest.body.finish_sweep(s, nest.axes.where(outer))
    return kernel(nest, var, tasks,
                  [For(lane, *chunk_bounds(task, chunk, nest.outer_size), tuple(body),
                       nest.lanes)])


def _unrolled(nest: LoopNest, sweep: int, outer: Any) -> list[Stmt]:
    """The statements of every step of a short sweep, one after the other."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.inner]
    statements: list[Stmt] = []
    for k in range(nest.inner_size):
        position = decode(as_index(k), runs) if runs else []
        statements += nest.body.element_statements(sweep, nest.axes.where([*outer, *position]))
    return statements


def _column_block(
    nest: LoopNest, row: Index, limits: tuple[Expr, Expr],
    chunk: tuple[tuple[Expr, Expr], dict[Node, KernelBuffer], Index] | None,
) -> list[Stmt]:
    """The loop with lanes over columns, and in each lane the sweeps over the reduced axes."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    lane, i = counter("i", runs[-1][1])
    outer = [*(decode(row, runs[:-1]) if runs[:-1] else []), (runs[-1][0], i)]
    body: list[Stmt] = []
    for s in range(len(nest.body.sweeps)):
        body += nest.body.init_sums(s)
        body += _column_sweep(nest, s, outer, chunk[0] if chunk else None)
        if chunk is None:
            body += nest.body.finish_sweep(s, nest.axes.where(outer))
    if chunk is not None:
        _, partial, number = chunk
        index = (number * nest.outer_size + row * runs[-1][1] + i).expr()
        body += [loop_ir.Store(b, index, loop_ir.read(nest.body.registers[r]))
                 for r, b in partial.items()]
    return [For(lane, *limits, tuple(body), _column_lanes(nest, runs[-1][1]))]


def _column_lanes(nest: LoopNest, width: Size) -> int:
    """Lanes over columns; several vectors where each addition would wait for the previous one."""
    waits = not _is_unrolled(nest) and \
        len(nest.body.sweeps) == len(nest.body.sweeps[0].reductions) == 1 and \
        nest.cost - nest.body.work_after(0) <= _MAX_OPS_OF_STALLED_SUM  # `after`: once per column
    return nest.lanes_for(width, 4 if waits else 1)


def _column_sweep(
    nest: LoopNest, sweep: int, outer: Any, limits: tuple[Expr, Expr] | None
) -> list[Stmt]:
    runs = nest.axes.inner
    if _is_unrolled(nest) and limits is None:
        return _unrolled(nest, sweep, outer)
    counters = [counter(f"k{n}", nest.axes.size(r)) for n, r in enumerate(runs)]
    where = nest.axes.where([*outer, *[(r, k) for r, (_, k) in zip(runs, counters)]])
    body: tuple[Stmt, ...] = tuple(nest.body.element_statements(sweep, where))
    for n in range(len(runs) - 1, -1, -1):
        run_limits = limits if n == 0 and limits else (const(0), const(nest.axes.size(runs[n])))
        body = (For(counters[n][0], *run_limits, body, 0, 4 if n == len(runs) - 1 else 1),)
    return list(body)


def _lower_chunked_columns(nest: LoopNest, width: Size) -> list[Kernel]:
    first = nest.axes.size(nest.axes.inner[0])
    rest = max(1, upper_bound(nest.inner_size // first)) * upper_bound(width)
    chunk = max(1, _MAX_REDUCTION_CHUNK // rest)
    count = ceil_div(first, chunk)
    rows = nest.outer_size // width
    partial = _partial_sums(nest, count)
    var, task = counter("task", count * rows)
    number = task % count
    body = _column_block(nest, task // count, (const(0), const(width)),
                         (chunk_bounds(number, chunk, first), partial, number))
    return [
        kernel(nest, var, count * rows, body),
        _column_chunk_sums_kernel(nest, partial, count, width),
    ]


def _column_chunk_sums_kernel(
    nest: LoopNest, partial: dict[Node, KernelBuffer], count: Size, width: Size
) -> Kernel:
    runs = [(r, nest.axes.size(r)) for r in nest.axes.outer]
    rows = nest.outer_size // width
    smallest = max(nest.lanes, nest.chunks_per_task(count))
    blocks, block = split_into_tasks(width, smallest, nest.machine)
    var, task = counter("task", rows * blocks)
    lane, i = counter("i", width)
    number, p = counter("p", count)
    row = task // blocks
    outer = [*(decode(row, runs[:-1]) if runs[:-1] else []), (runs[-1][0], i)]
    index = (p * nest.outer_size + row * width + i).expr()
    body: list[Stmt] = list(nest.body.init_sums(0))
    body.append(For(number, const(0), const(count), tuple(
        loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine, loop_ir.load(b, index))
        for r, b in partial.items())))
    body += nest.body.finish_sweep(0, nest.axes.where(outer))
    limits = chunk_bounds(task % blocks, block, width)
    total = kernel(nest, var, rows * blocks, [For(lane, *limits, tuple(body), nest.lanes)],
                   nest.name + "_total")
    return replace(total, cost=total.cost * upper_bound(count) / upper_bound(nest.inner_size))
