"""Results of images as tiles, and these as blocks: what one task works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.loop_ir import Expr, const

Block3 = tuple[int, int, int]


@dataclass(frozen=True)
class TileGrid:
    """Images with `space` results each, tiles of `step` by `step` of them, and blocks of so many
    images, rows of tiles, and tiles of a row."""

    images: int
    space: tuple[int, int]
    step: int
    block: Block3

    @cached_property
    def whole(self) -> Block3:
        """All images, rows of tiles, and tiles of a row."""
        return (self.images, *tiles_of(self.space, self.step))

    @cached_property
    def blocks(self) -> Block3:
        """How many blocks there are, along the same axes."""
        a, b, c = (-(-n // size) for n, size in zip(self.whole, self.block))
        return a, b, c

    @property
    def block_count(self) -> int:
        a, b, c = self.blocks
        return a * b * c

    @property
    def block_tiles(self) -> int:
        """The tiles of a block."""
        a, b, c = self.block
        return a * b * c


def tiles_of(space: tuple[int, int], step: int) -> tuple[int, int]:
    """How many tiles cover so many results, in rows and columns."""
    return -(-space[0] // step), -(-space[1] // step)


def even_blocks(whole: Block3, most: int) -> Block3:
    """Blocks of at most so many tiles, all of nearly the same size."""
    return _blocks(whole, most, even_part)


def full_blocks(whole: Block3, most: int) -> Block3:
    """Blocks of at most so many tiles, none of which is missing."""
    return _blocks(whole, most,
                   lambda count, most: next(n for n in range(most, 0, -1) if count % n == 0))


def even_part(count: int, most: int) -> int:
    """How large parts of nearly equal size are, of which none is larger than `most`."""
    return -(-count // -(-count // most))


def _blocks(whole: Block3, most: int, part: Callable[[int, int], int]) -> Block3:
    images, rows, columns = whole
    if columns > most:
        return 1, 1, part(columns, most)
    if rows * columns > most:
        return 1, part(rows, most // columns), columns
    return part(images, most // (rows * columns)), rows, columns


class TileBlock:
    """One block of a grid, by its number: where it begins, and how much of it is there."""

    def __init__(self, grid: TileGrid, number: Index) -> None:
        _, rows, columns = grid.blocks
        self.grid, self.number = grid, number
        places = number // (rows * columns), number // columns % rows, number % columns
        self.first = tuple(place * size for place, size in zip(places, grid.block))

    def count(self, axis: int) -> Expr:
        """How many images, rows of tiles, tiles of a row there are of a whole block's."""
        return least(self.grid.block[axis], self.grid.whole[axis] - self.first[axis])

    def results(self, axis: int) -> Expr:
        """How many rows, or columns, of results there are of a whole block's."""
        grid, step = self.grid, self.grid.step
        return least(grid.block[1 + axis] * step, grid.space[axis] - self.first[1 + axis] * step)

    def counters(self) -> tuple[tuple[loop_ir.Var, Index], ...]:
        """New variables that count a whole block's images, rows and columns of tiles."""
        return tuple(counter(name, n) for name, n in zip(("i", "r", "q"), self.grid.block))

    def tile(self, image: Index, row: Index, column: Index) -> Index:
        """The number of a tile in the block."""
        _, rows, columns = self.grid.block
        return (image * rows + row) * columns + column


def least(count: int, left: Index) -> Expr:
    """The smaller one of a count and what is left."""
    if left.range()[0] >= count:
        return const(count)
    return loop_ir.call("minimum", (const(count), left.expr()), loop_ir.INT)
