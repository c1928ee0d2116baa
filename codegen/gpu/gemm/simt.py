"""Tiles multiplied by threads, each of which has some rows and some columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.builder import cast
from ...ir.loop_ir import For, KernelBuffer, Register, Stmt, const
from .configs import SimtTile, TileConfig
from .contraction import GpuContraction
from .kernel import TileKernel


class SimtKernel(TileKernel):
    """A thread block whose threads multiply by scalar instructions."""

    tile: SimtTile

    def __init__(self, contraction: GpuContraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        tile, dtype = self.tile, contraction.dtype
        self.blocks = [KernelBuffer(n, dtype, tile.depth * p, scratch=True)
                       for n, p in zip(("rows", "columns"), tile.pitch)]
        self.factors = [KernelBuffer(n, dtype, tile.threads * tile.per_thread, scratch=True)
                        for n in ("left", "right")]
        self.scratch = (*self.blocks, *self.factors)

    # ---- operands
    def read(self, side: int, block: Index) -> list[Stmt]:
        contraction, tile, (operand, extent) = self.contraction, self.tile, self.side(side)
        count = extent * tile.depth
        lane, i = counter("i", count)
        if contraction.reads_along_summed(operand):
            position, k = i // tile.depth, i % tile.depth
        else:
            k, position = i // extent, i % extent
        summed_index = block * tile.depth + k
        inside = contraction.is_inside(summed_index, contraction.summed)
        value = cast(self.element(side, position, summed_index, inside), contraction.dtype)
        store = loop_ir.Store(self.blocks[side], (k * tile.pitch[side] + position).expr(),
                              value.expr)
        return [For(lane, const(0), const(count), (store,), tile.threads)]

    # ---- sums
    def multiply(self) -> For:
        contraction, per_thread = self.contraction, self.tile.per_thread
        lane, t = counter("t", self.tile.threads)
        sums = [Register(f"s{n}", contraction.dtype) for n in range(per_thread * per_thread)]
        var, k = counter("k", self.tile.depth)
        steps = [s for side in (0, 1) for s in self._load_factors(side, t, k)]
        for i, j in itertools.product(range(per_thread), repeat=2):
            factors = self._factor(0, t, i), self._factor(1, t, j)
            product = loop_ir.call("mul", factors, contraction.dtype)
            steps.append(loop_ir.Update(sums[i * per_thread + j], "add", product))
        indices = [self.accumulator_index(t, n).expr() for n in range(len(sums))]
        loads = [loop_ir.Assign(r, loop_ir.load(self.accumulators, index))
                 for r, index in zip(sums, indices)]
        stores = [loop_ir.Store(self.accumulators, index, loop_ir.read(r))
                  for r, index in zip(sums, indices)]
        return self.lanes([*loads, For(var, const(0), const(self.tile.depth), tuple(steps), 0,
                                       self.tile.unroll), *stores], lane)

    def _load_factors(self, side: int, thread: Index, k: Index) -> list[Stmt]:
        """Loads a thread's rows or columns for one summed element, one vector after the other."""
        per_thread, vector = self.tile.per_thread, self.tile.vector
        out: list[Stmt] = []
        for first in range(0, per_thread, vector):
            var, n = counter("n", vector)
            index = k * self.tile.pitch[side] + self._position_in_tile(side, thread, first) + n
            value = loop_ir.load(self.blocks[side], index.expr())
            store = loop_ir.Store(self.factors[side], (thread * per_thread + first + n).expr(),
                                  value)
            out.append(For(var, const(0), const(vector), (store,), 0, vector))
        return out

    def _factor(self, side: int, thread: Index, n: int) -> loop_ir.Expr:
        return loop_ir.load(self.factors[side], (thread * self.tile.per_thread + n).expr())

    def _position_in_tile(self, side: int, thread: Index, n: int) -> Index:
        """The row (side 0) or column (side 1) in the tile of a thread's n-th one. Vectors of all
        threads alternate."""
        tile, vector = self.tile, self.tile.vector
        across = tile.columns // tile.per_thread
        own_number = thread % across if side else thread // across
        threads = across if side else tile.rows // tile.per_thread
        return own_number * vector + n // vector * threads * vector + n % vector

    def accumulator_groups(self, thread: Index) -> Iterator[tuple[int, Index, Index]]:
        per_thread = self.tile.per_thread
        return ((i * per_thread + j, self._position_in_tile(0, thread, i),
                 self._position_in_tile(1, thread, j))
                for i in range(per_thread) for j in range(0, per_thread, self.tile.vector))
