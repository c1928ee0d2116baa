"""Lowers the gradient of a convolution by its weights, by Winograd tiles.

    transform the tiles of the images:           data[point][tile][channel]
    and those of the gradients of the results:   back[point][tile][filter]
    task = one panel of filters, some of the channels
        for each point, and for some hundred tiles at a time:
            products[point][channel][filter] += data[point][tile] * back[point][tile]
        transform them to 3 by 3, transpose them, and run the epilogue
"""

from __future__ import annotations

from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import Expr, For, Kernel, KernelBuffer, Register, Stmt, Var, const
from ...ir.sizes import ceil_div
from ..gemm.coalesce import can_coalesce
from ..gemm.microkernel import sums_of_products
from ..gemm.plan import choose_tile_rows
from ..partition_work import buffers_of
from .convolution import Convolution
from .input_transform import LINE, InputSource, InputTiles, odd_lines
from .matrices import KERNEL, FractionMatrix, on_both_sides, transposed
from .output_transform import transpose_rows
from .tile_grid import TileGrid, clipped_count, even_part, full_blocks

_MAX_TILES_PER_BLOCK = 32
_BLOCKS_AT_ONCE = 4  # their products are added together, so that a panel stays in the first cache
_MAX_CHANNELS_PER_TASK = 64
_MIN_TASKS_PER_THREAD = 1  # with fewer tasks, each has fewer channels


class WeightGradient:
    """The kernels of one weight gradient."""

    def __init__(self, of: Convolution) -> None:
        self.of = of
        self.grid = TileGrid(of.images, of.space, of.transforms.results,
                             full_blocks(of.tile_counts, _MAX_TILES_PER_BLOCK))
        self.panel = 2 * of.machine.lanes()
        self.panels = -(-of.filters // self.panel)
        self.points = of.transforms.side ** 2
        self.channels = self._channels_per_task()
        self.groups = -(-of.channels // self.channels)
        self.rows = choose_tile_rows(self.channels, of.machine.tile_rows)

    def _channels_per_task(self) -> int:
        channels, most = self.of.channels, _MAX_CHANNELS_PER_TASK
        while (
            most > LINE
            and self.panels * -(-channels // most) < _MIN_TASKS_PER_THREAD * self.of.machine.threads
        ):
            most //= 2
        return even_part(channels, most)

    # ---- memory
    @cached_property
    def input_tiles(self) -> InputTiles:
        of = self.of
        source = InputSource(of.channels, of.source_space, of.pad, of.image)
        return self._tiles(source, of.transforms.data, "data")

    @cached_property
    def gradient_tiles(self) -> InputTiles:
        of = self.of

        def element(image: Index, filter: Index, y: Index, x: Index) -> ExprValue:
            return of.other_operand(images=image, filters=filter, y=y, x=x)

        source = InputSource(of.filters, of.space, (0, 0), element)
        return self._tiles(source, transposed(of.transforms.output), "back")

    def _tiles(self, source: InputSource, matrix: FractionMatrix, name: str) -> InputTiles:
        return InputTiles(source, self.grid, matrix, self.of.machine, f"{self.of.name}_{name}",
                          self.of.dtype, panels=True)

    @cached_property
    def point_pitch(self) -> int:
        """Elements of the products from one point to the next."""
        return odd_lines(self.channels * self.panel)

    @cached_property
    def products(self) -> KernelBuffer:
        return KernelBuffer("products", self.of.dtype, self.points * self.point_pitch, scratch=True)

    @property
    def weights(self) -> int:
        """The number of elements of a filter that a task computes."""
        return self.channels * KERNEL ** 2

    @cached_property
    def weight_rows(self) -> KernelBuffer:
        return KernelBuffer("results", self.of.dtype, self.weights * self.panel, scratch=True)

    @property
    def filter_pitch(self) -> int:
        return self.weights + LINE

    @cached_property
    def filter_rows(self) -> KernelBuffer:
        return KernelBuffer("transposed", self.of.dtype, self.panel * self.filter_pitch,
                            scratch=True)

    # ---- statements
    def kernels(self) -> list[Kernel]:
        """All kernels, in order."""
        sites = self.of.sites
        return [*self.input_tiles.kernels(sites), *self.gradient_tiles.kernels(sites),
                self._products()]

    def _products(self) -> Kernel:
        tasks = self.panels * self.groups
        var, task = counter("task", tasks)
        panel, first = task // self.groups, task % self.groups * self.channels
        body = (*self._multiplied(panel, first), self._to_weights(),
                *transpose_rows(self.weight_rows, self.weights, self.panel, self.filter_rows,
                                self.filter_pitch, self.of.machine.lanes()),
                self._epilogue(panel, first))
        scratch = self.products, self.weight_rows, self.filter_rows
        return Kernel(self.of.name, *buffers_of(body), scratch, var, tasks, body,
                      self.of.nanoseconds, self.of.sites)

    def _multiplied(self, panel: Index, first: Index) -> list[Stmt]:
        """Statements that compute the products of every point, added up over all tiles."""
        (p, point), (z, index) = counter("point", self.points), counter("z", self.products.size)
        zero = loop_ir.Store(self.products, index.expr(), loop_ir.const(0, self.of.dtype))
        clear = For(z, const(0), const(self.products.size), (zero,), self.of.machine.lanes())
        blocks = self.grid.block_count
        chunks = ceil_div(blocks, _BLOCKS_AT_ONCE)
        chunk_var, number = counter("blocks", chunks)
        start = number * _BLOCKS_AT_ONCE
        count = clipped_count(_BLOCKS_AT_ONCE, blocks - start)
        body: list[Stmt] = []
        full, rest = divmod(self.channels, self.rows)
        r, row = counter("row", full)
        if full:
            inner = self._tile(panel, first, point, row * self.rows, self.rows, start, count)
            body.append(For(r, const(0), const(full), (inner,)))
        if rest:
            body.append(self._tile(panel, first, point, as_index(full * self.rows), rest, start,
                                   count))
        return [clear, For(p, const(0), const(self.points), (
            For(chunk_var, const(0), const(chunks), tuple(body)),))]

    def _tile(self, panel: Index, first: Index, point: Index, row: Index, count: int,
              start: Index, blocks: Expr) -> Stmt:
        """The loop that adds the products of some blocks, for some channels, with one filter per
        lane."""
        dtype, tiles = self.of.dtype, self.grid.block_tiles
        var, lane = counter("j", self.panel)
        (b, number), k = counter("b", _BLOCKS_AT_ONCE), Var("k")
        tile, block = atom(k, (0, tiles - 1)), start + number
        registers = [Register(f"s{i}", dtype) for i in range(count)]
        indices = [(point * self.point_pitch + (row + i) * self.panel + lane).expr()
                   for i in range(count)]
        rows = [loop_ir.load(self.input_tiles.data, self.input_tiles.index_of(
            block, point, tile, self._channel(first + row + i)).expr()) for i in range(count)]
        column = loop_ir.load(self.gradient_tiles.data, self.gradient_tiles.index_of(
            block, point, tile, panel * self.panel + lane).expr())
        sums = sums_of_products(registers, k, const(tiles), rows, column)
        body: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, dtype)) for r in registers]
        body.append(For(b, const(0), blocks, (sums,)))
        for register, index in zip(registers, indices):  # sums of shorter sums round less
            body += [loop_ir.Update(register, "add", loop_ir.load(self.products, index)),
                     loop_ir.Store(self.products, index, loop_ir.read(register))]
        return For(var, const(0), const(self.panel), tuple(body), self.panel)

    def _channel(self, number: Index) -> Index:
        """The channel, or the last channel in place of those that do not exist in the last task."""
        last = self.of.channels - 1
        if number.range()[1] <= last:
            return number
        return atom(loop_ir.call("minimum", (number.expr(), const(last)), loop_ir.INT), (0, last))

    def _to_weights(self) -> Stmt:
        """The loop that transforms the sums of every channel to 3 by 3, with the filters
        contiguous."""
        (c, channel), (f, lane) = counter("c", self.channels), counter("f", self.panel)
        side = self.of.transforms.side
        index = channel * self.panel + lane
        square = [[loop_ir.load(self.products, ((i * side + j) * self.point_pitch + index).expr())
                   for j in range(side)] for i in range(side)]
        body, results = on_both_sides(transposed(self.of.transforms.weights), square, "g")
        body += [loop_ir.Store(self.weight_rows, ((channel * KERNEL ** 2 + n) * self.panel
                                                  + lane).expr(), loop_ir.read(r))
                 for n, r in enumerate(results)]
        lanes = For(f, const(0), const(self.panel), tuple(body), self.of.machine.lanes())
        return For(c, const(0), const(self.channels), (lanes,))

    # ---- epilogue
    def _epilogue(self, panel: Index, first: Index) -> Stmt:
        """The loop that computes and stores the group's members at each weight."""
        of = self.of
        filters = clipped_count(self.panel, of.filters - panel * self.panel)
        channels = clipped_count(self.channels, of.channels - first)
        f, number = counter("f", self.panel)
        where = {of.roles.filters: panel * self.panel + number}
        labels = of.roles.channels, *of.roles.kernel
        is_coalesced = can_coalesce(of.group, of.buffers, [of.labels[2].index(a) for a in labels])
        loop_of = self._coalesced_weights if is_coalesced else self._separate_weights
        return For(f, const(0), filters, (loop_of(number, first, channels, where),))

    def _coalesced_weights(
        self, number: Index, first: Index, channels: Expr, where: dict[str, Index]
    ) -> Stmt:
        """The loop over all weights of a filter at once."""
        var, weight = counter("w", self.weights)
        y, x = self.of.roles.kernel
        where = where | {self.of.roles.channels: as_index(0), y: as_index(0),
                         x: first * KERNEL ** 2 + weight}
        total = loop_ir.load(self.filter_rows, (number * self.filter_pitch + weight).expr())
        count = loop_ir.call("mul", (channels, const(KERNEL ** 2)), loop_ir.INT)
        return For(var, const(0), count, tuple(self.of.stores(where, total)),
                   self.of.machine.lanes())

    def _separate_weights(self, number: Index, first: Index, channels: Expr, where: dict[str, Index]
                          ) -> Stmt:
        (c, channel), (i, row), (j, column) = (
            counter(name, n) for name, n in (("c", self.channels), ("y", KERNEL), ("x", KERNEL)))
        y, x = self.of.roles.kernel
        where = where | {self.of.roles.channels: first + channel, y: row, x: column}
        index = number * self.filter_pitch + (channel * KERNEL + row) * KERNEL + column
        body = self.of.stores(where, loop_ir.load(self.filter_rows, index.expr()))
        inner = For(i, const(0), const(KERNEL), (For(j, const(0), const(KERNEL), tuple(body)),))
        return For(c, const(0), channels, (inner,))
