"""Images and weights transformed: what products of matrices are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import loops
from ..index import Index, as_index, atom
from ..loops import Buffer, For, Stmt, Var, const
from ..nest import counter
from ..pack import pack_loops
from ..part import decode
from ..values import Value, call
from .block import Block, least
from .layer import Layer
from .matrices import KERNEL, on_both_sides

_CHANNELS = 32  # of the weights that are transformed by one task


# ---- images
class Images:
    """Transforms the tiles of blocks: pixels are copied with their channels side by side, and so
    transformed as vectors of channels."""

    def __init__(self, of: Layer) -> None:
        self.of = of
        self.wide = 2 * of.vector  # channels that are copied at once
        rows, columns = of.staged
        self.outside = rows * columns * self.wide  # where zeros stand, for what is padding
        self.staged = Buffer("staged", of.dtype, self.outside + self.wide, scratch=True)

    def zeros(self) -> Stmt:
        """Writes the pixel that stands for all those outside."""
        lane = Var("z")
        zero = loops.const(0, self.of.dtype)
        body = loops.Store(self.staged, (atom(lane) + self.outside).expr(), zero)
        return For(lane, const(0), const(self.wide), (body,), self.of.vector)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """How many times so many channels are transformed together."""
        whole, rest = divmod(self.of.channels, self.wide)
        yield from [(n, size) for n, size in ((whole, self.wide), (1, rest)) if n * size]

    def all_channels(self, block: Block, base: Index) -> list[Stmt]:
        """Transforms a block, all channels of it, to `base` of the layer's data."""
        out, done = [self.zeros()], 0
        for times, size in self.chunks():
            var, number = counter("chunk", times)
            body = self.channels(block, base, number * self.wide + done, size)
            out.append(For(var, const(0), const(times), tuple(body)))
            done += times * size
        return out

    def channels(self, block: Block, base: Index, first: Index, count: int) -> list[Stmt]:
        """Transforms so many channels of a block, the `first` and those after it."""
        (i, image), (r, row), (q, column) = block.counters()
        place = base + block.tile(image, row, column) * self.of.pitch + first
        tile = For(q, const(0), block.count(2), self._tile(block, row, column, place, count))
        rows = For(r, const(0), block.count(1), (tile,))
        copied = self._copied(block, block.first[0] + image, first, count)
        return [For(i, const(0), block.count(0), (*copied, rows))]

    def _copied(self, block: Block, image: Index, first: Index, count: int) -> list[Stmt]:
        of = self.of

        def store(local: dict[str, Index]) -> loops.Store:
            y, x = local["y"], local["x"]
            value = of.image(image, first + local["c"], block.start[0] + y, block.start[1] + x)
            place = (y * of.staged[1] + x) * self.wide + local["c"]
            return loops.Store(self.staged, place.expr(), value.expr)

        rows, columns = of.staged
        return pack_loops({"c": count, "y": rows, "x": columns}, {}, store, of.vector)

    def _tile(self, block: Block, row: Index, column: Index, place: Index, count: int
              ) -> tuple[Stmt, ...]:
        """Transforms one tile, a vector of channels after the other."""
        of = self.of
        lane = Var("c")
        channel = atom(lane, (0, count - 1))
        m, side = of.transforms.results, range(of.transforms.side)
        tile = [block.first[1 + a] + n for a, n in enumerate((row, column))]
        corner = [tile[a] * m - of.pad[a] for a in (0, 1)]
        square = [[loops.load(self.staged, (self._pixel(block, corner[0] + i, corner[1] + j)
                                            + channel).expr()) for j in side] for i in side]
        body, results = on_both_sides(of.transforms.data, square, "d")
        body += [loops.Store(of.data, (place + n * of.point_pitch + channel).expr(), loops.read(r))
                 for n, r in enumerate(results)]
        return (For(lane, const(0), const(count), tuple(body), of.vector),)

    def _pixel(self, block: Block, y: Index, x: Index) -> Index:
        """Where a pixel was copied to; where it is none, the place of zeros."""
        of = self.of
        place = ((y - block.start[0]) * of.staged[1] + x - block.start[1]) * self.wide
        inside: Value | bool = True
        for at, size in zip((y, x), of.space):
            for holds in (at >= 0, at < size):
                inside = call("and", inside, holds) if holds is not True else inside
        found = call("where", inside, place.value(), self.outside)
        return atom(found.expr, (0, self.outside)) if isinstance(found, Value) else as_index(found)


# ---- weights
def weight_statements(of: Layer, task: Index) -> tuple[list[Stmt], Buffer]:
    """Transforms the weights of a task: some channels of one panel of filters; and the memory that
    it needs."""
    chunks = weight_chunks(of)
    panel, chunk = task // chunks, task % chunks
    size = min(_CHANNELS, of.channels)
    first = chunk * size
    held = Buffer("weights", of.dtype, size * KERNEL ** 2 * of.panel, scratch=True)
    there = least(of.panel, of.filters - panel * of.panel)
    channels = least(size, of.channels - first)

    def store(local: dict[str, Index]) -> loops.Store:
        roles = of.roles
        where = {roles.filters: panel * of.panel + local["lane"],
                 roles.channels: first + local["c"],
                 roles.kernel[0]: local["y"], roles.kernel[1]: local["x"]}
        place = _flat(local["c"], local["y"], local["x"]) * of.panel + local["lane"]
        return loops.Store(held, place.expr(), of.weight(where).expr)

    sizes = {"lane": of.panel, "c": size, "y": KERNEL, "x": KERNEL}
    packed = pack_loops(sizes, {"lane": there, "c": channels}, store, of.vector)
    clear = [] if isinstance(there, loops.Const) else _cleared(held, of.vector)
    return [*clear, *packed, _transformed_weights(of, held, panel, first, channels)], held


def weight_chunks(of: Layer) -> int:
    """How many tasks transform a panel's weights."""
    return -(-of.channels // _CHANNELS)


def _flat(c: Index, y: Index, x: Index) -> Index:
    return (c * KERNEL + y) * KERNEL + x


def _cleared(buffer: Buffer, vector: int) -> list[Stmt]:
    lane = Var("z")
    zero = loops.Store(buffer, lane, loops.const(0, buffer.dtype))
    return [For(lane, const(0), const(buffer.size), (zero,), vector)]


def _transformed_weights(of: Layer, held: Buffer, panel: Index, first: Index, count: loops.Expr
                         ) -> Stmt:
    channel, c = counter("c", min(_CHANNELS, of.channels))
    var, lane = counter("f", of.panel)
    kernel = range(KERNEL)
    square: Sequence[Sequence[loops.Expr]] = [
        [loops.load(held, (_flat(c, as_index(y), as_index(x)) * of.panel + lane).expr())
         for x in kernel] for y in kernel]
    body, results = on_both_sides(of.transforms.weights, square, "w")
    body += [loops.Store(of.weights, (of.weight_place(panel, n, first + c) + lane).expr(),
                         loops.read(r)) for n, r in enumerate(results)]
    lanes = For(var, const(0), const(of.panel), tuple(body), of.vector)
    return For(channel, const(0), count, (lanes,))
