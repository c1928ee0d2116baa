"""Tiles whose products are computed by threads, each of which has some rows and some columns."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.builder import cast
from ...ir.loop_ir import Buffer, For, Register, Stmt, const
from .configs import Tile, TileConfig
from .contraction import GpuContraction
from .kernel import TileKernel


class SimtKernel(TileKernel):
    """A team whose threads multiply."""

    tile: Tile

    def __init__(self, of: GpuContraction, way: TileConfig) -> None:
        super().__init__(of, way)
        tile, dtype = self.tile, of.dtype
        self.blocks = [Buffer(n, dtype, tile.depth * p, scratch=True)
                       for n, p in zip(("rows", "columns"), tile.pitch)]
        self.factors = [Buffer(n, dtype, tile.threads * tile.own, scratch=True)
                        for n in ("left", "right")]
        self.scratch = (*self.blocks, *self.factors)

    # ---- operands
    def read(self, side: int, block: Index) -> list[Stmt]:
        of, tile, (operand, wide) = self.of, self.tile, self.side(side)
        count = wide * tile.depth
        lane, i = counter("i", count)
        if of.steps(operand):
            own, k = i // tile.depth, i % tile.depth
        else:
            k, own = i // wide, i % wide
        at = block * tile.depth + k
        value = cast(self.element(side, own, at, of.is_inside(at, of.summed)), of.dtype)
        store = loop_ir.Store(self.blocks[side], (k * tile.pitch[side] + own).expr(), value.expr)
        return [For(lane, const(0), const(count), (store,), tile.threads)]

    # ---- sums
    def multiply(self) -> For:
        of, own = self.of, self.tile.own
        lane, t = counter("t", self.tile.threads)
        sums = [Register(f"s{n}", of.dtype) for n in range(own * own)]
        var, k = counter("k", self.tile.depth)
        steps = [s for side in (0, 1) for s in self._factors(side, t, k)]
        steps += [loop_ir.Update(sums[i * own + j], "add", loop_ir.call(
            "mul", (self._factor(0, t, i), self._factor(1, t, j)), of.dtype))
            for i in range(own) for j in range(own)]
        took = [loop_ir.Assign(r, loop_ir.load(self.sums, self.own(t, n).expr()))
                for n, r in enumerate(sums)]
        gave = [loop_ir.Store(self.sums, self.own(t, n).expr(), loop_ir.read(r))
                for n, r in enumerate(sums)]
        return self.lanes([*took, For(var, const(0), const(self.tile.depth), tuple(steps), 0,
                                      self.tile.unrolled), *gave], lane)

    def _factors(self, side: int, thread: Index, k: Index) -> list[Stmt]:
        """Reads a thread's rows or columns for one summed element, a piece after the other."""
        own, piece = self.tile.own, self.tile.piece
        out: list[Stmt] = []
        for number in range(0, own, piece):
            var, n = counter("n", piece)
            place = k * self.tile.pitch[side] + self._place(side, thread, number) + n
            value = loop_ir.load(self.blocks[side], place.expr())
            store = loop_ir.Store(self.factors[side], (thread * own + number + n).expr(), value)
            out.append(For(var, const(0), const(piece), (store,), 0, piece))
        return out

    def _factor(self, side: int, thread: Index, n: int) -> loop_ir.Expr:
        return loop_ir.load(self.factors[side], (thread * self.tile.own + n).expr())

    def _place(self, side: int, thread: Index, number: int) -> Index:
        """Where in its tile a thread's row (side 0) or column of this number is: its pieces are as
        far from each other as those of all threads beside it are wide."""
        tile, piece = self.tile, self.tile.piece
        across = tile.columns // tile.own
        mine = thread % across if side else thread // across
        beside = across if side else tile.rows // tile.own
        return mine * piece + number // piece * beside * piece + number % piece

    def places(self, thread: Index) -> Iterator[tuple[int, Index, Index]]:
        own = self.tile.own
        return ((i * own + j, self._place(0, thread, i), self._place(1, thread, j))
                for i in range(own) for j in range(0, own, self.tile.piece))
