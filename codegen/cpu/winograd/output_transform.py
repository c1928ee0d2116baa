"""Multiplies transformed tiles with weights, and transforms the products to result pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.loop_ir import For, KernelBuffer, Register, Stmt, Var, const
from ..gemm.coalesce import can_coalesce
from ..gemm.microkernel import sums_of_products
from .input_transform import LINE, odd_lines
from .matrices import on_both_sides
from .tile_grid import TileBlock, clipped_count

if TYPE_CHECKING:
    from .conv_kernel import ConvKernel


class OutputTransform:
    """The results of a block for one panel of filters."""

    def __init__(self, layer: ConvKernel) -> None:
        self.conv, self.of, self.grid = layer, layer.of, layer.grid
        images, rows, columns = self.grid.block
        self.height, self.width = rows * self.grid.step, columns * self.grid.step
        self.pixels = images * self.height * self.width
        self.panel = layer.weights.panel
        self.point_pitch = odd_lines(self.grid.block_tiles * self.panel)
        self.filter_pitch = self.pixels + LINE
        dtype, points = self.of.dtype, layer.tiles.points
        blocks = self.grid.block_count if layer.transforms_weights_in_place else 1
        self.block_pitch = points * self.point_pitch
        self.products = KernelBuffer("products", dtype, blocks * self.block_pitch, scratch=True)
        self.pixel_rows = KernelBuffer("results", dtype, self.pixels * self.panel, scratch=True)
        self.filter_rows = KernelBuffer("transposed", dtype, self.panel * self.filter_pitch,
                                        scratch=True)
        self.rows_are_coalesced = self.width == self.of.space[1] and can_coalesce(
            self.of.group, self.of.buffers,
            [self.of.labels[2].index(a) for a in self.of.roles.space])

    @property
    def scratch(self) -> tuple[KernelBuffer, ...]:
        """The scratch buffers of a task."""
        return self.products, self.pixel_rows, self.filter_rows

    def statements(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """Statements from the block's transformed tiles to the stores of the group."""
        return [self.multiplied(block, panel), *self.finished(block, panel)]

    def finished(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """Statements from the block's products to the stores of the group."""
        return [*self._transform(self._products_base(block)),
                *transpose_rows(self.pixel_rows, self.pixels, self.panel, self.filter_rows,
                                self.filter_pitch, self.of.machine.lanes()),
                *self._epilogue(block, panel)]

    # ---- products
    def _products_base(self, block: TileBlock) -> Index:
        """The index of the products of a block."""
        return (
            block.number * self.block_pitch
            if self.conv.transforms_weights_in_place
            else as_index(0)
        )

    def cleared(self) -> Stmt:
        """The loop that sets all products to 0."""
        var, lane = counter("z", self.products.size)
        zero = loop_ir.Store(self.products, lane.expr(), loop_ir.const(0, self.of.dtype))
        return For(var, const(0), const(self.products.size), (zero,), self.of.machine.lanes())

    def multiplied(self, block: TileBlock, panel: Index, chunk: Index | None = None) -> Stmt:
        """The loop of one matrix product per point, of all channels, or added for one chunk of
        them."""
        size = self.conv.tile_rows
        var, point = counter("point", self.conv.tiles.points)
        full, rest = divmod(self.grid.block_tiles, size)
        row, number = counter("tile", full)
        body: list[Stmt] = [For(row, const(0), const(full), (
            self._tile(block, panel, point, number * size, size, chunk),))]
        if rest:
            body.append(self._tile(block, panel, point, as_index(full * size), rest, chunk))
        return For(var, const(0), const(self.conv.tiles.points), tuple(body))

    def _tile(self, block: TileBlock, panel: Index, point: Index, first: Index, count: int,
              chunk: Index | None) -> Stmt:
        """The sums of some of the block's tiles, with one filter of the panel per lane."""
        tiles, weights, dtype = self.conv.tiles, self.conv.weights, self.of.dtype
        var, lane = counter("j", self.panel)
        k = Var("k")
        channel_count = const(self.of.channels) if chunk is None else weights.count(chunk)
        depth = atom(k, (0, (self.of.channels if chunk is None else weights.size) - 1))
        start = as_index(0) if chunk is None else chunk * weights.size
        indices = [(self._products_base(block) + point * self.point_pitch + (first + i) * self.panel
                   + lane).expr() for i in range(count)]
        registers = [Register(f"s{i}", dtype) for i in range(count)]
        rows = [loop_ir.load(tiles.data, tiles.index_of(
            block.number, point, first + i, start + depth).expr()) for i in range(count)]
        column = loop_ir.load(weights.data, (weights.index_of(panel, point, depth) + lane).expr())
        body: list[Stmt] = [
            loop_ir.Assign(r, loop_ir.const(0, dtype) if chunk is None else
                           loop_ir.load(self.products, index))
            for r, index in zip(registers, indices)]
        body.append(sums_of_products(registers, k, channel_count, rows, column))
        body += [loop_ir.Store(self.products, index, loop_ir.read(r))
                 for r, index in zip(registers, indices)]
        return For(var, const(0), const(self.panel), tuple(body), self.panel)

    # ---- output transform
    def _transform(self, base: Index) -> list[Stmt]:
        """Statements that transform the sums of each tile to results, with the filters contiguous.
        """
        of = self.of
        m, side = self.grid.step, of.transforms.side
        images, rows, columns = self.grid.block
        (r, row), (q, column) = counter("r", images * rows), counter("q", columns)
        var, lane = counter("f", self.panel)
        tile = base + (row * columns + column) * self.panel + lane
        square = [[loop_ir.load(self.products, ((i * side + j) * self.point_pitch + tile).expr())
                   for j in range(side)] for i in range(side)]
        body, results = on_both_sides(of.transforms.output, square, "y")
        for n, register in enumerate(results):
            pixel = (row * m + n // m) * self.width + column * m + n % m
            body.append(loop_ir.Store(self.pixel_rows, (pixel * self.panel + lane).expr(),
                                      loop_ir.read(register)))
        lanes = For(var, const(0), const(self.panel), tuple(body), of.machine.lanes())
        return [For(r, const(0), const(images * rows), (
            For(q, const(0), const(columns), (lanes,)),))]

    # ---- epilogue
    def _epilogue(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """The loops that compute and store the group's members at each pixel."""
        of = self.of
        filters = clipped_count(self.panel, of.filters - panel * self.panel)
        (i, image), (f, number) = counter("i", self.grid.block[0]), counter("f", self.panel)
        base = number * self.filter_pitch + image * (self.height * self.width)
        where = {of.roles.images: block.first[0] + image,
                 of.roles.filters: panel * self.panel + number}
        rows = self._coalesced_pixels if self.rows_are_coalesced else self._row_by_row
        pixels = rows(block, base, where)
        return [For(i, const(0), block.count(0), (For(f, const(0), filters, (pixels,)),))]

    def _coalesced_pixels(self, block: TileBlock, base: Index, where: dict[str, Index]) -> Stmt:
        """The loop over all pixels of a filter at once."""
        y, x = self.of.roles.space
        most = self.height * self.width
        lane = Var("p")
        pixel = atom(lane, (0, most - 1))
        first = block.first[1] * (self.grid.step * self.width)
        where = where | {y: as_index(0), x: first + pixel}
        rows = block.results(0)
        count = const(rows.value * self.width) if isinstance(rows, loop_ir.Const) else \
            loop_ir.call("mul", (rows, const(self.width)), loop_ir.INT)
        body = tuple(self._pixel(base + pixel, where))
        return For(lane, const(0), count, body, self.of.machine.lanes())

    def _row_by_row(self, block: TileBlock, base: Index, where: dict[str, Index]) -> Stmt:
        of, m = self.of, self.grid.step
        (r, row), (c, column) = counter("y", self.height), counter("x", self.width)
        y, x = of.roles.space
        where = where | {y: block.first[1] * m + row, x: block.first[2] * m + column}
        body = self._pixel(base + row * self.width + column, where)
        lanes = For(c, const(0), block.results(1), tuple(body), of.machine.lanes())
        return For(r, const(0), block.results(0), (lanes,))

    def _pixel(self, index: Index, where: dict[str, Index]) -> list[Stmt]:
        return self.of.stores(where, loop_ir.load(self.filter_rows, index.expr()))


def transpose_rows(rows: KernelBuffer, count: int, columns: int, into: KernelBuffer, pitch: int,
                   vector: int
                   ) -> list[Stmt]:
    """Loops that transpose `count` rows of `columns` elements; the results are `pitch` apart."""
    full, rest = divmod(count, vector)
    loops: list[Stmt] = []
    for start, blocks, row_count in ((0, full, vector), (full, 1, rest)):
        if blocks and row_count:
            (b, number), (f, part) = counter("b", blocks), counter("f", columns // vector)
            row, lane = (number + start) * vector, part * vector
            block = loop_ir.Transpose(into, (lane * pitch + row).expr(), pitch, rows,
                                      (row * columns + lane).expr(), columns, vector, row_count)
            loops.append(For(b, const(0), const(blocks), (
                For(f, const(0), const(columns // vector), (block,)),)))
    return loops
