"""Reduces windows of images, as depthwise convolutions do, with every pixel read once.

A task copies a band of rows of an image into scratch memory, with the fill around them. So windows
have no masks. With a stride, the columns of a row are in as many parts, each contiguous: the first
holds the columns 0, stride, 2 * stride, ... Then the results of a tile, which is several rows and
one or two vectors of columns, are computed side by side: each one alone would wait for its own
additions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...capture.graph.graph import Node, missing_below
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, counter
from ..ir.axis_coalescing import number_of
from ..ir.builder import ExprValue
from ..ir.inline import Indices, Inliner, load
from ..ir.loop_ir import Expr, For, Kernel, KernelBuffer, Register, Stmt, const
from ..ir.sizes import is_dynamic
from .loop_body import LoopBody
from .loop_nest import LoopNest
from .partition_work import buffers_of, chunk_bounds, sites_of, split_into_tasks
from .transposed_reads import substitute

_MAX_BAND_BYTES = 1 << 14  # half of the smallest innermost caches
_MAX_SEQUENTIAL_PRODUCTS = 512  # as many as products of matrices add up in a register
_MIN_UPDATES_IN_FLIGHT = 8  # with fewer, the processor waits for the previous additions
_UPDATES_PER_READ = 2  # in the same time
_MIN_READS_PER_PIXEL = 2  # with fewer, a copy costs more than it saves
_MIN_OPS_AFTER = 8.0  # simple operations after a sum from which they are a loop of their own


@dataclass(frozen=True)
class _Windows:
    """A group's reduction of windows. `axes`: those of the domain that count rows of results,
    columns, rows of a window, and its columns; None where the size is 1."""

    node: Node  # the window
    sum: Node
    axes: tuple[int | None, ...]

    def __getattr__(self, name: str) -> Any:
        return self.node.params[name]

    @property
    def image(self) -> Node:
        return self.node.inputs[0]

    def reach(self, a: int, windows: int) -> int:
        """The elements along axis `a` of the image that so many neighbouring windows read."""
        steps = (windows - 1) * self.stride[a] + (self.kernel[a] - 1) * self.dilation[a]
        return steps + 1  # type: ignore[no-any-return]


def window_sums(nest: LoopNest) -> Kernel | None:
    """The kernel of a group that reduces windows of images, or None for other groups."""
    windows = _windows_of(nest)
    return None if windows is None else _WindowKernel(nest, windows).kernel()


# ---- which groups
def _windows_of(nest: LoopNest) -> _Windows | None:
    body, group = nest.body, nest.group
    if len(body.sweeps) != 1 or body.column_sums or body.sweeps[0].elementwise \
            or len(body.sweeps[0].reductions) != 1 or any(map(is_dynamic, group.domain)):
        return None
    (total,) = body.sweeps[0].reductions
    found = [n for n in _below(total, body) if n.op == "window"]
    if len(found) != 1 or len(found[0].params["kernel"]) != 2:
        return None
    axes = _axes_of(found[0], total, nest)
    windows = None if axes is None else _Windows(found[0], total, axes)
    return windows if windows is not None and _is_worth_a_copy(windows, nest) else None


def _below(total: Node, body: LoopBody) -> Iterator[Node]:
    """The nodes that the reduction computes from memory."""
    visited = dict.fromkeys(body.buffers)
    for node in missing_below(total.inputs[0], visited, body.buffers.__contains__):
        visited[node] = None
        if node not in body.buffers:
            yield node


def _axes_of(window: Node, total: Node, nest: LoopNest) -> tuple[int | None, ...] | None:
    """The axes of the domain that are the positions and the elements of windows; None if other
    indices count them, or other axes are reduced."""
    group, seen = nest.group, list[tuple[Indices, Any]]()

    def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        if node is window:
            seen.append((tuple(map(as_index, index)), mask))
            return ExprValue(loop_ir.read(Register("window", node.type.dtype)))
        return _operand(nest, node, index, mask)

    variables = group.variables()
    Inliner(read).value(total.inputs[0], variables)
    if len(seen) != 1 or seen[0][1] is not None:
        return None
    *lead, y, x, ky, kx = seen[0][0]
    atoms = {next(iter(v.terms)): a for a, v in enumerate(variables) if v.terms}
    axes = [_axis_counted_by(i, atoms) for i in (y, x, ky, kx)]
    counted = [a for a in axes if a is not None]
    reduced = [a for a in group.axes or () if group.domain[a] != 1]
    images = {e for i in lead for e in loop_ir.subexpressions([i.expr()])}
    lanes = [a for a in group.outer_axes if group.domain[a] != 1][-1:]
    if axes[1] is not None and [axes[1]] != lanes:
        return None  # neighbours in memory are not pixels of a row, as where channels are last
    if -1 in axes or sorted(a for a in axes[2:] if a is not None) != sorted(reduced) \
            or len({*counted}) < len(counted) or any(e in images for e, a in atoms.items()
                                                     if a in counted):
        return None
    return tuple(axes)


def _axis_counted_by(index: Index, atoms: dict[Any, int]) -> int | None:
    """The axis whose variable is the index; None for the index 0, -1 for other ones."""
    if not index.terms:
        return -1 if index.const else None
    (e, factor), *more = index.terms.items()
    return atoms.get(e, -1) if factor == 1 and not more and not index.const else -1


def _operand(nest: LoopNest, node: Node, index: Indices, mask: Any) -> ExprValue | None:
    if node in nest.body.buffers and node not in nest.group.members:
        return load(nest.body.buffers[node], node.type, index, mask)
    return None


def _is_worth_a_copy(windows: _Windows, nest: LoopNest) -> bool:
    elements, dtype = product(windows.kernel), windows.node.type.dtype
    images = product(nest.group.domain) // (product(windows.out) * elements)
    return windows.sum.type.dtype == dtype and dtype.kind == "f" and dtype.itemsize >= 4 \
        and windows.spread == (1, 1) and min(windows.pad) >= 0 \
        and elements <= _MAX_SEQUENTIAL_PRODUCTS and images >= 2 * nest.machine.threads \
        and elements >= _MIN_READS_PER_PIXEL * product(windows.stride)


# ---- the kernel
@dataclass(frozen=True)
class _Tile:
    """Results that are computed side by side: so many rows and vectors of columns.

    `shares`: whether a pixel is read once for all of them, with all weights in registers; if not,
    a loop over the rows of a window reads it for each."""

    rows: int
    vectors: int
    shares: bool


class _Element(NamedTuple):
    """An element of a reduction's operand as an expression of a pixel, and of the variables of a
    row, a column, and a place in the window."""

    value: Expr
    pixel: Expr
    places: tuple[Expr, ...]


class _WindowKernel:
    """The loops over the images of a group."""

    def __init__(self, nest: LoopNest, windows: _Windows) -> None:
        self.nest, self.windows = nest, windows
        self.domain = nest.group.domain
        self.height: int = windows.out[0]
        self.width: int = windows.out[1]
        self.part = -(-windows.reach(1, self.width) // windows.stride[1])  # columns of a part
        self.pitch = self.part * windows.stride[1]
        tile = self._tile()
        self.rows, self.shares = tile.rows, tile.shares
        self.lanes = nest.lanes_for(self.width, tile.vectors)
        self.tiles = self._tiles_per_band()
        dtype, lines = windows.node.type.dtype, windows.reach(0, self.tiles * self.rows)
        self.copy = KernelBuffer("image", dtype, lines * self.pitch, scratch=True)
        self.saved = KernelBuffer("sums", dtype, self.tiles * self.rows * self.width, scratch=True)
        self.saves = nest.body.work_after(0) >= _MIN_OPS_AFTER
        self.bodies = [nest.body.with_own_sums(0, str(r)) for r in range(self.rows)]

    def kernel(self) -> Kernel:
        """The kernel, with a chunk of the images in each task."""
        nest, images = self.nest, [a for a in self.nest.group.outer_axes
                                   if a not in self.windows.axes]
        count = product(self.domain[a] for a in images)
        smallest = nest.chunks_per_task(nest.outer_size * nest.inner_size // count)
        tasks, chunk = split_into_tasks(count, smallest, nest.machine)
        (var, task), (number, image) = counter("task", tasks), counter("o", count)
        where = {a: as_index(0) for a in range(len(self.domain))}
        for a in reversed(images):
            where[a], image = image % self.domain[a], image // self.domain[a]
        loop = For(number, *chunk_bounds(task, chunk, count),
                   tuple(self._bands(where)))
        body = (self._filled(const(0), const(self.copy.size // self.pitch)), loop)
        scratch = (self.copy, self.saved) if self.saves else (self.copy,)
        return Kernel(nest.name, *buffers_of(body), scratch, var, tasks, body,
                      nest.nanoseconds(nest.outer_size * nest.inner_size),
                      sites_of(nest.group.members))

    def _tile(self) -> _Tile:
        """The fastest tile, by its updates and the reads of lines and weights.

        A vector of neighbouring pixels mostly lies across two cache lines, so a read takes as long
        as two updates."""
        elements: int = product(self.windows.kernel)
        has_room = elements + _MIN_UPDATES_IN_FLIGHT + 1 < self.nest.machine.registers

        def seconds(rows: int, vectors: int, shares: bool) -> float:
            updates = max(rows * vectors, _MIN_UPDATES_IN_FLIGHT) * elements
            reads: int = self.windows.reach(0, rows) * self.windows.kernel[1] * vectors \
                if shares else (rows * vectors + 1) * elements
            return max(updates, _UPDATES_PER_READ * reads)

        def time(tile: _Tile) -> float:
            rest: int = self.height % tile.rows
            of = tile.vectors, tile.shares
            columns: int = -(-self.width // (tile.vectors * self.nest.lanes))
            return columns * (self.height // tile.rows * seconds(tile.rows, *of)
                              + (seconds(rest, *of) if rest else 0))

        most = _MIN_UPDATES_IN_FLIGHT  # more would only make the code longer
        sizes = [(r, v) for r in range(1, min(self.height, most) + 1) for v in (1, 2)
                 if r * v <= most]
        tiles = [_Tile(r, v, shares) for shares in (True, False)[not has_room:] for r, v in sizes]
        return min(tiles, key=time)

    def _tiles_per_band(self) -> int:
        """The tiles of a band: as many as the innermost cache holds."""
        full, itemsize = self.height // self.rows, self.windows.node.type.dtype.itemsize
        fit = [n for n in range(1, full + 1) if self.windows.reach(0, n * self.rows) * self.pitch
               * itemsize <= _MAX_BAND_BYTES]
        bands: int = -(-full // max(fit, default=1))
        return -(-full // bands)

    # ---- bands
    def _bands(self, where: dict[int, Index]) -> list[Stmt]:
        """Statements that compute the results of the image at `where`."""
        full, rest = divmod(self.height, self.rows)
        count = -(-full // self.tiles)
        band, number = counter("band", count)
        tiles = _clipped(self.tiles, full - number * self.tiles)
        body = self._band(where, number * (self.tiles * self.rows), tiles, self.rows,
                          count > 1 or bool(rest))
        last = self._band(where, as_index(full * self.rows), const(1), rest, True) if rest else []
        return [For(band, const(0), const(count), tuple(body)), *last]

    def _band(self, where: dict[int, Index], first: Index, tiles: Expr, rows: int, fills: bool
              ) -> list[Stmt]:
        """Statements that compute `tiles` tiles of so many rows, from the row `first` on.

        `fills`: whether other bands have left pixels where this one has the fill."""
        lines = self.windows.reach(0, (self.tiles if rows == self.rows else 1) * rows)
        tile, number = counter("tile", self.tiles if rows == self.rows else 1)
        at = self._tile_of(where, first, number * rows, rows)
        count = loop_ir.call("mul", (tiles, const(rows)), loop_ir.INT)
        return [*self._copied(where, first, lines, fills), For(tile, const(0), tiles, (at,)),
                *self._epilogue(where, first, count)]

    # ---- the copy
    def _filled(self, start: Expr, stop: Expr) -> Stmt:
        """Fills lines of the scratch memory."""
        (line, y), (lane, i) = counter("line", self.copy.size // self.pitch), counter("z",
                                                                                      self.pitch)
        fill = loop_ir.Store(self.copy, (y * self.pitch + i).expr(),
                             const(self.windows.fill, self.copy.dtype))
        return For(line, start, stop, (For(lane, const(0), const(self.pitch), (fill,),
                                           self.nest.lanes),))

    def _copied(self, where: dict[int, Index], first: Index, lines: int, fills: bool
                ) -> list[Stmt]:
        """Statements that copy the pixels that windows from the row `first` on read."""
        windows, height = self.windows, self.windows.image.type.shape[-2]
        line, y = counter("line", height)
        top = first * windows.stride[0] - windows.pad[0]  # the row of the image that begins
        low, high = top.range()
        start, stop = (const(0), const(height))
        if low == high or low >= 0:
            start = as_index(max(0, low) if low == high else top).expr()
        else:
            start = loop_ir.call("maximum", (top.expr(), const(0)), loop_ir.INT)
        end = top + lines
        stop = const(max(0, min(height, low + lines))) if low == high else \
            end.expr() if high + lines <= height else \
            loop_ir.call("minimum", (end.expr(), const(height)), loop_ir.INT)
        around = []
        if fills and low < 0:
            around.append(self._filled(const(0), _difference(start, top)))
        if fills and high + lines > height:
            around.append(self._filled(_difference(stop, top), const(lines)))
        return [*around, For(line, start, stop, tuple(self._copied_line(where, y, y - top)))]

    def _copied_line(self, where: dict[int, Index], y: Index, into: Index) -> list[Stmt]:
        """Statements that copy row `y` of the image into a line of the scratch memory."""
        left, width = self.windows.pad[1], self.windows.image.type.shape[-1]
        step = self.windows.stride[1]
        loops: list[Stmt] = []
        for part in range(step):
            first = -(-max(0, left - part) // step)  # of the part's columns
            count = min(self.part, -(-(left + width - part) // step)) - first
            if count <= 0:
                continue
            lane, j = counter("j", count)
            at = into * self.pitch + part * self.part + first + j
            pixel = self._pixel(where, y, (j + first) * step + (part - left))
            store = loop_ir.Store(self.copy, at.expr(), pixel.expr)
            loops.append(For(lane, const(0), const(count), (store,), self.nest.lanes_for(count)))
        return loops

    def _pixel(self, where: dict[int, Index], y: Index, x: Index) -> ExprValue:
        """A pixel of the image whose windows the reduction reads at `where`."""
        found = list[ExprValue]()

        def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
            if node is self.windows.node:
                image = self.windows.image
                found.append(inside.value(image, (*index[:-4], y, x)))
                return found[0]
            return _operand(self.nest, node, index, mask)

        inside = Inliner(lambda *read: _operand(self.nest, *read))
        Inliner(read).value(self.windows.sum.inputs[0], tuple(where.values()))
        return found[0]

    # ---- the sums
    def _tile_of(self, where: dict[int, Index], first: Index, line: Index, rows: int) -> Stmt:
        """The loop over columns that computes some rows of results, of which the first is row
        `line` of the band that begins at row `first`."""
        lane, x = counter("i", self.width)
        element = self._element(where)
        high, wide = map(range, self.windows.kernel)

        def update(r: int, ky: Index | int, kx: int) -> Stmt:
            at = tuple(map(as_index, (first + line + r, x, ky, kx)))
            return self._update(self.bodies[r], element, self._pixel_at(line + r, x, ky, kx), at)

        bodies = self.bodies[:rows]
        statements = [s for b in bodies for s in b.init_sums(0)]
        if self.shares:
            step, dilation = self.windows.stride[0], self.windows.dilation[0]
            order = sorted(itertools.product(range(rows), high, wide),
                           key=lambda at: (at[0] * step + at[1] * dilation, at[2]))
            statements += itertools.starmap(update, order)
        else:
            down, ky = counter("ky", len(high))
            steps = tuple(update(r, ky, kx) for kx, r in itertools.product(wide, range(rows)))
            statements.append(For(down, const(0), const(len(high)), steps))
        for r, b in enumerate(bodies):
            statements += self._finished(b, where, first, line + r, x)
        return For(lane, const(0), const(self.width), tuple(statements), self.lanes)

    def _element(self, where: dict[int, Index]) -> _Element:
        """An element of the reduction's operand, evaluated once for all of them."""
        pixel = loop_ir.read(Register("pixel", self.copy.dtype))
        sizes = (self.height, self.width, *self.windows.kernel)
        places = [counter(f"place{n}", size) for n, size in enumerate(sizes)]

        def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
            return ExprValue(pixel) if node is self.windows.node \
                else _operand(self.nest, node, index, mask)

        at = self._place(where, *(i for _, i in places))
        value = Inliner(read).value(self.windows.sum.inputs[0], tuple(at.values()))
        return _Element(value.expr, pixel, tuple(var for var, _ in places))

    def _update(self, body: LoopBody, element: _Element, pixel: Expr, at: tuple[Index, ...]
                ) -> Stmt:
        """The statement that adds the element at a row, a column, and a place in the window."""
        total = self.windows.sum
        actual = {element.pixel: pixel, **{v: i.expr() for v, i in zip(element.places, at)}}
        return loop_ir.Update(body.registers[total], OPS[total.op].meaning.combine,
                              substitute(element.value, actual))

    def _pixel_at(self, line: Index, x: Index, ky: Index | int, kx: int) -> Expr:
        """An element of a window, read from the copy."""
        down, step = self.windows.stride
        dilation, across = self.windows.dilation
        shift = kx * across
        row = line * down + as_index(ky) * dilation
        at = row * self.pitch + shift % step * self.part + shift // step + x
        return loop_ir.load(self.copy, at.expr())

    def _place(self, where: dict[int, Index], *indices: Index | int) -> dict[int, Index]:
        """The position in the domain of a row, a column, and an element of a window."""
        return where | {a: as_index(i) for a, i in zip(self.windows.axes, indices)
                        if a is not None}

    # ---- after the sums
    def _finished(self, body: LoopBody, where: dict[int, Index], first: Index, line: Index,
                  x: Index) -> list[Stmt]:
        """Statements after a sum: they save it, or compute and store the results."""
        if not self.saves:
            return body.finish_sweep(0, tuple(self._place(where, first + line, x).values()))
        return [loop_ir.Store(self.saved, (line * self.width + x).expr(),
                              loop_ir.read(body.registers[self.windows.sum]))]

    def _epilogue(self, where: dict[int, Index], first: Index, rows: Expr) -> list[Stmt]:
        """Statements that compute the results of a band from its saved sums."""
        if not self.saves:
            return []
        (row, y), (lane, x) = counter("row", self.tiles * self.rows), counter("i", self.width)
        saved = loop_ir.load(self.saved, (y * self.width + x).expr())
        restore = loop_ir.Assign(self.nest.body.registers[self.windows.sum], saved)
        at = tuple(self._place(where, first + y, x).values())
        results = For(lane, const(0), const(self.width),
                      (restore, *self.nest.body.finish_sweep(0, at)),
                      self.nest.lanes_for(self.width))
        return [For(row, const(0), rows, (results,))]


def _clipped(most: int, rest: Index) -> Expr:
    """`most`, or the rest if that is less."""
    if rest.range()[0] >= most:
        return const(most)
    return loop_ir.call("minimum", (const(most), rest.expr()), loop_ir.INT)


def _difference(a: Expr, b: Index) -> Expr:
    """a - b."""
    number = number_of(a)
    return (as_index(number) - b).expr() if number is not None else \
        loop_ir.call("sub", (a, b.expr()), loop_ir.INT)
