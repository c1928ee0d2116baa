"""Tiles reductions in registers: several results at a time share their reads.

A result of `sum(x[row, None, :] * w[None, column, :], axis=-1)` reads a row of each operand. Where
the rows are few, or their number has a small divisor, the code of several rows stands side by side
in one loop. So each element of `w`, and all arithmetic that depends on `w` only, is computed once
for all of them, such as the conversion of weights in few bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fusion.fusion import MAX_UNROLLED_REDUCTION
from ..ir import loop_ir
from ..ir.affine_index import Index, counter
from ..ir.loop_ir import Expr, Var
from ..ir.op_cost import expression_cost
from ..ir.sizes import Size, is_dynamic
from .loop_body import LoopBody
from .loop_nest import LoopNest

_MAX_ROWS = 8  # results at a time
_MIN_SHARED_WORK = 0.5  # of the work of a result; with less, more streams of memory cost more
Position = list[tuple[list[int], Index]]  # the index of each run of axes


@dataclass(frozen=True)
class RegisterTile:
    """The results that are computed at a time: `rows` neighbours along the `run` of axes."""

    run: list[int]
    rows: int

    def bodies(self, nest: LoopNest) -> list[LoopBody]:
        """The loop body of each result, with registers of its own."""
        return [nest.body.with_own_sums(0, str(t)) for t in range(self.rows)]

    def vectors(self, nest: LoopNest) -> int:
        """The number of vectors of each result that fit into registers."""
        return max(1, min(nest.vectors, nest.machine.registers // 2 // self.rows))

    def size(self, run: list[int], size: int) -> int:
        """The number of steps along a run of `size` results."""
        return size // self.rows if run is self.run else size

    def position(self, outer: Position, row: int) -> Position:
        """The position of a result, from that of its tile."""
        return [(r, i * self.rows + row if r is self.run else i) for r, i in outer]


def register_tile(nest: LoopNest) -> RegisterTile | None:
    """The largest tile whose results share operands, or None where it does not pay.

    Only sums over one sweep that store no other values are tiled.
    """
    body, axes = nest.body, nest.axes
    if len(body.sweeps) != 1 or body.sweeps[0].elementwise or body.column_sums:
        return None
    if is_dynamic(nest.inner_size) or nest.inner_size <= MAX_UNROLLED_REDUCTION:
        return None
    counters = [(run, *counter(f"run{n}", axes.size(run)))
                for n, run in enumerate((*axes.outer, *axes.inner))]
    where = axes.where([(run, index) for run, _, index in counters])
    expressions = [e for s in body.element_statements(0, where) for e in loop_ir.expressions(s)]
    tiles = [RegisterTile(run, _rows(axes.size(run))) for run, var, _ in counters
             if run in axes.outer and _shared_work(expressions, var) >= _MIN_SHARED_WORK]
    return max((t for t in tiles if t.rows > 1), key=lambda t: t.rows, default=None)


def _rows(size: Size) -> int:
    """The largest divisor of a number of results that fits into a tile."""
    if is_dynamic(size):
        return 1
    return max(n for n in range(1, _MAX_ROWS + 1) if size % n == 0)


def _shared_work(expressions: list[Expr], var: Var) -> float:
    """The fraction of the work that is the same for all values of `var`."""
    shared = [e for e in loop_ir.subexpressions(expressions)
              if var not in loop_ir.subexpressions([e])]
    return expression_cost(shared, False) / max(1.0, expression_cost(expressions, False))
