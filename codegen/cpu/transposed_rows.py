"""Transposes the operands of reductions whose elements of a row are far apart in memory.

Neighbouring rows then are contiguous, as in a layer norm over the channels of an image. A task
transposes blocks of as many rows as a vector has lanes, in registers, and computes each row from
the scratch memory that holds them. Without it, each lane of each sweep would be read from another
line of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter, variable
from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import Expr, For, Kernel, KernelBuffer, Load, Stmt, Var, const
from ..ir.sizes import ceil_div, is_dynamic
from .loop_body import decode
from .loop_nest import LoopNest, kernel
from .partition_work import chunk_bounds, split_into_tasks
from .transposed_reads import substitute

_MAX_BLOCK_BYTES = 1 << 17  # of an operand, which stays in the second cache

Rows = Callable[[list[tuple[list[int], Index]]], list[Stmt]]


class _Operand(NamedTuple):
    """A buffer whose rows are transposed: its index at the first element of the first row of a
    block, as terms and a constant, and the distance of the elements of a row."""

    buffer: KernelBuffer
    terms: tuple[tuple[Expr, Any], ...]
    first: int
    distance: int


def transposed_rows(nest: LoopNest, row: Rows) -> Kernel | None:
    """The kernel that transposes blocks of rows; None where no operand is worth it.

    `row`: the statements that compute the row at a position of the outer axes."""
    sizes = [nest.axes.size(r) for r in (*nest.axes.outer, *nest.axes.inner)]
    if len(nest.axes.inner) != 1 or nest.body.column_sums or any(map(is_dynamic, sizes)) \
            or nest.inner_size < nest.lanes // 2:
        return None
    places = [variable(f"run{n}", size) for n, size in enumerate(sizes[:-1])]
    body = row(list(zip(nest.axes.outer, places)))
    for axis, (place, size) in enumerate(zip(places, sizes)):
        if size >= max(nest.lanes, 2) and _operands(body, next(iter(place.terms)), nest):
            return _TransposedRows(nest, row, axis).kernel()
    return None


def _operands(body: Sequence[Stmt], row: Expr, nest: LoopNest
              ) -> dict[Load, tuple[_Operand, Var]]:
    """The loads of contiguous rows with distant elements, and the variables that count these.

    `row`: the variable that counts the rows"""
    operands: dict[Load, tuple[_Operand, Var]] = {}
    statements = list(loop_ir.walk(tuple(body)))
    counters = [s.var for s in statements if isinstance(s, For)]
    for e in loop_ir.subexpressions(e for s in statements for e in loop_ir.expressions(s)):
        if not isinstance(e, Load) or not _fits(e, nest):
            continue
        terms, first = linear_form(e.index)
        inner = [v for v in counters if v in terms]
        distance = terms.pop(inner[0]) if len(inner) == 1 else 0
        if terms.pop(row, 0) == 1 and isinstance(distance, int) and distance >= nest.lanes \
                and not {row, *counters} & {*loop_ir.subexpressions(terms)}:
            operands[e] = _Operand(e.buffer, tuple(terms.items()), first, distance), inner[0]
    return operands


def _fits(e: Load, nest: LoopNest) -> bool:
    """True if blocks of a load can be transposed in registers, and stay in a cache."""
    itemsize = nest.machine.vector_bytes // nest.lanes
    return e.mask is None and not e.buffer.scratch and e.dtype.itemsize == itemsize \
        and nest.lanes * nest.inner_size * itemsize <= _MAX_BLOCK_BYTES


class _TransposedRows:
    """The loops over blocks of rows, neighbours along one of the outer axes."""

    def __init__(self, nest: LoopNest, row: Rows, axis: int) -> None:
        self.nest, self.row, self.axis, self.side = nest, row, axis, nest.lanes
        self.count = nest.axes.size(nest.axes.outer[axis])  # rows along the axis
        whole = -(-nest.inner_size // self.side) * self.side
        self.pitch = whole + self.side  # keeps rows in different cache sets
        self.tiles: dict[_Operand, KernelBuffer] = {}

    def kernel(self) -> Kernel:
        """The kernel, with tasks over blocks."""
        nest, runs = self.nest, [(r, self.nest.axes.size(r)) for r in self.nest.axes.outer]
        blocks = ceil_div(self.count, self.side)
        total = nest.outer_size // self.count * blocks
        smallest = nest.chunks_per_task(self.side * nest.inner_size)
        tasks, chunk = split_into_tasks(total, smallest, nest.machine)
        (var, task), (position, p) = counter("task", tasks), counter("o", total)
        runs[self.axis] = runs[self.axis][0], blocks
        loop = For(position, *chunk_bounds(task, chunk, total), tuple(self._block(decode(p, runs))))
        lowered = kernel(nest, var, tasks, [loop])
        return replace(lowered, scratch=(*lowered.scratch, *self.tiles.values()))

    def _block(self, outer: list[tuple[list[int], Index]]) -> list[Stmt]:
        """The statements of a block; the last one along the axis may have fewer rows."""
        number = outer[self.axis][1]
        full, rest = divmod(self.count, self.side)
        whole = self._rows(outer, number * self.side, self.side)
        if not rest:
            return whole
        partial = self._rows(outer, as_index(full * self.side), rest)
        is_whole, is_partial = (loop_ir.call(op, (number.expr(), const(full)), loop_ir.BOOL)
                                for op in ("lt", "eq"))
        return [loop_ir.If(is_whole, tuple(whole)), loop_ir.If(is_partial, tuple(partial))]

    def _rows(self, outer: list[tuple[list[int], Index]], first: Index, rows: int) -> list[Stmt]:
        """The statements of some rows. Fewer than a vector are read where they are."""
        line, r = counter("row", rows)
        at = [*outer]
        at[self.axis] = outer[self.axis][0], first + r
        body = self.row(at)
        loop = For(line, const(0), const(rows), tuple(body))
        if rows < self.side:
            return [loop]
        operands = _operands(body, line, self.nest)
        loads: dict[Expr, Expr] = {e: self._load(operand, r, k)
                                   for e, (operand, k) in operands.items()}
        transposes = [s for operand in dict.fromkeys(operand for operand, _ in operands.values())
                      for s in self._transposed(operand)]
        return [*transposes, _replaced(loop, loads)]

    def _load(self, operand: _Operand, r: Index, k: Var) -> Expr:
        """The element of a row, read from the scratch memory."""
        tile = self.tiles.setdefault(operand, KernelBuffer(
            f"rows{len(self.tiles)}", operand.buffer.dtype, self.side * self.pitch, scratch=True))
        return loop_ir.load(tile, (r * self.pitch + Index({k: 1})).expr())

    def _transposed(self, operand: _Operand) -> list[Stmt]:
        """Statements that transpose a block of rows."""
        full, rest = divmod(self.nest.inner_size, self.side)
        block, b = counter("block", full)
        start = Index(dict(operand.terms), operand.first)

        def square(number: Index, lanes: int) -> Stmt:
            source = start + number * (self.side * operand.distance)
            return loop_ir.Transpose(self.tiles[operand], (number * self.side).expr(), self.pitch,
                                     operand.buffer, source.expr(), operand.distance, self.side,
                                     lanes)

        loops: list[Stmt] = [For(block, const(0), const(full), (square(b, self.side),))] \
            if full else []
        return [*loops, square(as_index(full), rest)] if rest else loops


def _replaced(s: Stmt, loads: dict[Expr, Expr]) -> Any:
    """A statement with other expressions in the place of some loads."""
    if isinstance(s, For):
        return replace(s, body=tuple(_replaced(x, loads) for x in s.body))
    if isinstance(s, (loop_ir.Store, loop_ir.Assign, loop_ir.Update)):
        return replace(s, value=substitute(s.value, loads))
    raise AssertionError(s)  # rows have no other statements
