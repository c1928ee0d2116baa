"""Tiles of floats of 16 bits, whose products are computed by tensor cores.

In shared memory the summed elements of a row, or of a column, lie side by side. A thread brings
some that follow each other: `_MANY` where the operand's lie so in memory and can be moved at once,
else two. Products are exact, sums are float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.loop_ir import Buffer, For, Stmt, const
from .configs import TensorTile, TileConfig
from .contraction import GpuContraction, at_most
from .kernel import TileKernel

_MANY, _FEW = 8, 2  # summed elements that a thread brings at once
_BESIDE = 16  # threads that bring neighbours in memory: the 32 bytes that are moved at least
_GROUPS = 2  # of them, in a warp


class MmaKernel(TileKernel):
    """A team whose warps multiply."""

    tile: TensorTile

    def __init__(self, of: GpuContraction, way: TileConfig) -> None:
        super().__init__(of, way)
        tile, dtype = self.tile, of.node.inputs[0].type.dtype
        self.scratch = tuple([Buffer(name, dtype, count * tile.pitch, scratch=True)
                              for name, count in (("rows", tile.rows), ("columns", tile.columns))])

    def read(self, side: int, block: Index) -> list[Stmt]:
        of, tile, (operand, wide) = self.of, self.tile, self.side(side)
        beside = of.steps(operand)
        piece = _MANY if beside and of.depth % _MANY == 0 else _FEW
        units = tile.depth // piece
        count = wide * units
        lane, i = counter("i", count)
        own, unit = (i // units, i % units) if beside else _patch(i, wide)
        var, n = counter("n", piece)
        value = self.element(side, own, *self._summed(block * units + unit, n, piece))
        at = own * tile.pitch + unit * piece + n
        store = loop_ir.Store(self.scratch[side], at.expr(), value.expr)
        inner = For(var, const(0), const(piece), (store,), 0, piece)
        return [For(lane, const(0), const(count), (inner,), tile.threads)]

    def _summed(self, unit: Index, n: Index, piece: int) -> tuple[Index, Any]:
        """The n-th summed element of a unit, and whether there is one."""
        of = self.of
        if of.depth % piece == 0:  # units are inside or outside as they are
            units = of.depth // piece
            return at_most(unit, units - 1) * piece + n, unit < units
        k = unit * piece + n
        return k, of.is_inside(k, of.summed)

    def multiply(self) -> Stmt:
        rows, columns = self.scratch
        return loop_ir.Mma(self.sums, rows, columns, self.tile.fragments)

    def places(self, thread: Index) -> Iterator[tuple[int, Index, Index]]:
        f = self.tile.fragments
        return ((n, f.row(thread, n), f.column(thread, n))
                for n in range(0, self.tile.sums, self.tile.piece))


def _patch(i: Index, wide: int) -> tuple[Index, Index]:
    """Which row or column, and which unit, is the i-th that is brought, where rows or columns lie
    side by side in memory. Groups of a warp bring units that lie side by side in shared memory."""
    rest, across = i // (_BESIDE * _GROUPS), wide // _BESIDE
    own = rest % across * _BESIDE + i % _BESIDE
    return own, rest // across * _GROUPS + i // _BESIDE % _GROUPS
