"""Transforms tiles of images.

Pixels are copied with their channels contiguous, so the transforms are sums of channel vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue, call
from ...ir.loop_ir import For, Kernel, KernelBuffer, Stmt, const
from ...ir.target_info import Machine
from ..gemm.pack_loops import pack_loops
from ..partition_work import buffers_of
from .matrices import FractionMatrix, on_both_sides
from .tile_grid import TileBlock, TileGrid

LINE = 16  # float32 in a cache line


@dataclass(frozen=True, eq=False)
class InputSource:
    """Images that tiles are made of: element (image, channel, y, x); elements outside are 0."""

    channels: int
    space: tuple[int, int]
    pad: tuple[int, int]  # rows and columns before the first ones
    element: Callable[[Index, Index, Index, Index], ExprValue]


@dataclass(frozen=True, eq=False)
class InputTiles:
    """The transformed tiles of a source, in `data`.

    The layout is [block][point][tile][channel], or [block][point][panel][tile][channel of the
    panel]."""

    source: InputSource
    grid: TileGrid
    matrix: FractionMatrix
    machine: Machine
    name: str
    dtype: loop_ir.DType
    # whether each task has memory for its own block, instead of one buffer for all blocks
    per_task: bool = False
    panels: bool = False  # whether the layout has panels, for readers of one panel of all tiles

    @property
    def points(self) -> int:
        """The number of elements of a transformed tile."""
        return len(self.matrix) ** 2

    @property
    def pitch(self) -> int:
        """Elements from one tile to the next of the same point."""
        if self.panels:
            return self.panel_width
        return -(-self.source.channels // LINE) * LINE + LINE

    @property
    def point_pitch(self) -> int:
        """Elements from one point to the next."""
        panels = -(-self.source.channels // self.panel_width) if self.panels else 1
        return odd_lines(self.grid.block_tiles * self.pitch * panels)

    @property
    def block_size(self) -> int:
        """The number of elements of a block."""
        return self.points * self.point_pitch

    @cached_property
    def data(self) -> KernelBuffer:
        blocks = 1 if self.per_task else self.grid.block_count
        return KernelBuffer(self.name, self.dtype, blocks * self.block_size, scratch=self.per_task)

    def index_of(self, block: Index, point: Index | int, tile: Index, channel: Index) -> Index:
        """The index of an element in the block of this number."""
        base = as_index(0) if self.per_task else block * self.block_size
        if self.panels:
            base = base + channel // self.panel_width * (self.grid.block_tiles * self.panel_width)
            channel = channel % self.panel_width
        return base + as_index(point) * self.point_pitch + tile * self.pitch + channel

    # ---- pixels
    @property
    def panel_width(self) -> int:
        """Channels that are copied together, and channels of a panel."""
        return 2 * self.machine.lanes()

    @cached_property
    def window(self) -> tuple[int, int]:
        """The rows and columns of an image that a block reads."""
        step, side = self.grid.step, len(self.matrix[0])
        rows, columns = (n * step + side - step for n in self.grid.block[1:])
        return min(self.source.space[0], rows), min(self.source.space[1], columns)

    @property
    def zero_pixel(self) -> int:
        """The index of the zeros that stand for pixels outside."""
        return self.window[0] * self.window[1] * self.panel_width

    @cached_property
    def pixels(self) -> KernelBuffer:
        return KernelBuffer("pixels", self.dtype, self.zero_pixel + self.panel_width, scratch=True)

    # ---- statements
    def kernels(self, sites: tuple[str, ...]) -> list[Kernel]:
        """Kernels that transform all blocks, with a task for a block and some channels."""
        kernels, done = [], 0
        for times, size in self._channel_chunks():
            tasks = self.grid.block_count * times
            var, task = counter("task", tasks)
            block, first = (
                TileBlock(self.grid, task // times),
                task % times * self.panel_width + done,
            )
            body = (self._clear_zero_pixel(), *self._transform_channels(block, first, size))
            cost = self.data.size * size * times / self.source.channels * 10 / self.machine.lanes()
            name = f"{self.name}_{done}" if done else self.name
            kernels.append(Kernel(name, *buffers_of(body), (self.pixels,), var, tasks, body, cost,
                                  sites))
            done += times * size
        return kernels

    def statements(self, block: TileBlock) -> list[Stmt]:
        """Statements that transform all channels of a block."""
        out, done = [self._clear_zero_pixel()], 0
        for times, size in self._channel_chunks():
            var, number = counter("chunk", times)
            body = self._transform_channels(block, number * self.panel_width + done, size)
            out.append(For(var, const(0), const(times), tuple(body)))
            done += times * size
        return out

    def _channel_chunks(self) -> Iterator[tuple[int, int]]:
        """Pairs (number of chunks, channels of each)."""
        full, rest = divmod(self.source.channels, self.panel_width)
        yield from [(n, size) for n, size in ((full, self.panel_width), (1, rest)) if n * size]

    def _clear_zero_pixel(self) -> Stmt:
        """The loop that writes the pixel which stands for all pixels outside."""
        var, lane = counter("z", self.panel_width)
        zero = loop_ir.Store(self.pixels, (lane + self.zero_pixel).expr(),
                             loop_ir.const(0, self.dtype))
        return For(var, const(0), const(self.panel_width), (zero,), self.machine.lanes())

    def _transform_channels(self, block: TileBlock, first: Index, count: int) -> list[Stmt]:
        """Statements that transform `count` channels of a block, from `first` on."""
        (i, image), (r, row), (q, column) = block.counters()
        start = self._first_copied(block, 0), self._first_copied(block, 1)
        corner = tuple((block.first[1 + a] + n) * self.grid.step - self.source.pad[a] - start[a]
                       for a, n in enumerate((row, column)))
        tile = block.tile(image, row, column)
        body = self._tile(block.number, tile, first, count, corner, start)
        rows = For(r, const(0), block.count(1), (For(q, const(0), block.count(2), body),))
        copy = self._copy_pixels(block.first[0] + image, first, count, start)
        return [For(i, const(0), block.count(0), (*copy, rows))]

    def _first_copied(self, block: TileBlock, axis: int) -> Index:
        """The first row or column of an image that is copied for a block."""
        last = self.source.space[axis] - self.window[axis]
        start = block.first[1 + axis] * self.grid.step - self.source.pad[axis]
        low, high = start.range()
        if last == 0 or low == high:
            return as_index(min(max(low, 0), last))
        above = loop_ir.call("maximum", (start.expr(), const(0)), loop_ir.INT)
        return atom(loop_ir.call("minimum", (above, const(last)), loop_ir.INT), (0, last))

    def _copy_pixels(self, image: Index, first: Index, count: int, start: tuple[Index, ...]
                     ) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loop_ir.Store:
            y, x, c = local["y"], local["x"], local["c"]
            value = self.source.element(image, first + c, start[0] + y, start[1] + x)
            index = (y * self.window[1] + x) * self.panel_width + c
            return loop_ir.Store(self.pixels, index.expr(), value.expr)

        rows, columns = self.window
        return pack_loops({"c": count, "y": rows, "x": columns}, {}, store, self.machine.lanes())

    def _tile(self, block: Index, tile: Index, first: Index, count: int,
              corner: tuple[Index, ...], start: tuple[Index, ...]) -> tuple[Stmt, ...]:
        """The loop that transforms one tile, one vector of channels at a time."""
        var, channel = counter("c", count)
        side = range(len(self.matrix[0]))
        square = [
            [
                loop_ir.load(
                    self.pixels,
                    (self._pixel_index((corner[0] + i, corner[1] + j), start) + channel).expr(),
                )
                for j in side
            ]
            for i in side
        ]
        body, results = on_both_sides(self.matrix, square, "t")
        body += [loop_ir.Store(self.data, self.index_of(block, n, tile, first + channel).expr(),
                               loop_ir.read(r)) for n, r in enumerate(results)]
        return (For(var, const(0), const(count), tuple(body), self.machine.lanes()),)

    def _pixel_index(self, at: tuple[Index, Index], start: tuple[Index, ...]) -> Index:
        """The index of a copied pixel, or of the zeros if it is outside. `at` counts from the first
        copied one."""
        index = (at[0] * self.window[1] + at[1]) * self.panel_width
        inside: ExprValue | bool = True
        for a in (0, 1):
            y = at[a] + start[a]
            for holds in (y >= 0, y < self.source.space[a]):
                inside = call("and", inside, holds) if holds is not True else inside
        chosen = call("where", inside, index.value(), self.zero_pixel)
        return atom(chosen.expr, (0, self.zero_pixel)) if isinstance(chosen, ExprValue) \
            else as_index(chosen)


def odd_lines(elements: int) -> int:
    """At least so many elements, rounded up to an odd number of cache lines.

    Writes at such distances map to many sets of a cache."""
    return (-(-elements // LINE) | 1) * LINE
