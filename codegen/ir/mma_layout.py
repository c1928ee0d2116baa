"""Maps the elements of a tensor-core tile to the threads that hold them.

A warp multiplies 16 rows by 8 columns at a time, 16 elements of the summed axis in one instruction.
A thread has four products of such a fragment: two neighbours in each of two rows.
Source: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from .affine_index import Index

ROWS, COLUMNS, DEPTH = 16, 8, 16  # rows, columns and summed elements of one instruction
_THREADS_PER_WARP = 32
_PRODUCTS_PER_FRAGMENT = 4  # that one thread has

_N = TypeVar("_N", int, Index)


@dataclass(frozen=True)
class Fragments:
    """A tile whose rows are shared by `down` warps and its columns by `across` warps.

    Each warp has `rows` rows and `columns` columns. `depth` elements of the summed axis are
    contiguous in memory; consecutive rows are `pitch` elements apart."""

    rows: int
    columns: int
    down: int
    across: int
    depth: int
    pitch: int

    @property
    def threads(self) -> int:
        return self.down * self.across * _THREADS_PER_WARP

    @property
    def grid(self) -> tuple[int, int]:
        """The fragments of a warp along rows and columns."""
        return self.rows // ROWS, self.columns // COLUMNS

    @property
    def products_per_thread(self) -> int:
        """The number of products of a thread."""
        down, across = self.grid
        return down * across * _PRODUCTS_PER_FRAGMENT

    def row(self, thread: _N, n: int) -> _N:
        """The row of a thread's n-th product."""
        fragment = n // _PRODUCTS_PER_FRAGMENT // self.grid[1]
        warp = thread // _THREADS_PER_WARP // self.across
        return (
            warp * self.rows
            + thread % _THREADS_PER_WARP // 4
            + (fragment * ROWS + n % _PRODUCTS_PER_FRAGMENT // 2 * 8)
        )

    def column(self, thread: _N, n: int) -> _N:
        """The column of a thread's n-th product. Odd products have the next column."""
        fragment = n // _PRODUCTS_PER_FRAGMENT % self.grid[1]
        warp = thread // _THREADS_PER_WARP % self.across
        return warp * self.columns + thread % 4 * 2 + (fragment * COLUMNS + n % 2)
