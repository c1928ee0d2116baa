"""Tile configurations of contractions, and their cost.

All tiles of a kind (SIMT or tensor core) give the same numbers: the products of an element are
added in the order of the summed axes. Splitting the sums (split-K) changes numbers, so it
depends on sizes alone. The fastest tile may be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....eager.arrays.shapes import product
from ...ir.mma_layout import DEPTH, Fragments
from ..cost_model import REFERENCE_CHIP, Chip, KernelWork, predicted_seconds

MIN_DEPTH_PER_SPLIT = 64  # summed elements
UNROLLED_ROWS = 16  # unrolled iterations for one row per thread: more would spill registers
BANK_PADDING = 4  # elements; keeps columns in shared memory in different banks
INDEX_OPERATIONS = 12  # to index and read an element of an operand
SHARED_READ_OPERATIONS = 4  # arithmetic that a read of shared memory displaces
REDUCTION_BLOCK = 128  # threads of a block that adds up splits
MAX_ACCUMULATOR_BYTES = 256  # of a thread's registers
SPLIT_TOLERANCE = 1.1  # x the best time: fewer splits are preferred within it
MEASURED_WITHIN = 1.5  # x the best predicted time: tiles within it are measured


@dataclass(frozen=True)
class SimtTile:
    """A block's `rows` by `columns` of the result; a thread computes `per_thread` by `per_thread`
    of it."""

    rows: int
    columns: int
    per_thread: int

    depth = 16

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.per_thread}"

    @property
    def threads(self) -> int:
        return self.rows * self.columns // self.per_thread ** 2

    @property
    def accumulators(self) -> int:
        """The accumulators of a thread."""
        return self.per_thread ** 2

    @property
    def vector(self) -> int:
        """The number of neighbouring rows or columns that a thread reads at once."""
        return min(4, self.per_thread)

    @property
    def unroll(self) -> int:
        """The number of summed elements per unrolled iteration."""
        return UNROLLED_ROWS // self.per_thread

    @property
    def pitch(self) -> tuple[int, int]:
        """The distance in shared memory between neighbouring summed elements, for rows and for
        columns."""
        return self.rows + BANK_PADDING, self.columns + BANK_PADDING

    def shared_bytes(self, itemsize: int) -> int:
        """Bytes of shared memory."""
        return sum(self.pitch) * self.depth * itemsize

    def registers(self, words: int) -> int:
        return 48 + words * (self.accumulators + 2 * self.per_thread * self.unroll)

    def multiply_operations(self, words: int, chip: Chip) -> float:
        """The operations of a thread for one block of summed elements in shared memory."""
        reads = 2 * self.per_thread / self.vector
        return self.depth * words * (2 * self.accumulators + SHARED_READ_OPERATIONS * reads)


@dataclass(frozen=True)
class TensorTile:
    """A block's `rows` by `columns` of the result, divided among `warps_down` by `warps_across`
    warps that use tensor cores."""

    rows: int
    columns: int
    warps_down: int
    warps_across: int

    depth, vector = 32, 2

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}/{self.warps_down}x{self.warps_across}"

    @property
    def fragments(self) -> Fragments:
        return Fragments(self.rows // self.warps_down, self.columns // self.warps_across,
                         self.warps_down, self.warps_across, self.depth, self.pitch)

    @property
    def threads(self) -> int:
        return self.fragments.threads

    @property
    def accumulators(self) -> int:
        """The accumulators of a thread."""
        return self.fragments.products_per_thread

    @property
    def pitch(self) -> int:
        """The distance in shared memory between neighbouring rows or columns; 8 consecutive ones
        cover all banks."""
        return self.depth + 8

    def shared_bytes(self, itemsize: int) -> int:
        """Bytes of shared memory."""
        return 2 * (self.rows + self.columns) * self.pitch

    def registers(self, words: int) -> int:
        return 48 + self.accumulators + self._fragment_words

    def multiply_operations(self, words: int, chip: Chip) -> float:
        """The operations of a thread in the time that it takes to multiply its share of one block
        in shared memory."""
        products = self.rows * self.columns * self.depth / self.threads
        multiply = products * chip.additions_per_cycle / chip.tensor_core_products_per_cycle
        return multiply + SHARED_READ_OPERATIONS * self.depth / DEPTH * self._fragment_words

    @property
    def _fragment_words(self) -> int:
        """The words of both operands that a thread reads for one step along the summed axis."""
        rows, columns = self.fragments.grid
        return 4 * rows + 2 * columns


SIMT_TILES = (
    SimtTile(128, 128, 8), SimtTile(128, 64, 8), SimtTile(64, 128, 8), SimtTile(64, 64, 4),
    SimtTile(128, 32, 4), SimtTile(32, 128, 4), SimtTile(64, 32, 4), SimtTile(32, 64, 4),
    SimtTile(32, 32, 4),
    SimtTile(64, 16, 4), SimtTile(16, 64, 4), SimtTile(16, 16, 2),
)
TENSOR_TILES = (
    TensorTile(128, 64, 2, 2), TensorTile(64, 128, 1, 4), TensorTile(64, 64, 2, 2),
    TensorTile(128, 32, 4, 1), TensorTile(32, 128, 1, 4), TensorTile(64, 32, 4, 1),
    TensorTile(32, 64, 2, 2), TensorTile(32, 32, 2, 2), TensorTile(128, 16, 4, 1),
    TensorTile(16, 128, 1, 4),
)


class ContractionSizes(NamedTuple):
    """The sizes of a contraction: the extents of its axes, the bytes of an accumulator, and of all
    that it reads."""

    batch: int
    rows: int
    columns: int
    depth: int
    itemsize: int
    bytes_read: int

    def grid(self, tile: SimtTile | TensorTile) -> tuple[int, int]:
        """The number of tiles along rows and columns."""
        return -(-self.rows // tile.rows), -(-self.columns // tile.columns)

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


class TileConfig(NamedTuple):
    """A tile, and the number of blocks among which its sums are split."""

    tile: SimtTile | TensorTile
    split_k: int

    def __str__(self) -> str:
        return f"{self.tile}/{self.split_k}"


def tile_configs(sizes: ContractionSizes, tiles: Sequence[SimtTile | TensorTile],
                 chip: Chip = REFERENCE_CHIP, unsplit: bool = False) -> list[TileConfig]:
    """The configurations that the model predicts to be fastest, the best first; all give the same
    numbers. `unsplit` forbids split-K."""
    fitting = [t for t in tiles if t.accumulators * sizes.itemsize <= MAX_ACCUMULATOR_BYTES]
    best = {n: min(predicted_time(TileConfig(t, n), sizes, REFERENCE_CHIP) for t in fitting)
            for n in ([1] if unsplit else _split_candidates(sizes.depth, fitting[0].depth))}
    split_k = next(n for n, t in best.items() if t <= SPLIT_TOLERANCE * min(best.values()))
    configs = [TileConfig(t, split_k) for t in fitting]
    times = {config: predicted_time(config, sizes, chip) for config in configs}
    likely = [config for config, t in times.items() if t <= MEASURED_WITHIN * min(times.values())]
    return sorted(likely, key=times.__getitem__)


def _split_candidates(depth: int, block: int) -> list[int]:
    """The possible split counts; each split has some of the summed elements."""
    blocks = max(1, -(-depth // block))
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
              if n == 1 or depth >= n * MIN_DEPTH_PER_SPLIT]
    return list(dict.fromkeys(-(-blocks // -(-blocks // n)) for n in counts))


def predicted_time(config: TileConfig, sizes: ContractionSizes, chip: Chip) -> float:
    """The time of a configuration in seconds, by the cost model."""
    tiles = predicted_seconds(_tile_work(config, sizes, chip), chip)
    if config.split_k == 1:
        return tiles
    return tiles + predicted_seconds(_reduction_work(config, sizes), chip)


def _tile_work(config: TileConfig, sizes: ContractionSizes, chip: Chip) -> KernelWork:
    tile, blocks = config.tile, sizes.batch * product(sizes.grid(config.tile)) * config.split_k
    depth_blocks = -(-sizes.depth // tile.depth)
    iterations = max(1, -(-depth_blocks // config.split_k))
    words = max(1, sizes.itemsize // 4)
    elements = (tile.rows + tile.columns) * tile.depth
    index_operations = INDEX_OPERATIONS * (elements / tile.threads + tile.accumulators / iterations)
    bytes_written = config.split_k * sizes.results * sizes.itemsize
    return KernelWork(blocks, tile.threads, tile.registers(words),
                      tile.shared_bytes(sizes.itemsize),
                      iterations, tile.multiply_operations(words, chip) + index_operations,
                      sizes.bytes_read + bytes_written,
                      bytes_written + blocks * iterations * elements * sizes.itemsize)


def _reduction_work(config: TileConfig, sizes: ContractionSizes) -> KernelWork:
    """The work of adding up the splits; a thread reads four at a time."""
    bytes_moved = (config.split_k + 1) * sizes.results * sizes.itemsize
    return KernelWork(-(-sizes.results // REDUCTION_BLOCK), REDUCTION_BLOCK, 32, 0,
                      -(-config.split_k // 4), 4 * INDEX_OPERATIONS, bytes_moved, bytes_moved)
