"""Which elements of a tile the threads have that compute it by tensor cores.

A warp multiplies 16 rows by 8 columns at a time, 16 elements of the summed axis in one instruction.
Of the products of such a piece a thread has four: two neighbours in each of two rows.
Source: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from .affine_index import Index

ROWS, COLUMNS, DEPTH = 16, 8, 16  # of what one instruction multiplies
_WARP = 32
_OWN = 4  # products of it that a thread has

_N = TypeVar("_N", int, Index)


@dataclass(frozen=True)
class Fragments:
    """A tile whose rows are shared by `down` warps and its columns by `across`, of which each has
    so many `rows` and `columns`. `depth` elements of the summed axis lie side by side in memory,
    and from row to row it is `pitch`."""

    rows: int
    columns: int
    down: int
    across: int
    depth: int
    pitch: int

    @property
    def threads(self) -> int:
        return self.down * self.across * _WARP

    @property
    def grid(self) -> tuple[int, int]:
        """Pieces of a warp along rows and columns."""
        return self.rows // ROWS, self.columns // COLUMNS

    @property
    def own(self) -> int:
        """Products of a thread."""
        down, across = self.grid
        return down * across * _OWN

    def row(self, thread: _N, n: int) -> _N:
        """The row of a thread's n-th product."""
        piece = n // _OWN // self.grid[1]
        warp = thread // _WARP // self.across
        return warp * self.rows + thread % _WARP // 4 + (piece * ROWS + n % _OWN // 2 * 8)

    def column(self, thread: _N, n: int) -> _N:
        """The column of a thread's n-th product: that of an odd one is the next one."""
        piece = n // _OWN % self.grid[1]
        warp = thread // _WARP % self.across
        return warp * self.columns + thread % 4 * 2 + (piece * COLUMNS + n % 2)
