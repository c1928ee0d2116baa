"""Tiles of 16-bit floats, multiplied by tensor cores.

In shared memory the summed elements of a row or column are contiguous. A thread copies
VECTOR_ELEMENTS of them at once if they are contiguous and aligned in memory, too, else a pair.
Products are exact, accumulators are float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.loop_ir import For, KernelBuffer, Stmt, const
from .configs import TensorTile, TileConfig
from .contraction import GpuContraction, at_most
from .kernel import TileKernel

VECTOR_ELEMENTS, PAIR_ELEMENTS = 8, 2  # that a thread copies at once
CONTIGUOUS_THREADS = 16  # that copy neighbours: 32 bytes, a memory sector
THREAD_GROUPS = 2  # of CONTIGUOUS_THREADS, in a warp


class MmaKernel(TileKernel):
    """A thread block whose warps multiply by tensor cores."""

    tile: TensorTile

    def __init__(self, contraction: GpuContraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        tile, dtype = self.tile, contraction.node.inputs[0].type.dtype
        self.scratch = tuple([KernelBuffer(name, dtype, count * tile.pitch, scratch=True)
                              for name, count in (("rows", tile.rows), ("columns", tile.columns))])

    def read(self, side: int, block: Index) -> list[Stmt]:
        contraction, tile, (operand, extent) = self.contraction, self.tile, self.side(side)
        contiguous = contraction.reads_along_summed(operand)
        aligned = contiguous and contraction.depth % VECTOR_ELEMENTS == 0
        vector = VECTOR_ELEMENTS if aligned else PAIR_ELEMENTS
        units = tile.depth // vector
        count = extent * units
        lane, i = counter("i", count)
        position, unit = (i // units, i % units) if contiguous else _row_and_unit(i, extent)
        var, n = counter("n", vector)
        value = self.element(side, position, *self._summed_element(block * units + unit, n, vector))
        index = position * tile.pitch + unit * vector + n
        store = loop_ir.Store(self.scratch[side], index.expr(), value.expr)
        inner = For(var, const(0), const(vector), (store,), 0, vector)
        return [For(lane, const(0), const(count), (inner,), tile.threads)]

    def _summed_element(self, unit: Index, n: Index, vector: int) -> tuple[Index, Any]:
        """The n-th summed element of a unit, and a condition that is True where it exists."""
        contraction = self.contraction
        if contraction.depth % vector == 0:  # a unit is inside or outside as a whole
            units = contraction.depth // vector
            return at_most(unit, units - 1) * vector + n, unit < units
        k = unit * vector + n
        return k, contraction.is_inside(k, contraction.summed)

    def multiply(self) -> Stmt:
        rows, columns = self.scratch
        return loop_ir.Mma(self.accumulators, rows, columns, self.tile.fragments)

    def accumulator_groups(self, thread: Index) -> Iterator[tuple[int, Index, Index]]:
        fragments = self.tile.fragments
        return ((n, fragments.row(thread, n), fragments.column(thread, n))
                for n in range(0, self.tile.accumulators, self.tile.vector))


def _row_and_unit(i: Index, extent: int) -> tuple[Index, Index]:
    """The row (or column) and the unit that the i-th copy takes, for operands whose rows or columns
    are contiguous. The groups of a warp take units that are neighbours in shared memory."""
    rest, across = i // (CONTIGUOUS_THREADS * THREAD_GROUPS), extent // CONTIGUOUS_THREADS
    position = rest % across * CONTIGUOUS_THREADS + i % CONTIGUOUS_THREADS
    return position, rest // across * THREAD_GROUPS + i // CONTIGUOUS_THREADS % THREAD_GROUPS
