"""A block of tiles: where it begins, and how much of it is there."""

from __future__ import annotations

from functools import cached_property

from .. import loops
from ..index import Index, as_index, atom
from ..loops import Expr, const
from ..nest import counter
from .layer import Layer


class Block:
    """One block of a layer's tiles, by its number."""

    def __init__(self, of: Layer, number: Index) -> None:
        _, rows, columns = of.blocks
        self.of, self.number = of, number
        places = number // (rows * columns), number // columns % rows, number % columns
        self.first = tuple(place * size for place, size in zip(places, of.block))

    def count(self, axis: int) -> Expr:
        """How many images, rows of tiles, tiles of a row there are of a whole block's."""
        total = (self.of.images, *self.of.tiles)[axis]
        return least(self.of.block[axis], total - self.first[axis])

    def results(self, axis: int) -> Expr:
        """How many rows, or columns, of results there are of a whole block's."""
        m = self.of.transforms.results
        return least(self.of.block[1 + axis] * m, self.of.out[axis] - self.first[1 + axis] * m)

    @cached_property
    def start(self) -> tuple[Index, Index]:
        """The first row and column of an image that are staged for the block."""
        return self._start(0), self._start(1)

    def _start(self, axis: int) -> Index:
        of = self.of
        last = of.space[axis] - of.staged[axis]
        wanted = self.first[1 + axis] * of.transforms.results - of.pad[axis]
        low, high = wanted.range()
        if last == 0 or low == high:
            return as_index(min(max(low, 0), last))
        above = loops.call("maximum", (wanted.expr(), const(0)), loops.INT)
        return atom(loops.call("minimum", (above, const(last)), loops.INT), (0, last))

    def counters(self) -> tuple[tuple[loops.Var, Index], ...]:
        """New variables that count a whole block's images, rows and columns of tiles."""
        return tuple(counter(name, n) for name, n in zip(("i", "r", "q"), self.of.block))

    def tile(self, image: Index, row: Index, column: Index) -> Index:
        """The number of a tile in the block."""
        _, rows, columns = self.of.block
        return (image * rows + row) * columns + column


def least(count: int, left: Index) -> Expr:
    """The smaller one of a count and what is left."""
    if left.range()[0] >= count:
        return const(count)
    return loops.call("minimum", (const(count), left.expr()), loops.INT)
