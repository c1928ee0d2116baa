"""Products of transformed tiles, and their way back to pixels: the sums of a block's filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom, counter
from ...ir.loop_ir import Buffer, For, Register, Stmt, Var, const
from ..gemm.coalesce import steps_as_one
from ..gemm.microkernel import sums_of_products
from .input_transform import LINE, odd_lines
from .matrices import on_both_sides
from .tile_grid import TileBlock, least

if TYPE_CHECKING:
    from .conv import ConvKernel


class OutputTransform:
    """What a block gives for one panel of filters."""

    def __init__(self, layer: ConvKernel) -> None:
        self.layer, self.of, self.grid = layer, layer.of, layer.grid
        images, rows, columns = self.grid.block
        self.height, self.width = rows * self.grid.step, columns * self.grid.step
        self.pixels = images * self.height * self.width
        self.panel = layer.weights.panel
        self.point_pitch = odd_lines(self.grid.block_tiles * self.panel)
        self.filter_pitch = self.pixels + LINE
        dtype, points = self.of.dtype, layer.tiles.points
        blocks = self.grid.block_count if layer.in_chunks else 1
        self.block_pitch = points * self.point_pitch
        self.products = Buffer("products", dtype, blocks * self.block_pitch, scratch=True)
        self.pixel_rows = Buffer("results", dtype, self.pixels * self.panel, scratch=True)
        self.filter_rows = Buffer("turned", dtype, self.panel * self.filter_pitch, scratch=True)
        self.whole_rows = self.width == self.of.space[1] and steps_as_one(
            self.of.group, self.of.buffers,
            [self.of.letters[2].index(a) for a in self.of.roles.space])

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The memory that a task needs for it."""
        return self.products, self.pixel_rows, self.filter_rows

    def statements(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """Everything from the block's transformed tiles to what the group stores."""
        return [self.multiplied(block, panel), *self.finished(block, panel)]

    def finished(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """Everything from the block's products to what the group stores."""
        return [*self._back(self._place(block)),
                *turned(self.pixel_rows, self.pixels, self.panel, self.filter_rows,
                        self.filter_pitch, self.of.machine.lanes()), *self._stored(block, panel)]

    # ---- products
    def _place(self, block: TileBlock) -> Index:
        """Where the products of a block are."""
        return block.number * self.block_pitch if self.layer.in_chunks else as_index(0)

    def cleared(self) -> Stmt:
        """Begins all products with 0."""
        var, lane = counter("z", self.products.size)
        zero = loop_ir.Store(self.products, lane.expr(), loop_ir.const(0, self.of.dtype))
        return For(var, const(0), const(self.products.size), (zero,), self.of.machine.lanes())

    def multiplied(self, block: TileBlock, panel: Index, chunk: Index | None = None) -> Stmt:
        """A product of matrices for every point: of all channels, or one that is added for some."""
        size = self.layer.tile_rows
        var, point = counter("point", self.layer.tiles.points)
        whole, rest = divmod(self.grid.block_tiles, size)
        row, number = counter("tile", whole)
        body: list[Stmt] = [For(row, const(0), const(whole), (
            self._tile(block, panel, point, number * size, size, chunk),))]
        if rest:
            body.append(self._tile(block, panel, point, as_index(whole * size), rest, chunk))
        return For(var, const(0), const(self.layer.tiles.points), tuple(body))

    def _tile(self, block: TileBlock, panel: Index, point: Index, first: Index, count: int,
              chunk: Index | None) -> Stmt:
        """The sums of some of the block's tiles, one filter of the panel per lane."""
        tiles, weights, dtype = self.layer.tiles, self.layer.weights, self.of.dtype
        var, lane = counter("j", self.panel)
        k = Var("k")
        some = const(self.of.channels) if chunk is None else weights.count(chunk)
        depth = atom(k, (0, (self.of.channels if chunk is None else weights.size) - 1))
        start = as_index(0) if chunk is None else chunk * weights.size
        places = [(self._place(block) + point * self.point_pitch + (first + i) * self.panel
                   + lane).expr() for i in range(count)]
        registers = [Register(f"s{i}", dtype) for i in range(count)]
        rows = [loop_ir.load(tiles.data, tiles.place(
            block.number, point, first + i, start + depth).expr()) for i in range(count)]
        column = loop_ir.load(weights.data, (weights.place(panel, point, depth) + lane).expr())
        body: list[Stmt] = [
            loop_ir.Assign(r, loop_ir.const(0, dtype) if chunk is None else
                           loop_ir.load(self.products, place))
            for r, place in zip(registers, places)]
        body.append(sums_of_products(registers, k, some, rows, column))
        body += [loop_ir.Store(self.products, place, loop_ir.read(r))
                 for r, place in zip(registers, places)]
        return For(var, const(0), const(self.panel), tuple(body), self.panel)

    # ---- back to pixels
    def _back(self, base: Index) -> list[Stmt]:
        """Transforms the sums of each tile: its results, with the filters side by side."""
        of = self.of
        m, side = self.grid.step, of.transforms.side
        images, rows, columns = self.grid.block
        (r, row), (q, column) = counter("r", images * rows), counter("q", columns)
        var, lane = counter("f", self.panel)
        tile = base + (row * columns + column) * self.panel + lane
        square = [[loop_ir.load(self.products, ((i * side + j) * self.point_pitch + tile).expr())
                   for j in range(side)] for i in range(side)]
        body, results = on_both_sides(of.transforms.back, square, "y")
        for n, register in enumerate(results):
            pixel = (row * m + n // m) * self.width + column * m + n % m
            body.append(loop_ir.Store(self.pixel_rows, (pixel * self.panel + lane).expr(),
                                      loop_ir.read(register)))
        lanes = For(var, const(0), const(self.panel), tuple(body), of.machine.lanes())
        return [For(r, const(0), const(images * rows), (
            For(q, const(0), const(columns), (lanes,)),))]

    # ---- epilogue
    def _stored(self, block: TileBlock, panel: Index) -> list[Stmt]:
        """What the group computes from each pixel, and its stores."""
        of = self.of
        filters = least(self.panel, of.filters - panel * self.panel)
        (i, image), (f, number) = counter("i", self.grid.block[0]), counter("f", self.panel)
        place = number * self.filter_pitch + image * (self.height * self.width)
        where = {of.roles.images: block.first[0] + image,
                 of.roles.filters: panel * self.panel + number}
        rows = self._as_one if self.whole_rows else self._row_by_row
        pixels = rows(block, place, where)
        return [For(i, const(0), block.count(0), (For(f, const(0), filters, (pixels,)),))]

    def _as_one(self, block: TileBlock, place: Index, where: dict[str, Index]) -> Stmt:
        """All pixels of a filter in one loop."""
        y, x = self.of.roles.space
        most = self.height * self.width
        lane = Var("p")
        pixel = atom(lane, (0, most - 1))
        first = block.first[1] * (self.grid.step * self.width)
        where = where | {y: as_index(0), x: first + pixel}
        rows = block.results(0)
        count = const(rows.value * self.width) if isinstance(rows, loop_ir.Const) else \
            loop_ir.call("mul", (rows, const(self.width)), loop_ir.INT)
        body = tuple(self._pixel(place + pixel, where))
        return For(lane, const(0), count, body, self.of.machine.lanes())

    def _row_by_row(self, block: TileBlock, place: Index, where: dict[str, Index]) -> Stmt:
        of, m = self.of, self.grid.step
        (r, row), (c, column) = counter("y", self.height), counter("x", self.width)
        y, x = of.roles.space
        where = where | {y: block.first[1] * m + row, x: block.first[2] * m + column}
        body = self._pixel(place + row * self.width + column, where)
        lanes = For(c, const(0), block.results(1), tuple(body), of.machine.lanes())
        return For(r, const(0), block.results(0), (lanes,))

    def _pixel(self, place: Index, where: dict[str, Index]) -> list[Stmt]:
        return self.of.stores(where, loop_ir.load(self.filter_rows, place.expr()))


def turned(rows: Buffer, count: int, columns: int, into: Buffer, pitch: int, vector: int
           ) -> list[Stmt]:
    """Turns so many rows: what stood below one another lies side by side, `pitch` after what stood
    beside it."""
    whole, rest = divmod(count, vector)
    out: list[Stmt] = []
    for start, blocks, there in ((0, whole, vector), (whole, 1, rest)):
        if blocks and there:
            (b, number), (f, part) = counter("b", blocks), counter("f", columns // vector)
            row, lane = (number + start) * vector, part * vector
            block = loop_ir.Transpose(into, (lane * pitch + row).expr(), pitch, rows,
                                      (row * columns + lane).expr(), columns, vector, there)
            out.append(For(b, const(0), const(blocks), (
                For(f, const(0), const(columns // vector), (block,)),)))
    return out
