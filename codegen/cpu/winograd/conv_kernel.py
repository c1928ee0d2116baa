"""Lowers a convolution by Winograd tiles.

    once, where the weights are persistent:
        transform the weights                    weights[panel][point][channel][filter]
    task = one block of tiles; or one block and one panel of filters, where there are few blocks:
        transform the tiles (in the second case by a kernel of its own): data[point][tile][channel]
        for each panel of filters:
            for each point: products[point][tile][filter] = data[point] @ weights[panel][point]
            transform them to results, transpose them, and run the epilogue

Where weights change from call to call and are many beside the tiles, the transformed weights would
be written to memory to be read once. There each task transforms the weights of one panel of
filters, some channels at a time, and adds their products to those of all blocks.
"""

from __future__ import annotations

from functools import cached_property

from ...ir.affine_index import Index, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import For, Kernel, const
from ...ir.sizes import upper_bound
from ..gemm.plan import choose_tile_rows
from ..partition_work import buffers_of
from .convolution import Convolution
from .input_transform import InputSource, InputTiles
from .output_transform import OutputTransform
from .tile_grid import TileBlock, TileGrid, even_blocks
from .weight_transform import WeightTransform

_MAX_TILES_PER_BLOCK = 32  # transformed data of a block stays in the second cache
_MIN_BLOCKS_PER_THREAD = 4  # with fewer, a kernel of its own transforms the tiles
_MAX_BLOCKS_WITH_CACHED_SUMS = 4  # their sums stay in the second cache while weights are streamed


class ConvKernel:
    """The kernels of one convolution."""

    def __init__(self, of: Convolution) -> None:
        self.of = of
        self.grid = TileGrid(of.images, of.space, of.transforms.results,
                             even_blocks(of.tile_counts, _MAX_TILES_PER_BLOCK))
        blocks = upper_bound(self.grid.block_count)
        panels = -(-of.filters // (2 * of.machine.lanes()))
        self.fuses_transform = blocks >= _MIN_BLOCKS_PER_THREAD * of.machine.threads
        self.transforms_weights_in_place = (
            not self.fuses_transform
            and not of.persistent_weights
            and blocks <= _MAX_BLOCKS_WITH_CACHED_SUMS
            and panels >= of.machine.threads
        )

    @cached_property
    def tiles(self) -> InputTiles:
        of = self.of
        source = InputSource(of.channels, of.source_space, of.pad, of.image)
        return InputTiles(source, self.grid, of.transforms.data, of.machine, f"{of.name}_tiles",
                          of.dtype, per_task=self.fuses_transform)

    @cached_property
    def weights(self) -> WeightTransform:
        of = self.of

        def element(filter: Index, channel: Index, y: Index, x: Index) -> ExprValue:
            return of.other_operand(filters=filter, channels=channel, y=y, x=x)

        return WeightTransform(
            of.filters,
            of.channels,
            element,
            of.transforms.weights,
            of.machine,
            f"{of.name}_weights",
            of.dtype,
            per_task=self.transforms_weights_in_place,
        )

    @cached_property
    def tile_rows(self) -> int:
        """The number of tiles whose sums stay in registers."""
        return choose_tile_rows(self.grid.block_tiles, self.of.machine.tile_rows)

    def kernels(self) -> list[Kernel]:
        """All kernels, in order."""
        if self.transforms_weights_in_place:
            return [*self.tiles.kernels(self.of.sites), self._chunked_kernel()]
        weights = self.weights.kernel(self.of.sites)
        if self.fuses_transform:
            return [weights, self._fused_kernel()]
        return [weights, *self.tiles.kernels(self.of.sites), self._product_kernel()]

    def _fused_kernel(self) -> Kernel:
        tasks, results = self.grid.block_count, OutputTransform(self)
        var, task = counter("task", tasks)
        block = TileBlock(self.grid, task)
        p, panel = counter("panel", self.weights.panels)
        panel_loop = For(p, const(0), const(self.weights.panels),
                         tuple(results.statements(block, panel)))
        body = (*self.tiles.statements(block), panel_loop)
        scratch = (self.tiles.pixels, self.tiles.data, *results.scratch)
        return Kernel(self.of.name, *buffers_of(body), scratch, var, tasks, body,
                      self.of.nanoseconds, self.of.sites)

    def _product_kernel(self) -> Kernel:
        blocks, results = self.grid.block_count, OutputTransform(self)
        tasks = blocks * self.weights.panels
        var, task = counter("task", tasks)
        body = tuple(results.statements(TileBlock(self.grid, task % blocks), task // blocks))
        return Kernel(self.of.name, *buffers_of(body), results.scratch, var, tasks, body,
                      self.of.nanoseconds, self.of.sites)

    def _chunked_kernel(self) -> Kernel:
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
        scratch = weights.data, weights.untransformed, *results.scratch
        return Kernel(self.of.name, *buffers_of(body), scratch, var, weights.panels, body,
                      self.of.nanoseconds, self.of.sites)
