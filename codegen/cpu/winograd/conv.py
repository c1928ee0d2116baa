"""A convolution by tiles.

    once, where the weights stay the same:
        transform the weights                    weights[panel][point][channel][filter]
    task = one block of tiles; or one block and one panel of filters, where there are few blocks:
        transform the tiles (in the second case by a kernel of its own): data[point][tile][channel]
        for each panel of filters:
            for each point: products[point][tile][filter] = data[point] @ weights[panel][point]
            transform them back, turn them, and do what the group computes from the sums

Where weights change from call to call and are many beside the tiles, what they become would be
written to memory to be read once. There each task transforms the weights of one panel of filters,
some channels at a time, and adds their products to those of all blocks.
"""

from __future__ import annotations

from functools import cached_property

from ...ir.affine_index import Index, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import For, Kernel, const
from ..gemm.plan import tile_rows
from ..partition_work import buffers_of
from .convolution import Convolution
from .input_transform import InputSource, InputTiles
from .output_transform import OutputTransform
from .tile_grid import TileBlock, TileGrid, even_blocks
from .weight_transform import WeightTransform

_BLOCK = 32  # tiles of a block, whose transformed data stays in the second cache
_BLOCKS = 4  # for each thread, fewer: tiles are transformed by a kernel of their own
_SUMS = 4  # blocks whose sums stay in the second cache while weights pass


class ConvKernel:
    """The kernels of one convolution."""

    def __init__(self, of: Convolution) -> None:
        self.of = of
        self.grid = TileGrid(of.images, of.space, of.transforms.results,
                             even_blocks(of.whole, _BLOCK))
        blocks = self.grid.block_count
        panels = -(-of.filters // (2 * of.machine.lanes()))
        self.at_once = blocks >= _BLOCKS * of.machine.threads
        self.in_chunks = not self.at_once and not of.kept and blocks <= _SUMS \
            and panels >= of.machine.threads  # whether weights are transformed where they are used

    @cached_property
    def tiles(self) -> InputTiles:
        of = self.of
        source = InputSource(of.channels, of.source_space, of.pad, of.image)
        return InputTiles(source, self.grid, of.transforms.data, of.machine, f"{of.name}_tiles",
                          of.dtype, own=self.at_once)

    @cached_property
    def weights(self) -> WeightTransform:
        of = self.of

        def element(filter: Index, channel: Index, y: Index, x: Index) -> ExprValue:
            return of.other(filters=filter, channels=channel, y=y, x=x)

        return WeightTransform(of.filters, of.channels, element, of.transforms.weights, of.machine,
                               f"{of.name}_weights", of.dtype, own=self.in_chunks)

    @cached_property
    def tile_rows(self) -> int:
        """How many tiles' sums stay in registers."""
        return tile_rows(self.grid.block_tiles, self.of.machine.tile_rows)

    def kernels(self) -> list[Kernel]:
        """All of them, in order."""
        if self.in_chunks:
            return [*self.tiles.kernels(self.of.sites), self._in_chunks()]
        weights = self.weights.kernel(self.of.sites)
        if self.at_once:
            return [weights, self._at_once()]
        return [weights, *self.tiles.kernels(self.of.sites), self._products()]

    def _at_once(self) -> Kernel:
        tasks, results = self.grid.block_count, OutputTransform(self)
        var, task = counter("task", tasks)
        block = TileBlock(self.grid, task)
        p, panel = counter("panel", self.weights.panels)
        each = For(p, const(0), const(self.weights.panels),
                   tuple(results.statements(block, panel)))
        body = (*self.tiles.statements(block), each)
        scratch = (self.tiles.pixels, self.tiles.data, *results.scratch)
        return Kernel(self.of.name, *buffers_of(body), scratch, var, tasks, body,
                      self.of.nanoseconds, self.of.sites)

    def _products(self) -> Kernel:
        blocks, results = self.grid.block_count, OutputTransform(self)
        tasks = blocks * self.weights.panels
        var, task = counter("task", tasks)
        body = tuple(results.statements(TileBlock(self.grid, task % blocks), task // blocks))
        return Kernel(self.of.name, *buffers_of(body), results.scratch, var, tasks, body,
                      self.of.nanoseconds, self.of.sites)

    def _in_chunks(self) -> Kernel:
        weights, results = self.weights, OutputTransform(self)
        var, panel = counter("task", weights.panels)
        (c, chunk), (b, number), (e, each) = (counter(name, n) for name, n in (
            ("chunk", weights.chunks), ("b", self.grid.block_count), ("e", self.grid.block_count)))
        blocks = const(self.grid.block_count)
        products = results.multiplied(TileBlock(self.grid, number), panel, chunk)
        body = (
            results.cleared(),
            For(c, const(0), const(weights.chunks), (
                *weights.statements(panel, chunk), For(b, const(0), blocks, (products,)))),
            For(e, const(0), blocks, tuple(results.finished(TileBlock(self.grid, each), panel))))
        scratch = weights.data, weights.held, *results.scratch
        return Kernel(self.of.name, *buffers_of(body), scratch, var, weights.panels, body,
                      self.of.nanoseconds, self.of.sites)
