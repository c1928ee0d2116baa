"""Products of transformed tiles, and their way back to pixels: the sums of a block's filters."""

from __future__ import annotations

from typing import Any

from ...capture.graph import Node
from .. import loops
from ..index import Index, as_index, atom
from ..inline import Indices, Inliner, flat
from ..loops import Buffer, For, Register, Stmt, Var, const
from ..nest import counter
from ..tile import steps_as_one, sums_of_products
from ..values import Value, cast
from .block import Block, least
from .layer import Layer
from .matrices import on_both_sides

_LINE = 16  # float32 in a cache line


class Results:
    """What a block gives for one panel of filters."""

    def __init__(self, of: Layer) -> None:
        self.of = of
        m = of.transforms.results
        images, rows, columns = of.block
        self.width = columns * m
        self.height = rows * m
        self.pixels = images * self.height * self.width
        lines = of.block_tiles * of.panel // _LINE
        self.point_pitch = (lines | 1) * _LINE  # as `Layer.point_pitch`
        self.filter_pitch = self.pixels + _LINE
        self.products = Buffer("products", of.dtype, of.points * self.point_pitch, scratch=True)
        self.pixel_rows = Buffer("pixels", of.dtype, self.pixels * of.panel, scratch=True)
        self.filter_rows = Buffer("filters", of.dtype, of.panel * self.filter_pitch, scratch=True)
        self.whole_rows = self.width == of.out[1] and steps_as_one(
            of.group, of.buffers, [of.letters[2].index(a) for a in of.roles.space])

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return self.products, self.pixel_rows, self.filter_rows

    def statements(self, block: Block, base: Index, panel: Index) -> list[Stmt]:
        """Everything from the block's transformed tiles at `base` to what the group stores."""
        return [self._multiplied(base, panel), *self._back(), *self._turned(),
                *self._stored(block, panel)]

    # ---- products
    def _multiplied(self, base: Index, panel: Index) -> Stmt:
        """A product of matrices for every point."""
        of = self.of
        var, point = counter("point", of.points)
        whole, rest = divmod(of.block_tiles, of.tile_rows)
        row, number = counter("tile", whole)
        body: list[Stmt] = [For(row, const(0), const(whole), (
            self._tile(base, panel, point, number * of.tile_rows, of.tile_rows),))]
        if rest:
            start = as_index(whole * of.tile_rows)
            body.append(self._tile(base, panel, point, start, rest))
        return For(var, const(0), const(of.points), tuple(body))

    def _tile(self, base: Index, panel: Index, point: Index, first: Index, count: int) -> Stmt:
        """The sums of some of the block's tiles, one filter of the panel per lane."""
        of = self.of
        var, k = Var("j"), Var("k")
        lane, depth = atom(var, (0, of.panel - 1)), atom(k, (0, of.channels - 1))
        registers = [Register(f"s{i}", of.dtype) for i in range(count)]
        rows = [loops.load(of.data, (base + point * of.point_pitch + (first + i) * of.pitch
                                     + depth).expr()) for i in range(count)]
        column = loops.load(of.weights, (of.weight_place(panel, point, depth) + lane).expr())
        body: list[Stmt] = [loops.Assign(r, loops.const(0, of.dtype)) for r in registers]
        body.append(sums_of_products(registers, k, const(of.channels), rows, column))
        body += [loops.Store(self.products, (point * self.point_pitch + (first + i) * of.panel
                                             + lane).expr(), loops.read(r))
                 for i, r in enumerate(registers)]
        return For(var, const(0), const(of.panel), tuple(body), of.panel)

    # ---- back to pixels
    def _back(self) -> list[Stmt]:
        """Transforms the sums of each tile: its results, with the filters side by side."""
        of = self.of
        m, side = of.transforms.results, of.transforms.side
        images, rows, columns = of.block
        (r, row), (q, column) = counter("r", images * rows), counter("q", columns)
        var, lane = counter("f", of.panel)
        tile = (row * columns + column) * of.panel + lane
        square = [[loops.load(self.products, ((i * side + j) * self.point_pitch + tile).expr())
                   for j in range(side)] for i in range(side)]
        body, results = on_both_sides(of.transforms.back, square, "y")
        for n, register in enumerate(results):
            pixel = (row * m + n // m) * self.width + column * m + n % m
            body.append(loops.Store(self.pixel_rows, (pixel * of.panel + lane).expr(),
                                    loops.read(register)))
        lanes = For(var, const(0), const(of.panel), tuple(body), of.vector)
        return [For(r, const(0), const(images * rows), (
            For(q, const(0), const(columns), (lanes,)),))]

    def _turned(self) -> list[Stmt]:
        """Turns them: the pixels of each filter side by side."""
        of, w = self.of, self.of.vector
        whole, rest = divmod(self.pixels, w)
        out: list[Stmt] = []
        for start, count, rows in ((0, whole, w), (whole, 1, rest)):
            if count and rows:
                (b, number), (f, part) = counter("b", count), counter("f", of.panel // w)
                pixel, lane = (number + start) * w, part * w
                turned = loops.Transpose(
                    self.filter_rows, (lane * self.filter_pitch + pixel).expr(), self.filter_pitch,
                    self.pixel_rows, (pixel * of.panel + lane).expr(), of.panel, w, rows)
                out.append(For(b, const(0), const(count), (
                    For(f, const(0), const(of.panel // w), (turned,)),)))
        return out

    # ---- epilogue
    def _stored(self, block: Block, panel: Index) -> list[Stmt]:
        """What the group computes from each pixel, and its stores."""
        of = self.of
        filters = least(of.panel, of.filters - panel * of.panel)
        (i, image), (f, number) = counter("i", of.block[0]), counter("f", of.panel)
        place = number * self.filter_pitch + image * (self.height * self.width)
        where = {of.roles.images: block.first[0] + image,
                 of.roles.filters: panel * of.panel + number}
        rows = self._as_one if self.whole_rows else self._row_by_row
        pixels = rows(block, place, where)
        return [For(i, const(0), block.count(0), (For(f, const(0), filters, (pixels,)),))]

    def _as_one(self, block: Block, place: Index, where: dict[str, Index]) -> Stmt:
        """All pixels of a filter in one loop."""
        of = self.of
        y, x = of.roles.space
        most = self.height * self.width
        lane = Var("p")
        pixel = atom(lane, (0, most - 1))
        first = block.first[1] * (of.transforms.results * self.width)
        where = where | {y: as_index(0), x: first + pixel}
        rows = block.results(0)
        count = const(rows.value * self.width) if isinstance(rows, loops.Const) else \
            loops.call("mul", (rows, const(self.width)), loops.INT)
        return For(lane, const(0), count, tuple(self._pixel(place + pixel, where)), of.vector)

    def _row_by_row(self, block: Block, place: Index, where: dict[str, Index]) -> Stmt:
        of, m = self.of, self.of.transforms.results
        (r, row), (c, column) = counter("y", self.height), counter("x", self.width)
        y, x = of.roles.space
        where = where | {y: block.first[1] * m + row, x: block.first[2] * m + column}
        body = self._pixel(place + row * self.width + column, where)
        lanes = For(c, const(0), block.results(1), tuple(body), of.vector)
        return For(r, const(0), block.results(0), (lanes,))

    def _pixel(self, place: Index, where: dict[str, Index]) -> list[Stmt]:
        of = self.of
        index = tuple(where[a] for a in of.letters[2])
        total = Value(loops.load(self.filter_rows, place.expr()))

        def leaf(node: Node, index: Indices, mask: Any) -> Value | None:
            return cast(total, node.type.dtype) if node is of.node else of.leaf(node, index, mask)

        inline = Inliner(leaf)
        return [loops.Store(of.buffers[m], flat(index, m.type.shape).expr(),
                            inline.value(m, index).expr)
                for m in of.group.members if m in of.buffers]
