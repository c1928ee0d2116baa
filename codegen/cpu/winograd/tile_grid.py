"""Divides the results of images into tiles, and the tiles into blocks, one per task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.loop_ir import Expr, const
from ...ir.sizes import Size, ceil_div, is_at_least, is_dynamic, is_multiple

Block3 = tuple[Size, Size, Size]


@dataclass(frozen=True)
class TileGrid:
    """Tiles of `step` by `step` results of images, and blocks of tiles.

    `space`: rows and columns of results of an image
    `block`: images, rows of tiles, and tiles of a row in a block
    """

    images: Size
    space: tuple[int, int]
    step: int
    block: Block3

    @cached_property
    def tile_counts(self) -> Block3:
        """(images, rows of tiles, tiles of a row)."""
        return (self.images, *tiles_of(self.space, self.step))

    @cached_property
    def blocks(self) -> Block3:
        """The number of blocks along the same axes."""
        a, b, c = (ceil_div(n, size) for n, size in zip(self.tile_counts, self.block))
        return a, b, c

    @property
    def block_count(self) -> Size:
        a, b, c = self.blocks
        return a * b * c

    @property
    def block_tiles(self) -> int:
        """The number of tiles of a block."""
        a, b, c = self.block
        return a * b * c


def tiles_of(space: tuple[int, int], step: int) -> tuple[int, int]:
    """The numbers of tiles that cover so many results, in rows and columns."""
    return -(-space[0] // step), -(-space[1] // step)


def even_blocks(tile_counts: Block3, most: int) -> Block3:
    """Blocks of at most `most` tiles, all of nearly the same size."""
    return _blocks(tile_counts, most, even_part)


def full_blocks(tile_counts: Block3, most: int) -> Block3:
    """Blocks of at most `most` tiles, none of them partial."""
    return _blocks(tile_counts, most,
                   lambda count, most: next(n for n in range(most, 0, -1) if is_multiple(count, n)))


def even_part(count: Size, most: int) -> int:
    """The size of parts of nearly equal size, at most `most`; `most` for a dynamic count."""
    return most if is_dynamic(count) else -(-count // -(-count // most))


def _blocks(tile_counts: Block3, most: int, part: Callable[[Size, int], int]) -> Block3:
    images, rows, columns = tile_counts
    if columns > most:
        return 1, 1, part(columns, most)
    if rows * columns > most:
        return 1, part(rows, most // columns), columns
    return part(images, most // (rows * columns)), rows, columns


class TileBlock:
    """One block of a grid, by its number: its first tile, and its size where it is partial."""

    def __init__(self, grid: TileGrid, number: Index) -> None:
        _, rows, columns = grid.blocks
        self.grid, self.number = grid, number
        positions = number // (rows * columns), number // columns % rows, number % columns
        self.first = tuple(position * size for position, size in zip(positions, grid.block))

    def count(self, axis: int) -> Expr:
        """The number of images, rows of tiles, or tiles of a row in the block."""
        return clipped_count(self.grid.block[axis], self.grid.tile_counts[axis] - self.first[axis])

    def results(self, axis: int) -> Expr:
        """The number of rows, or columns, of results in the block."""
        grid, step = self.grid, self.grid.step
        return clipped_count(grid.block[1 + axis] * step,
                             grid.space[axis] - self.first[1 + axis] * step)

    def counters(self) -> tuple[tuple[loop_ir.Var, Index], ...]:
        """New variables that count the images, rows and columns of tiles of a full block."""
        return tuple(counter(name, n) for name, n in zip(("i", "r", "q"), self.grid.block))

    def tile(self, image: Index, row: Index, column: Index) -> Index:
        """The number of a tile in the block."""
        _, rows, columns = self.grid.block
        return (image * rows + row) * columns + column


def clipped_count(count: int, remaining: Index) -> Expr:
    """The smaller one of a count and the remainder."""
    if is_at_least(remaining.range()[0], count):
        return const(count)
    return loop_ir.call("minimum", (const(count), remaining.expr()), loop_ir.INT)
