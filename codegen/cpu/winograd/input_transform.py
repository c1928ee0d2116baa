"""Tiles of images transformed: pixels are copied with their channels side by side, and so the
transforms are sums of vectors of channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue, call
from ...ir.loop_ir import Buffer, For, Kernel, Stmt, const
from ...ir.target_info import Machine
from ..gemm.pack_loops import pack_loops
from ..partition_work import buffers_of
from .matrices import Matrix, on_both_sides
from .tile_grid import TileBlock, TileGrid

LINE = 16  # float32 in a cache line


@dataclass(frozen=True, eq=False)
class InputSource:
    """Images of which tiles are made: element (image, channel, y, x), and what is outside is 0."""

    channels: int
    space: tuple[int, int]
    pad: tuple[int, int]  # rows and columns before the first ones
    element: Callable[[Index, Index, Index, Index], ExprValue]


@dataclass(frozen=True, eq=False)
class InputTiles:
    """What a source's tiles become by a matrix, in `data`: [block][point][tile][channel], or as
    panels of channels: [block][point][panel][tile][channel of the panel]."""

    source: InputSource
    grid: TileGrid
    matrix: Matrix
    machine: Machine
    name: str
    dtype: loop_ir.DType
    own: bool = False  # whether a task has memory for one block of its own, not one for all
    panels: bool = False  # for who reads a panel of all tiles: what is far apart is fetched late

    @property
    def points(self) -> int:
        """The elements of a transformed tile."""
        return len(self.matrix) ** 2

    @property
    def pitch(self) -> int:
        """Elements from one tile to the next of the same point."""
        if self.panels:
            return self.wide
        return -(-self.source.channels // LINE) * LINE + LINE

    @property
    def point_pitch(self) -> int:
        """Elements from one point to the next."""
        panels = -(-self.source.channels // self.wide) if self.panels else 1
        return odd_lines(self.grid.block_tiles * self.pitch * panels)

    @property
    def block_size(self) -> int:
        """The elements of a block."""
        return self.points * self.point_pitch

    @cached_property
    def data(self) -> Buffer:
        blocks = 1 if self.own else self.grid.block_count
        return Buffer(self.name, self.dtype, blocks * self.block_size, scratch=self.own)

    def place(self, block: Index, point: Index | int, tile: Index, channel: Index) -> Index:
        """Where an element is, in a block of this number."""
        base = as_index(0) if self.own else block * self.block_size
        if self.panels:
            base = base + channel // self.wide * (self.grid.block_tiles * self.wide)
            channel = channel % self.wide
        return base + as_index(point) * self.point_pitch + tile * self.pitch + channel

    # ---- pixels
    @property
    def wide(self) -> int:
        """Channels that are copied together, and those of a panel."""
        return 2 * self.machine.lanes()

    @cached_property
    def window(self) -> tuple[int, int]:
        """The rows and columns of an image that a block reads."""
        step, side = self.grid.step, len(self.matrix[0])
        rows, columns = (n * step + side - step for n in self.grid.block[1:])
        return min(self.source.space[0], rows), min(self.source.space[1], columns)

    @property
    def outside(self) -> int:
        """Where zeros stand, for pixels outside."""
        return self.window[0] * self.window[1] * self.wide

    @cached_property
    def pixels(self) -> Buffer:
        return Buffer("pixels", self.dtype, self.outside + self.wide, scratch=True)

    # ---- statements
    def kernels(self, sites: tuple[str, ...]) -> list[Kernel]:
        """Kernels that transform all blocks: a task for a block and some channels."""
        kernels, done = [], 0
        for times, size in self._chunks():
            tasks = self.grid.block_count * times
            var, task = counter("task", tasks)
            block, first = TileBlock(self.grid, task // times), task % times * self.wide + done
            body = (self._zeros(), *self._channels(block, first, size))
            cost = self.data.size * size * times / self.source.channels * 10 / self.machine.lanes()
            name = f"{self.name}_{done}" if done else self.name
            kernels.append(Kernel(name, *buffers_of(body), (self.pixels,), var, tasks, body, cost,
                                  sites))
            done += times * size
        return kernels

    def statements(self, block: TileBlock) -> list[Stmt]:
        """Transforms a block, all channels of it."""
        out, done = [self._zeros()], 0
        for times, size in self._chunks():
            var, number = counter("chunk", times)
            body = self._channels(block, number * self.wide + done, size)
            out.append(For(var, const(0), const(times), tuple(body)))
            done += times * size
        return out

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """How many times so many channels are transformed together."""
        whole, rest = divmod(self.source.channels, self.wide)
        yield from [(n, size) for n, size in ((whole, self.wide), (1, rest)) if n * size]

    def _zeros(self) -> Stmt:
        """Writes the pixel that stands for all those outside."""
        var, lane = counter("z", self.wide)
        zero = loop_ir.Store(self.pixels, (lane + self.outside).expr(),
                             loop_ir.const(0, self.dtype))
        return For(var, const(0), const(self.wide), (zero,), self.machine.lanes())

    def _channels(self, block: TileBlock, first: Index, count: int) -> list[Stmt]:
        """Transforms so many channels of a block, the `first` and those after it."""
        (i, image), (r, row), (q, column) = block.counters()
        start = self._start(block, 0), self._start(block, 1)
        corner = tuple((block.first[1 + a] + n) * self.grid.step - self.source.pad[a] - start[a]
                       for a, n in enumerate((row, column)))
        tile = block.tile(image, row, column)
        body = self._tile(block.number, tile, first, count, corner, start)
        rows = For(r, const(0), block.count(1), (For(q, const(0), block.count(2), body),))
        copied = self._copied(block.first[0] + image, first, count, start)
        return [For(i, const(0), block.count(0), (*copied, rows))]

    def _start(self, block: TileBlock, axis: int) -> Index:
        """The first row or column of an image that is copied for a block."""
        last = self.source.space[axis] - self.window[axis]
        wanted = block.first[1 + axis] * self.grid.step - self.source.pad[axis]
        low, high = wanted.range()
        if last == 0 or low == high:
            return as_index(min(max(low, 0), last))
        above = loop_ir.call("maximum", (wanted.expr(), const(0)), loop_ir.INT)
        return atom(loop_ir.call("minimum", (above, const(last)), loop_ir.INT), (0, last))

    def _copied(self, image: Index, first: Index, count: int, start: tuple[Index, ...]
                ) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loop_ir.Store:
            y, x, c = local["y"], local["x"], local["c"]
            value = self.source.element(image, first + c, start[0] + y, start[1] + x)
            place = (y * self.window[1] + x) * self.wide + c
            return loop_ir.Store(self.pixels, place.expr(), value.expr)

        rows, columns = self.window
        return pack_loops({"c": count, "y": rows, "x": columns}, {}, store, self.machine.lanes())

    def _tile(self, block: Index, tile: Index, first: Index, count: int,
              corner: tuple[Index, ...], start: tuple[Index, ...]) -> tuple[Stmt, ...]:
        """Transforms one tile, a vector of channels after the other."""
        var, channel = counter("c", count)
        side = range(len(self.matrix[0]))
        square = [[loop_ir.load(self.pixels, (self._pixel((corner[0] + i, corner[1] + j), start)
                                              + channel).expr()) for j in side] for i in side]
        body, results = on_both_sides(self.matrix, square, "t")
        body += [loop_ir.Store(self.data, self.place(block, n, tile, first + channel).expr(),
                               loop_ir.read(r)) for n, r in enumerate(results)]
        return (For(var, const(0), const(count), tuple(body), self.machine.lanes()),)

    def _pixel(self, at: tuple[Index, Index], start: tuple[Index, ...]) -> Index:
        """Where a pixel was copied to; where it is none, the place of zeros. `at` counts from the
        first one that was copied."""
        place = (at[0] * self.window[1] + at[1]) * self.wide
        inside: ExprValue | bool = True
        for a in (0, 1):
            y = at[a] + start[a]
            for holds in (y >= 0, y < self.source.space[a]):
                inside = call("and", inside, holds) if holds is not True else inside
        found = call("where", inside, place.value(), self.outside)
        return atom(found.expr, (0, self.outside)) if isinstance(found,
                                                                 ExprValue) else as_index(found)


def odd_lines(elements: int) -> int:
    """At least so many elements, and an odd number of cache lines: what is written so far apart
    falls into many sets of a cache."""
    return (-(-elements // LINE) | 1) * LINE
