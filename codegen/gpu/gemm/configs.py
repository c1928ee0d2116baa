"""Tiles of contractions, and among how many teams their sums are shared, as the model of costs has
it.

All tiles of a kind, those of threads and those of tensor cores, give the same numbers: an element's
products are added in the order of the summed elements. Shares do not, so they go by sizes alone;
which tile is the fastest may be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....eager.arrays.shapes import product
from ...ir.mma_layout import DEPTH, Fragments
from ..cost_model import ANY, Chip, Work, seconds

_WORTH = 64  # summed elements that are worth a team
_UNROLLED = 16  # turns of a loop whose threads have one row: more need registers that are not there
_PAD = 4  # keeps columns of a block in shared memory out of the same banks
_FOUND = 12  # operations to find and read an element of an operand
_GIVEN = 4  # of what reads shared memory: operations that could be done meanwhile
ADDERS = 128  # threads of a team that adds up shares
_REGISTERS = 256  # bytes of sums that a thread keeps in registers
_AS_GOOD = 1.1  # times the least that fewer teams may take which share a sum
_LIKELY = 1.5  # times the least that a tile may take by the model to be worth a measurement


@dataclass(frozen=True)
class Tile:
    """A team's `rows` by `columns` of the result, of which a thread has `own` by `own`."""

    rows: int
    columns: int
    own: int

    depth = 16

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.own}"

    @property
    def threads(self) -> int:
        return self.rows * self.columns // self.own ** 2

    @property
    def sums(self) -> int:
        """Of a thread."""
        return self.own ** 2

    @property
    def piece(self) -> int:
        """How many neighbouring rows or columns a thread has."""
        return min(4, self.own)

    @property
    def unrolled(self) -> int:
        """How many summed elements a thread multiplies at a time."""
        return _UNROLLED // self.own

    @property
    def pitch(self) -> tuple[int, int]:
        """How far rows, and columns, of neighbouring summed elements are apart in shared memory."""
        return self.rows + _PAD, self.columns + _PAD

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory."""
        return sum(self.pitch) * self.depth * itemsize

    def registers(self, words: int) -> int:
        return 48 + words * (self.sums + 2 * self.own * self.unrolled)

    def multiplied(self, words: int, chip: Chip) -> float:
        """Operations of a thread for a block of summed elements that is in shared memory."""
        return self.depth * words * (2 * self.sums + _GIVEN * 2 * self.own / self.piece)


@dataclass(frozen=True)
class TensorTile:
    """A team's `rows` by `columns` of the result, shared by `down` by `across` warps, which
    multiply by tensor cores."""

    rows: int
    columns: int
    down: int
    across: int

    depth, piece = 32, 2

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}/{self.down}x{self.across}"

    @property
    def fragments(self) -> Fragments:
        return Fragments(self.rows // self.down, self.columns // self.across, self.down,
                         self.across, self.depth, self.pitch)

    @property
    def threads(self) -> int:
        return self.fragments.threads

    @property
    def sums(self) -> int:
        """Of a thread."""
        return self.fragments.products_per_thread

    @property
    def pitch(self) -> int:
        """How far neighbouring rows, and columns, are apart in shared memory: 8 that follow each
        other lie in all banks."""
        return self.depth + 8

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory."""
        return 2 * (self.rows + self.columns) * self.pitch

    def registers(self, words: int) -> int:
        return 48 + self.sums + self._fragments

    def multiplied(self, words: int, chip: Chip) -> float:
        """Operations of a thread in the time that its share of a block takes, which is in shared
        memory."""
        products = self.rows * self.columns * self.depth / self.threads
        return products * chip.lanes / chip.matrix + _GIVEN * self.depth / DEPTH * self._fragments

    @property
    def _fragments(self) -> int:
        """Words of both operands that a thread reads for one piece of the summed axis."""
        down, across = self.fragments.grid
        return 4 * down + 2 * across


TILES = (
    Tile(128, 128, 8), Tile(128, 64, 8), Tile(64, 128, 8), Tile(64, 64, 4),
    Tile(128, 32, 4), Tile(32, 128, 4), Tile(64, 32, 4), Tile(32, 64, 4), Tile(32, 32, 4),
    Tile(64, 16, 4), Tile(16, 64, 4), Tile(16, 16, 2),
)
TENSOR_TILES = (
    TensorTile(128, 64, 2, 2), TensorTile(64, 128, 1, 4), TensorTile(64, 64, 2, 2),
    TensorTile(128, 32, 4, 1), TensorTile(32, 128, 1, 4), TensorTile(64, 32, 4, 1),
    TensorTile(32, 64, 2, 2), TensorTile(32, 32, 2, 2), TensorTile(128, 16, 4, 1),
    TensorTile(16, 128, 1, 4),
)


class Sizes(NamedTuple):
    """Of a contraction: what its letters count, bytes of an element of its sums, and of everything
    that it reads."""

    batch: int
    rows: int
    columns: int
    depth: int
    itemsize: int
    read: int

    def grid(self, tile: Tile | TensorTile) -> tuple[int, int]:
        """Tiles along rows and columns."""
        return -(-self.rows // tile.rows), -(-self.columns // tile.columns)

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


class TileConfig(NamedTuple):
    """How a contraction is computed: by tiles, whose sums so many teams share."""

    tile: Tile | TensorTile
    shares: int

    def __str__(self) -> str:
        return f"{self.tile}/{self.shares}"


def tile_configs(sizes: Sizes, among: Sequence[Tile | TensorTile], chip: Chip = ANY,
                 whole: bool = False
         ) -> list[TileConfig]:
    """The best way by some of these tiles first, and others that give the same numbers and may be
    as fast; `whole`: sums are not to be shared."""
    tiles = [t for t in among if t.sums * sizes.itemsize <= _REGISTERS]
    least = {n: min(time(TileConfig(t, n), sizes, ANY) for t in tiles)
             for n in ([1] if whole else _shares(sizes.depth, tiles[0].depth))}
    shares = next(n for n, t in least.items() if t <= _AS_GOOD * min(least.values()))
    times = {w: time(w, sizes, chip) for w in [TileConfig(t, shares) for t in tiles]}
    likely = [w for w, t in times.items() if t <= _LIKELY * min(times.values())]
    return sorted(likely, key=times.__getitem__)


def _shares(depth: int, block: int) -> list[int]:
    """Among how many teams a sum may be shared, so that each of them has some of it."""
    blocks = max(1, -(-depth // block))
    wanted = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n == 1 or depth >= n * _WORTH]
    return list(dict.fromkeys(-(-blocks // -(-blocks // n)) for n in wanted))


def time(way: TileConfig, sizes: Sizes, chip: Chip) -> float:
    """Seconds that a way takes, by the model."""
    tiles = seconds(_tiles(way, sizes, chip), chip)
    return tiles if way.shares == 1 else tiles + seconds(_total(way, sizes), chip)


def _tiles(way: TileConfig, sizes: Sizes, chip: Chip) -> Work:
    tile, teams = way.tile, sizes.batch * product(sizes.grid(way.tile)) * way.shares
    blocks = -(-sizes.depth // tile.depth)
    turns = max(1, -(-blocks // way.shares))
    words = max(1, sizes.itemsize // 4)
    elements = (tile.rows + tile.columns) * tile.depth
    found = _FOUND * (elements / tile.threads + tile.sums / turns)
    written = way.shares * sizes.results * sizes.itemsize
    return Work(teams, tile.threads, tile.registers(words), tile.shared(sizes.itemsize), turns,
                tile.multiplied(words, chip) + found,
                sizes.read + written, written + teams * turns * elements * sizes.itemsize)


def _total(way: TileConfig, sizes: Sizes) -> Work:
    """What adds up the shares: four at a time."""
    moved = (way.shares + 1) * sizes.results * sizes.itemsize
    return Work(-(-sizes.results // ADDERS), ADDERS, 32, 0, -(-way.shares // 4), 4 * _FOUND,
                moved, moved)
