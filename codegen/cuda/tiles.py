"""Tiles of contractions, and among how many teams their sums are shared, as the model of costs has
it.

All tiles give the same numbers: an element's products are added in the order of the summed
elements. Shares do not, so they go by sizes alone; which tile is the fastest may be measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...eager.shapes import product
from .cost import ANY, Chip, Work, seconds

_DEPTH = 16  # summed elements in shared memory at once
_WORTH = 64  # summed elements that are worth a team
_UNROLLED = 16  # turns of a loop whose threads have one row: more need registers that are not there
_PAD = 4  # keeps columns of a block in shared memory out of the same banks
_FOUND = 12  # operations to find and read an element of an operand
_GIVEN = 4  # of what reads shared memory: operations that could be done meanwhile
_TOTAL = 128  # threads of a team that adds up shares
_REGISTERS = 256  # bytes of sums that a thread keeps in registers
_AS_GOOD = 1.1  # times the least that fewer teams may take which share a sum
_LIKELY = 1.5  # times the least that a tile may take by the model to be worth a measurement


@dataclass(frozen=True)
class Tile:
    """A team's `rows` by `columns` of the result, of which a thread has `own` by `own`."""

    rows: int
    columns: int
    own: int

    depth = _DEPTH

    @property
    def threads(self) -> int:
        return self.rows * self.columns // self.own ** 2

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


TILES = (
    Tile(128, 128, 8), Tile(128, 64, 8), Tile(64, 128, 8), Tile(64, 64, 4),
    Tile(128, 32, 4), Tile(32, 128, 4), Tile(64, 32, 4), Tile(32, 64, 4), Tile(32, 32, 4),
    Tile(64, 16, 4), Tile(16, 64, 4), Tile(16, 16, 2),
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

    def grid(self, tile: Tile) -> tuple[int, int]:
        """Tiles along rows and columns."""
        return -(-self.rows // tile.rows), -(-self.columns // tile.columns)

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


class Way(NamedTuple):
    """How a contraction is computed: by tiles, whose sums so many teams share."""

    tile: Tile
    shares: int

    def __str__(self) -> str:
        return f"{self.tile.rows}x{self.tile.columns}x{self.tile.own}/{self.shares}"


def ways(sizes: Sizes, chip: Chip = ANY, whole: bool = False) -> list[Way]:
    """The best way first, and others that give the same numbers and may be as fast; `whole`: sums
    are not to be shared."""
    tiles = [t for t in TILES if t.own ** 2 * sizes.itemsize <= _REGISTERS]
    least = {n: min(time(Way(t, n), sizes, ANY) for t in tiles)
             for n in ([1] if whole else _shares(sizes.depth))}
    shares = next(n for n, t in least.items() if t <= _AS_GOOD * min(least.values()))
    times = {w: time(w, sizes, chip) for w in [Way(t, shares) for t in tiles]}
    likely = [w for w, t in times.items() if t <= _LIKELY * min(times.values())]
    return sorted(likely, key=times.__getitem__)


def _shares(depth: int) -> list[int]:
    """Among how many teams a sum may be shared, so that each of them has some of it."""
    blocks = max(1, -(-depth // _DEPTH))
    wanted = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n == 1 or depth >= n * _WORTH]
    return list(dict.fromkeys(-(-blocks // -(-blocks // n)) for n in wanted))


def time(way: Way, sizes: Sizes, chip: Chip) -> float:
    """Seconds that a way takes, by the model."""
    tiles = seconds(_tiles(way, sizes), chip)
    return tiles if way.shares == 1 else tiles + seconds(_total(way, sizes), chip)


def _tiles(way: Way, sizes: Sizes) -> Work:
    tile, teams = way.tile, sizes.batch * product(sizes.grid(way.tile)) * way.shares
    blocks = -(-sizes.depth // _DEPTH)
    turns = max(1, -(-blocks // way.shares))
    words = max(1, sizes.itemsize // 4)
    own, elements = tile.own, (tile.rows + tile.columns) * _DEPTH
    multiplied = _DEPTH * words * (2 * own ** 2 + _GIVEN * 2 * own // tile.piece)
    operations = multiplied + _FOUND * (elements / tile.threads + own ** 2 / turns)
    registers = 48 + words * (own ** 2 + 2 * own * tile.unrolled)
    shared = sum(tile.pitch) * _DEPTH * sizes.itemsize
    written = way.shares * sizes.results * sizes.itemsize
    return Work(teams, tile.threads, registers, shared, turns, operations,
                sizes.read + written, written + teams * turns * elements * sizes.itemsize)


def _total(way: Way, sizes: Sizes) -> Work:
    """What adds up the shares: four at a time."""
    moved = (way.shares + 1) * sizes.results * sizes.itemsize
    return Work(-(-sizes.results // _TOTAL), _TOTAL, 32, 0, -(-way.shares // 4), 4 * _FOUND,
                moved, moved)
