"""Finds loads of pointwise kernels that are contiguous along another axis than the result, and
transposes square blocks of them in registers.

Vectors of the result are then read from a block in the innermost cache. Without it, each lane would
be read from another line of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter, variable
from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import Call, Const, Expr, For, Kernel, KernelBuffer, Load, Stmt, Var, const
from ..ir.sizes import ceil_div, is_dynamic, upper_bound
from ..ir.subexpressions import evaluation_order
from .loop_body import decode
from .loop_nest import LoopNest, kernel
from .partition_work import chunk_bounds, split_into_tasks

CoalescedAxes = tuple[list[int], int]  # axes that are one loop, and their common size


class TransposedReads(NamedTuple):
    """The statements of a kernel over the variables of its axes, the loads to transpose, and the
    axis along which these are contiguous."""

    body: list[Stmt]
    variables: list[Index]
    loads: list[Load]
    axis: int

    def substitution(self, coordinates: Mapping[int, Index]) -> dict[Expr, Expr]:
        """Maps the variables of the axes to coordinates."""
        return {next(iter(i.terms)): coordinates[n].expr()
                for n, i in enumerate(self.variables) if i.terms}


def transposed_reads(nest: LoopNest, runs: Sequence[CoalescedAxes], least: int, least_last: int
                     ) -> TransposedReads | None:
    """The loads of a pointwise kernel that are worth a transpose; None if there are none.

    `least`: the smallest size of the axis along which they are contiguous
    `least_last`: the smallest size of the last axis
    """
    if len(runs) < 2 or upper_bound(runs[-1][1]) < least_last:
        return None
    variables = [variable(f"run{n}", size) for n, (_, size) in enumerate(runs)]
    coordinates = [(r, i) for (r, _), i in zip(runs, variables)]
    body = nest.body.element_statements(0, nest.axes.where(coordinates))
    loads = [e for e in loop_ir.subexpressions(e for s in body for e in loop_ir.expressions(s))
             if isinstance(e, Load)]
    axis_of_load = {e: n for e in loads
                    if (n := _contiguous_axis(e, runs, variables, least)) is not None}
    if not axis_of_load:
        return None
    axis, _ = Counter(axis_of_load.values()).most_common(1)[0]
    return TransposedReads(body, variables, [e for e, n in axis_of_load.items() if n == axis], axis)


def _contiguous_axis(e: Load, runs: Sequence[CoalescedAxes], variables: list[Index], least: int
                     ) -> int | None:
    """The number of the axis along which a load is contiguous; None if it is the last one or there
    is none."""
    terms, _ = linear_form(e.index)
    names = [next(iter(i.terms), None) for i in variables]
    if e.mask is not None or any(x not in names for x in terms):
        return None
    strides = [terms.get(x, 0) if x is not None else 0 for x in names]
    if strides[-1] in (-1, 0, 1):
        return None
    return next((n for n, stride in enumerate(strides[:-1])
                 if stride == 1 and upper_bound(runs[n][1]) >= least), None)


# ---- the kernel of a CPU
class _Block(NamedTuple):
    """A block of the result: `rows` along the contiguous axis of the loads, `lanes` wide."""

    row: Index
    rows: int
    first: Index
    lanes: int


def lower_transposed(nest: LoopNest, runs: Sequence[CoalescedAxes]) -> Kernel | None:
    """The kernel that transposes blocks of strided loads, or None where there are none."""
    if any(is_dynamic(size) for _, size in runs):
        return None
    found = transposed_reads(nest, runs, nest.lanes, 2)
    if found is None:
        return None
    itemsize = nest.machine.vector_bytes // nest.lanes
    loads = [e for e in found.loads if e.dtype.itemsize == itemsize]
    return _Blocks(nest, runs, found._replace(loads=loads)).kernel() if loads else None


class _Blocks:
    """The loops over blocks: a block is a square of a vector's lanes."""

    def __init__(self, nest: LoopNest, runs: Sequence[CoalescedAxes], reads: TransposedReads
                 ) -> None:
        self.nest, self.runs, self.reads, self.side = nest, runs, reads, nest.lanes
        self.tiles = {e: KernelBuffer(f"tile{n}", e.dtype, self.side ** 2, scratch=True)
                      for n, e in enumerate(reads.loads)}

    def kernel(self) -> Kernel:
        """The kernel, with tasks over rows of blocks."""
        nest, side, last = self.nest, self.side, len(self.runs) - 1
        rows, width = self.runs[self.reads.axis][1], self.runs[last][1]
        others = [n for n in range(last) if n != self.reads.axis]
        row_blocks = ceil_div(rows, side)
        total = nest.outer_size // (rows * width) * row_blocks
        tasks, chunk = split_into_tasks(total, nest.chunks_per_task(side * width), nest.machine)
        var, task = counter("task", tasks)
        position, p = counter("o", total)
        outer = dict(zip(others, (i for _, i in decode(p // row_blocks,
                                                       [self.runs[n] for n in others]))))
        body = self._row_of_blocks(p % row_blocks, outer)
        loop = For(position, *chunk_bounds(task, chunk, total), tuple(body))
        lowered = kernel(nest, var, tasks, [loop])
        return replace(lowered, scratch=(*lowered.scratch, *self.tiles.values()))

    def _row_of_blocks(self, number: Index, outer: Mapping[int, Index]) -> list[Stmt]:
        """The blocks of one row of them; the last row may have fewer rows of elements."""
        full, rest = divmod(self.runs[self.reads.axis][1], self.side)
        whole = self._along_width(number * self.side, self.side, outer)
        if not rest:
            return whole
        partial = self._along_width(as_index(full * self.side), rest, outer)
        is_whole, is_partial = (loop_ir.call(op, (number.expr(), const(full)), loop_ir.BOOL)
                                for op in ("lt", "eq"))
        return [loop_ir.If(is_whole, tuple(whole)), loop_ir.If(is_partial, tuple(partial))]

    def _along_width(self, row: Index, rows: int, outer: Mapping[int, Index]) -> list[Stmt]:
        width = self.runs[-1][1]
        if rows < self.side:  # no square block: each lane is read by itself
            return self._elements(_Block(row, rows, as_index(0), width), outer, {})
        count, rest = divmod(width, self.side)
        statements: list[Stmt] = []
        if count:
            block, b = counter("block", count)
            body = self._block(_Block(row, rows, b * self.side, self.side), outer)
            statements.append(For(block, const(0), const(count), tuple(body)))
        if rest:
            first = as_index(count * self.side)
            statements += self._block(_Block(row, rows, first, rest), outer)
        return statements

    def _block(self, block: _Block, outer: Mapping[int, Index]) -> list[Stmt]:
        corner = self.reads.substitution(self._coordinates(block.row, block.first, outer))
        transposes: list[Stmt] = [
            loop_ir.Transpose(tile, const(0), self.side, e.buffer, substitute(e.index, corner),
                              self._distance(e), self.side, block.lanes)
            for e, tile in self.tiles.items()]
        return [*transposes, *self._elements(block, outer, self.tiles)]

    def _distance(self, e: Load) -> int:
        """The elements from lane to lane of a load."""
        terms, _ = linear_form(e.index)
        return int(terms[next(iter(self.reads.variables[-1].terms))])

    def _elements(self, block: _Block, outer: Mapping[int, Index],
                  tiles: Mapping[Load, KernelBuffer]) -> list[Stmt]:
        """The loops over the elements of a block, with loads from the tiles."""
        (row, r), lane = counter("row", block.rows), Var("i")
        j = atom(lane, (0, block.lanes - 1))
        at = self.reads.substitution(self._coordinates(block.row + r, block.first + j, outer))
        at |= {e: loop_ir.load(tile, (r * self.side + j).expr()) for e, tile in tiles.items()}
        body = tuple([substitute_in(s, at) for s in self.reads.body])
        lanes = For(lane, const(0), const(block.lanes), body, self.nest.lanes_for(block.lanes))
        return [For(row, const(0), const(block.rows), (lanes,))]

    def _coordinates(self, row: Index, column: Index, outer: Mapping[int, Index]
                     ) -> dict[int, Index]:
        return {**outer, self.reads.axis: row, len(self.runs) - 1: column}


# ---- substitution
def substitute_in(s: Stmt, substitution: Mapping[Expr, Expr]) -> Stmt:
    """A statement of a pointwise kernel in which some expressions are replaced by others."""
    if isinstance(s, loop_ir.Store):
        return loop_ir.Store(s.buffer, substitute(s.index, substitution),
                             substitute(s.value, substitution))
    assert isinstance(s, loop_ir.Assign), s  # pointwise kernels have no other statements
    return loop_ir.Assign(s.register, substitute(s.value, substitution))


def substitute(root: Expr, substitution: Mapping[Expr, Expr]) -> Expr:
    """An expression in which some subexpressions are replaced by others."""
    new = dict(substitution)
    for e in evaluation_order(root, new.__contains__):
        new[e] = _rebuild(e, new)
    return root if isinstance(root, Const) else new[root]


def _rebuild(e: Expr, new: Mapping[Expr, Expr]) -> Expr:
    def rebuilt(x: Expr) -> Expr:
        return x if isinstance(x, Const) else new[x]

    if isinstance(e, Call):
        return loop_ir.call(e.op, tuple(map(rebuilt, e.args)), e.dtype)
    if isinstance(e, Load):
        mask = None if e.mask is None else rebuilt(e.mask)
        return loop_ir.load(e.buffer, rebuilt(e.index), mask, None
                            if e.other is None else rebuilt(e.other))
    return e
