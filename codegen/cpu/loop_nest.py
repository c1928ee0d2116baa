"""Groups of rows and columns as kernels: the loops around a body, cut into tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ..fusion.fusion import SHORT, Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.blocked_sums import TURNS, WIDE, Blocks, in_blocks
from ..ir.loop_ir import Buffer, Expr, For, Kernel, Register, Stmt, Var, const
from ..ir.target_info import Machine
from .loop_body import Axes, Body, decode, identity, is_vectorizable, work
from .partition_work import bounds, buffers_of, chunks, sites_of
from .prefetch import add_prefetches

_TASK = 8192  # elements that make a task worth while, and with more work for each
_LEAST_TASK = 4000  # nanoseconds
_WAITS = 4.0  # simple operations, fewer than those that a sum takes to be ready for the next
_ROWS = 16  # rows of a task that adds them up
_FEW = 4096  # rows whose sums stay in the innermost cache
_ACTIVATION = 8.0  # simple operations behind a sum that are worth lanes
_PARTIAL = 1 << 15  # a reduction longer than this is cut into pieces of fixed size


@dataclass
class LoopNest:
    """Everything that is known of a group when its loops are made."""

    group: Group
    body: Body
    axes: Axes
    machine: Machine
    name: str
    cost: float  # simple operations of one element
    vectors: int  # how many of them a lane loop takes at once

    @property
    def lanes(self) -> int:
        widest = max((summed_in(n.type.dtype).itemsize for n in self.group.members), default=4)
        return self.machine.lanes(min(4, widest) if widest < 8 else 8)

    def fitting(self, size: int, vectors: int = 1) -> int:
        """Lanes for a loop of `size`: no more than it has turns, rounded up to a power of two."""
        return max(2, min(vectors * self.lanes, 1 << (size - 1).bit_length()))

    def wide(self, size: int) -> int:
        """Lanes for a loop of `size` steps that do not need one another: several vectors, so that
        one is computed while another waits, but not more than the last turn can fill."""
        vectors = 1 if self.machine.varies(size) else self.vectors
        while vectors > 1 and size % (vectors * self.lanes) and size < 4 * vectors * self.lanes:
            vectors //= 2
        return self.fitting(size, vectors)

    @property
    def task(self) -> int:
        """How many elements are worth a task; the same for all sizes that are not known."""
        return _TASK if self.machine.open else min(_TASK, round(_LEAST_TASK / self.nanoseconds(1)))

    def worth(self, elements: int) -> int:
        """How many pieces of so many elements are worth a task."""
        return max(1, self.task // max(1, self.machine.most(elements)))

    def nanoseconds(self, elements: int) -> float:
        """What so many elements take, about."""
        return elements * max(self.cost, 1) / (2.5 * self.machine.lanes())

    @property
    def outer(self) -> int:
        return int(product(map(self.axes.size, self.axes.kept)))

    @property
    def inner(self) -> int:
        return int(product(map(self.axes.size, self.axes.inner)))


def lower(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str) -> list[Kernel]:
    """The kernels of a group without contraction, mostly one; `buffers`: what lies in memory."""
    body = Body(group, buffers)
    expressions, forms = body.expressions()
    cost = work(expressions)
    vectors = machine.vectors(cost) if is_vectorizable(group, expressions, forms) else 1
    nest = LoopNest(group, body, Axes(group, forms), machine, name, cost, vectors)
    if any(group.domain[a] == 0 for a in group.kept):
        return []
    if 0 in group.domain:
        return [identities(nest)]
    if group.kind == "columns":
        return _columns(nest)
    if group.axes is None:
        return [_elementwise(nest)]
    return _rows(nest)


def kernel(nest: LoopNest, var: Var, tasks: int, body: Sequence[Stmt], name: str = "") -> Kernel:
    """The kernel around a body; the buffers that it reads and writes are found in it."""
    reads, writes = buffers_of(tuple(body))
    elements = max(1, nest.outer * nest.inner)
    if not nest.machine.varies(elements):
        body = add_prefetches(body, elements, max(1, nest.inner))
    body = in_blocks(body, nest.machine)
    scratch = (*nest.body.rows.values(), *nest.body.columns.values())
    return Kernel(name or nest.name, reads, writes, scratch, var, tasks, tuple(body),
                  nest.nanoseconds(elements), sites_of(nest.group.members))


def identities(nest: LoopNest) -> Kernel:
    """Reductions over nothing: what they start from is their result."""
    var, _ = counter("task", 1)
    position, o = counter("o", nest.outer)
    kept = decode(o, [(r, nest.axes.size(r)) for r in nest.axes.kept])
    body: list[Stmt] = []
    for i in range(len(nest.body.sweeps)):
        body += [*nest.body.begin(i), *nest.body.finish(i, nest.axes.where(kept))]
    return kernel(nest, var, 1, [For(position, const(0), const(nest.outer), tuple(body))])


# ---- no reduction
def _elementwise(nest: LoopNest) -> Kernel:
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    last = runs[-1] if runs else ([], 1)
    if len(runs) > 1 and last[1] < nest.lanes // 2:
        return _flattened(nest, runs)
    if len(runs) <= 1:
        return _line(nest, last)
    return _outer_lines(nest, runs)


def _line(nest: LoopNest, run: tuple[list[int], int]) -> Kernel:
    """One loop over everything: tasks are pieces of it."""
    axes, size = run
    tasks, piece = chunks(size, nest.task, nest.machine)
    cut = tasks > 1 or nest.machine.varies(size)
    lanes = nest.wide(piece if cut else size)
    piece = -(-piece // lanes) * lanes if cut else piece
    tasks = max(1, -(-size // piece))
    var, task = counter("task", tasks)
    lane, i = counter("i", size)
    where = nest.axes.where([(axes, i)] if axes else [])
    start, stop = bounds(task, piece, size)
    loop = For(lane, start, stop, tuple(nest.body.step(0, where)), lanes)
    return kernel(nest, var, tasks, [loop])


def _flattened(nest: LoopNest, runs: list[tuple[list[int], int]]) -> Kernel:
    """Lanes over all positions; the axes are found from the position by division."""
    total = nest.outer
    tasks, piece = chunks(total, nest.task // 2, nest.machine)
    cut = tasks > 1 or nest.machine.varies(total)
    piece = -(-piece // nest.lanes) * nest.lanes if cut else piece
    tasks = max(1, -(-total // piece))
    var, task = counter("task", tasks)
    lane, i = counter("i", total)
    where = nest.axes.where(decode(i, runs))
    start, stop = bounds(task, piece, total)
    loop = For(lane, start, stop, tuple(nest.body.step(0, where)), nest.lanes)
    return kernel(nest, var, tasks, [loop])


def _outer_lines(nest: LoopNest, runs: list[tuple[list[int], int]]) -> Kernel:
    """Outer positions one after the other, lanes along the last run of axes."""
    (axes, size), before = runs[-1], runs[:-1]
    outer = nest.outer // size
    tasks, piece = chunks(outer, nest.worth(size), nest.machine)
    var, task = counter("task", tasks)
    position, o = counter("o", outer)
    lane, i = counter("i", size)
    where = nest.axes.where([*decode(o, before), (axes, i)])
    loop = For(lane, const(0), const(size), tuple(nest.body.step(0, where)), nest.wide(size))
    start, stop = bounds(task, piece, outer)
    return kernel(nest, var, tasks, [For(position, start, stop, (loop,))])


# ---- reductions along the last axis
def _rows(nest: LoopNest) -> list[Kernel]:
    if nest.outer < 4 and nest.inner > 2 * _PARTIAL and len(nest.body.sweeps) == 1:
        return _pieces(nest)
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    smallest = nest.worth(nest.inner)
    smallest = max(smallest, _ROWS) if nest.body.columns else smallest
    tasks, piece = chunks(nest.outer, smallest, nest.machine)
    var, task = counter("task", tasks)
    limits = bounds(task, piece, nest.outer)
    if _ends_on_lanes(nest, piece):
        return [_lanes_behind_rows(nest, (var, tasks), piece, task * piece, limits)]
    position, o = counter("o", nest.outer)
    kept = decode(o, runs) if runs else []
    body: list[Stmt] = []
    for i in range(len(nest.body.sweeps)):
        body += nest.body.begin(i)
        body += _inner_loops(nest, i, kept)
        body += nest.body.finish(i, nest.axes.where(kept))
    rows = For(position, *limits, tuple(body))
    if not nest.body.columns:
        return [kernel(nest, var, tasks, [rows])]
    return adding_rows(nest, var, task, tasks, rows, nest.fitting(nest.inner))


def _ends_on_lanes(nest: LoopNest, rows: int) -> bool:
    """Whether what follows the sums of a task's rows is worth several rows at once: an activation
    takes longer on one lane than a short sum."""
    plain = len(nest.body.sweeps) == len(nest.axes.kept) == 1 and not nest.body.columns
    if not plain or nest.machine.varies(nest.outer) or not nest.lanes <= rows <= _FEW:
        return False
    return nest.body.work_after(0) >= _ACTIVATION


def _lanes_behind_rows(nest: LoopNest, tasks: tuple[Var, int], rows: int, first: Index,
                       limits: tuple[Expr, Expr]) -> Kernel:
    """The sums of all rows of a task, and then what follows them, with the rows as lanes."""
    body, axes = nest.body, nest.axes.kept[0]
    sums = {body.registers[n]: Buffer(f"sum{i}", summed_in(n.type.dtype), rows, scratch=True)
            for i, n in enumerate(body.sweeps[0].reductions)}
    position, o = counter("o", nest.outer)
    lane, i = counter("i", nest.outer)
    keep = [loop_ir.Store(b, (o - first).expr(), loop_ir.read(r)) for r, b in sums.items()]
    take = [loop_ir.Assign(r, loop_ir.load(b, (i - first).expr())) for r, b in sums.items()]
    each = For(position, *limits, (*body.begin(0), *_inner_loops(nest, 0, [(axes, o)]), *keep))
    after = For(lane, *limits, (*take, *body.finish(0, nest.axes.where([(axes, i)]))),
                nest.fitting(rows))
    made = kernel(nest, *tasks, [each, after])
    return replace(made, scratch=(*made.scratch, *sums.values()))


def adding_rows(nest: LoopNest, var: Var, task: Index, tasks: int, rows: For, lanes: int
                ) -> list[Kernel]:
    """Rows with sums over them: each task's own, which a second kernel adds up in order."""
    columns, width = nest.body.columns, nest.inner
    parts = {n: Buffer(f"{nest.name}_{b.name}", b.dtype, tasks * width)
             for n, b in columns.items()}
    lane, k = counter("k", width)
    at = (task * width + k).expr()
    totals = _totals_of_columns(nest, rows)
    last = columns | totals
    clear, fold = _blocks_of_rows(columns, totals, lane)
    first = [loop_ir.Store(b, lane, loop_ir.const(identity(n), b.dtype)) for n, b in last.items()]
    keep = [loop_ir.Store(parts[n], at, loop_ir.load(b, lane)) for n, b in last.items()]
    around = [[_whole_row(nest, lane, s, lanes)] if s else [] for s in (clear, fold)]
    blocks = Blocks(nest.machine).cut(rows, TURNS, *around) if totals else [rows]
    whole = [_whole_row(nest, lane, first, lanes), *blocks, _whole_row(nest, lane, keep, lanes)]
    made = kernel(nest, var, tasks, whole)
    made = replace(made, scratch=(*made.scratch, *totals.values()))
    return [made, _total_of_tasks(nest, parts, tasks)]


def _totals_of_columns(nest: LoopNest, rows: For) -> dict[Node, Buffer]:
    """Memory in float64 for sums over many rows, to which blocks of rows are added."""
    if Blocks(nest.machine).turns(rows) <= TURNS:
        return {}
    return {n: Buffer(f"{b.name}_total", WIDE, b.size, scratch=True)
            for n, b in nest.body.columns.items()
            if b.dtype.kind == "f" and OPS[n.op].meaning.combine == "add"}


def _blocks_of_rows(columns: dict[Node, Buffer], totals: dict[Node, Buffer], at: Var
                    ) -> tuple[list[Stmt], list[Stmt]]:
    """What stands before each block of rows, and behind it."""
    clear: list[Stmt] = []
    fold: list[Stmt] = []
    for n, total in totals.items():
        own = columns[n]
        clear.append(loop_ir.Store(own, at, loop_ir.const(identity(n), own.dtype)))
        value = loop_ir.call("cast", (loop_ir.load(own, at),), WIDE)
        both = loop_ir.call("add", (loop_ir.load(total, at), value), WIDE)
        fold.append(loop_ir.Store(total, at, both))
    return clear, fold


def _whole_row(nest: LoopNest, lane: Var, body: Sequence[Stmt], lanes: int) -> For:
    return For(lane, const(0), const(nest.inner), tuple(body), lanes)


def _total_of_tasks(nest: LoopNest, parts: dict[Node, Buffer], count: int) -> Kernel:
    """The second kernel: for each column what the tasks have found for it."""
    blocks, block = chunks(nest.inner, 4 * nest.lanes, nest.machine)
    var, task = counter("task", blocks)
    lane, i = counter("i", nest.inner)
    number, p = counter("p", count)
    body: list[Stmt] = []
    for n, part in parts.items():
        total = Register(part.name, part.dtype)
        term = loop_ir.load(part, (p * nest.inner + i).expr())
        add = loop_ir.Update(total, OPS[n.op].meaning.combine, term)
        body += [loop_ir.Assign(total, loop_ir.const(identity(n), part.dtype)),
                 For(number, const(0), const(count), (add,), 0, 4),
                 loop_ir.Store(nest.body.buffers[n], lane, loop_ir.read(total))]
    loop = For(lane, *bounds(task, block, nest.inner), tuple(body), nest.fitting(block))
    made = kernel(nest, var, blocks, [loop], nest.name + "_total")
    return replace(made, scratch=(), cost=made.cost * count / nest.outer)


def _inner_loops(nest: LoopNest, sweep: int, kept: Any) -> list[Stmt]:
    """The loops of a sweep over the reduced axes: the last of them as lanes."""
    runs = nest.axes.inner
    if not runs:
        return nest.body.step(sweep, nest.axes.where(kept))
    counters = [counter(f"k{n}", nest.axes.size(r)) for n, r in enumerate(runs)]
    if len(runs) > 1 and nest.axes.size(runs[-1]) < nest.lanes // 2:
        var, k = counter("k", nest.inner)
        sizes = [(r, nest.axes.size(r)) for r in runs]
        where = nest.axes.where([*kept, *decode(k, sizes)])
        step = tuple(nest.body.step(sweep, where))
        return [For(var, const(0), const(nest.inner), step, nest.lanes)]
    where = nest.axes.where([*kept, *[(r, k) for r, (_, k) in zip(runs, counters)]])
    body: tuple[Stmt, ...] = tuple(nest.body.step(sweep, where))
    for n in range(len(runs) - 1, -1, -1):
        size = nest.axes.size(runs[n])
        last = n == len(runs) - 1
        body = (For(counters[n][0], const(0), const(size), body, nest.wide(size) if last else 0),)
    return list(body)


# ---- few long rows: pieces of fixed size, so that the result does not depend on the threads
def _pieces(nest: LoopNest) -> list[Kernel]:
    runs = nest.axes.inner
    sizes = [(r, nest.axes.size(r)) for r in runs]
    cut = max(range(len(runs)), key=lambda n: sizes[n][1])
    count, piece = _piece_sizes(sizes[cut][1], nest.inner)
    outer_runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    var, task = counter("task", count * nest.outer)
    kept = decode(task // count, outer_runs) if outer_runs else []
    part = task % count
    partial = _partials(nest, count)
    body: list[Stmt] = list(nest.body.begin(0))
    counters = [counter(f"k{n}", size) for n, (_, size) in enumerate(sizes)]
    where = nest.axes.where([*kept, *[(r, k) for r, (_, k) in zip(runs, counters)]])
    inner: tuple[Stmt, ...] = tuple(nest.body.step(0, where))
    for n in range(len(runs) - 1, -1, -1):
        limits = bounds(part, piece, sizes[n][1]) if n == cut else (const(0), const(sizes[n][1]))
        last = n == len(runs) - 1
        inner = (For(counters[n][0], *limits, inner, nest.wide(piece) if last else 0),)
    body += inner
    body += [loop_ir.Store(partial[r], task.expr(), loop_ir.read(nest.body.registers[r]))
             for r in nest.body.sweeps[0].reductions]
    first = kernel(nest, var, count * nest.outer, body)
    return [first, _gather_pieces(nest, partial, count)]


def _piece_sizes(longest: int, inner: int) -> tuple[int, int]:
    rest = max(1, inner // longest)
    piece = max(1, _PARTIAL // rest)
    return -(-longest // piece), piece


def _partials(nest: LoopNest, count: int) -> dict[Node, Buffer]:
    return {r: Buffer(f"{nest.name}_part{i}", summed_in(r.type.dtype), count * nest.outer)
            for i, r in enumerate(nest.body.sweeps[0].reductions)}


def _gather_pieces(nest: LoopNest, partial: dict[Node, Buffer], count: int) -> Kernel:
    """The second kernel: adds up the pieces in order, then what follows the reduction."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    var, _ = counter("task", 1)
    position, o = counter("o", nest.outer)
    number, p = counter("p", count)
    body: list[Stmt] = list(nest.body.begin(0))
    body.append(For(number, const(0), const(count), tuple(
        loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine,
                       loop_ir.load(b, (o * count + p).expr())) for r, b in partial.items())))
    body += nest.body.finish(0, nest.axes.where(decode(o, runs) if runs else []))
    return kernel(nest, var, 1, [For(position, const(0), const(nest.outer), tuple(body))],
                  nest.name + "_total")


# ---- reductions along other axes: lanes run along the last kept one
def _columns(nest: LoopNest) -> list[Kernel]:
    width = nest.axes.size(nest.axes.kept[-1])
    if nest.inner <= SHORT and width < nest.lanes // 2 < nest.outer:
        return [_short_rows(nest)]
    rows = nest.outer // width
    block = min(4 * nest.lanes, width) if nest.inner > SHORT else width
    blocks = -(-width // block)
    if blocks * rows < 4 and nest.inner * width > 4 * _TASK and len(nest.body.sweeps) == 1:
        return _column_pieces(nest, width)
    if rows > 1 and nest.inner * width < _TASK:
        return [_many_columns(nest, rows, width)]
    var, task = counter("task", rows * blocks)
    body = _column_block(nest, task // blocks, bounds(task % blocks, block, width), None)
    return [kernel(nest, var, rows * blocks, body)]


def _many_columns(nest: LoopNest, rows: int, width: int) -> Kernel:
    """Small blocks of columns, many of them in a task."""
    tasks, piece = chunks(rows, nest.worth(nest.inner * width), nest.machine)
    var, task = counter("task", tasks)
    position, row = counter("o", rows)
    body = _column_block(nest, row, (const(0), const(width)), None)
    return kernel(nest, var, tasks, [For(position, *bounds(task, piece, rows), tuple(body))])


def _short_rows(nest: LoopNest) -> Kernel:
    """Lanes over all positions, found by division, and in each the unrolled reduction."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    tasks, piece = chunks(nest.outer, max(nest.lanes, nest.worth(4 * nest.inner)), nest.machine)
    piece = -(-piece // nest.lanes) * nest.lanes
    tasks = -(-nest.outer // piece)
    var, task = counter("task", tasks)
    lane, i = counter("i", nest.outer)
    kept = decode(i, runs)
    body: list[Stmt] = []
    for s in range(len(nest.body.sweeps)):
        body += nest.body.begin(s)
        body += _unrolled(nest, s, kept)
        body += nest.body.finish(s, nest.axes.where(kept))
    return kernel(nest, var, tasks, [For(lane, *bounds(task, piece, nest.outer), tuple(body),
                                         nest.lanes)])


def _unrolled(nest: LoopNest, sweep: int, kept: Any) -> list[Stmt]:
    """Every step of a short sweep, one after the other."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.inner]
    out: list[Stmt] = []
    for k in range(nest.inner):
        position = decode(as_index(k), runs) if runs else []
        out += nest.body.step(sweep, nest.axes.where([*kept, *position]))
    return out


def _column_block(
    nest: LoopNest, row: Index, limits: tuple[Expr, Expr],
    piece: tuple[tuple[Expr, Expr], dict[Node, Buffer], Index] | None,
) -> list[Stmt]:
    """Lanes over columns, and in each lane the sweeps over the reduced axes."""
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    lane, i = counter("i", runs[-1][1])
    kept = [*(decode(row, runs[:-1]) if runs[:-1] else []), (runs[-1][0], i)]
    body: list[Stmt] = []
    for s in range(len(nest.body.sweeps)):
        body += nest.body.begin(s)
        body += _column_sweep(nest, s, kept, piece[0] if piece else None)
        if piece is None:
            body += nest.body.finish(s, nest.axes.where(kept))
    if piece is not None:
        _, partial, number = piece
        at = (number * nest.outer + row * runs[-1][1] + i).expr()
        body += [loop_ir.Store(b, at, loop_ir.read(nest.body.registers[r])) for r,
                 b in partial.items()]
    return [For(lane, *limits, tuple(body), _column_lanes(nest, runs[-1][1]))]


def _column_lanes(nest: LoopNest, width: int) -> int:
    """Lanes over columns; several vectors of them where one sum would wait for itself."""
    waits = nest.inner > SHORT and nest.cost <= _WAITS and \
        len(nest.body.sweeps) == len(nest.body.sweeps[0].reductions) == 1
    return nest.fitting(width, 4 if waits else 1)


def _column_sweep(
    nest: LoopNest, sweep: int, kept: Any, limits: tuple[Expr, Expr] | None
) -> list[Stmt]:
    runs = nest.axes.inner
    if nest.inner <= SHORT and limits is None:
        return _unrolled(nest, sweep, kept)
    counters = [counter(f"k{n}", nest.axes.size(r)) for n, r in enumerate(runs)]
    where = nest.axes.where([*kept, *[(r, k) for r, (_, k) in zip(runs, counters)]])
    body: tuple[Stmt, ...] = tuple(nest.body.step(sweep, where))
    for n in range(len(runs) - 1, -1, -1):
        ends = limits if n == 0 and limits else (const(0), const(nest.axes.size(runs[n])))
        body = (For(counters[n][0], *ends, body, 0, 4 if n == len(runs) - 1 else 1),)
    return list(body)


def _column_pieces(nest: LoopNest, width: int) -> list[Kernel]:
    first = nest.axes.size(nest.axes.inner[0])
    rest = max(1, nest.inner // first) * width
    piece = max(1, _PARTIAL // rest)
    count = -(-first // piece)
    rows = nest.outer // width
    partial = _partials(nest, count)
    var, task = counter("task", count * rows)
    number = task % count
    body = _column_block(nest, task // count, (const(0), const(width)),
                         (bounds(number, piece, first), partial, number))
    return [kernel(nest, var, count * rows, body), _total_columns(nest, partial, count, width)]


def _total_columns(nest: LoopNest, partial: dict[Node, Buffer], count: int, width: int) -> Kernel:
    runs = [(r, nest.axes.size(r)) for r in nest.axes.kept]
    rows = nest.outer // width
    var, task = counter("task", rows)
    lane, i = counter("i", width)
    number, p = counter("p", count)
    kept = [*(decode(task, runs[:-1]) if runs[:-1] else []), (runs[-1][0], i)]
    at = (p * nest.outer + task * width + i).expr()
    body: list[Stmt] = list(nest.body.begin(0))
    body.append(For(number, const(0), const(count), tuple(
        loop_ir.Update(nest.body.registers[r], OPS[r.op].meaning.combine, loop_ir.load(b, at))
        for r, b in partial.items())))
    body += nest.body.finish(0, nest.axes.where(kept))
    return kernel(nest, var, rows, [For(lane, const(0), const(width), tuple(body), nest.lanes)],
                  nest.name + "_total")
