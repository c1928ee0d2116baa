"""Predicts the time of a contraction: multiplications, packing, stores, and idle threads.

Times are in cycles of a processor with two multiply-adds of vectors in a cycle: a row is multiplied
by two vectors in one cycle. A vector operation of packing takes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir.affine_index import as_index
from ...ir.loop_ir import TILE_SIDE
from ...ir.sizes import is_dynamic, upper_bound
from .pack import packing_cost
from .plan import Contraction, rows_time
from .task import TaskPart

GAIN_OF_MATRIX_UNIT = 8.0  # products in the time of one by vectors, in full tiles
_TILE_START = 60.0  # cycles until the matrix unit works at full speed, for a tile and a panel
_TILE_ROW = 4.0  # cycles to store and load a row of sums of a panel
_MIN_TILE_ROWS = 16  # fewer rows are not faster
_GAIN = 0.95  # of the time, up to which another partition is preferred to the first choice
_ONE_VECTOR = 0.6  # time of a panel with one vector, beside one of two
# Stores, with shuffles, of a vector whose elements are 1 to 4 apart; others are stored one by one.
_BYTES_OF_MASKED_STORES = 64  # of vectors whose masked stores are fast: AVX-512
_STORES_OF_STRIDE = {1: 1.0, 2: 4.0, 3: 6.0, 4: 8.0}


def first_part(of: Contraction) -> TaskPart:
    """The part of a task that has the first batch element, block and chunk."""
    return TaskPart(of, dict.fromkeys(of.roles.batch, as_index(0)), as_index(0), as_index(0))


@dataclass
class ContractionCost:
    """The predicted time of a plan, whose blocks and chunks may change."""

    plan: Contraction

    @cached_property
    def _columns(self) -> float:
        """Cycles that packing all columns of a batch element takes."""
        roles = self.plan.roles
        return packing_cost(first_part(self.plan), roles.summed, roles.columns)

    @cached_property
    def _rows(self) -> float:
        """Cycles that packing all rows of a batch element takes."""
        roles = self.plan.roles
        return packing_cost(first_part(self.plan), roles.summed, roles.rows)

    @cached_property
    def _store(self) -> float:
        return _store_cost(self.plan)

    @property
    def _packs_rows(self) -> bool:
        return not self.plan.reads_unpacked \
            and not self.plan.persistent[self.plan.roles.row_operand]

    @property
    def movement(self) -> float:
        """Cycles of packing and storing, of all threads together."""
        plan = self.plan
        columns = rows = 0.0
        if not plan.prepacks_columns:
            columns = self._columns * upper_bound(plan.batches) * plan.row_chunks
        if self._packs_rows:
            repeats = plan.row_batches if plan.packs_rows_once \
                else plan.batches * plan.column_blocks
            rows = self._rows * upper_bound(repeats)
        return columns + rows + upper_bound(plan.batches * plan.rows * plan.columns) * self._store

    @property
    def time(self) -> float:
        """Cycles until the last thread is done. Sizes must be known."""
        plan, threads = self.plan, self.plan.machine.threads
        rows, columns = min(plan.rows_per_chunk, plan.rows), plan.columns_per_block
        task = _multiplying_time(plan, rows) * _panels(plan)
        task += rows * columns * self._store
        if not plan.prepacks_columns:
            task += self._columns / plan.column_blocks
        shared = 0.0
        if self._packs_rows and plan.packs_rows_once:
            shared = self._rows * plan.row_batches / threads
        elif self._packs_rows:
            task += self._rows / plan.row_chunks
        return -(-plan.tasks // threads) * task + shared

    def choose_partition(self) -> None:
        """Chooses blocks of columns and chunks of rows that take the least time."""
        plan = self.plan
        first, *others = plan.partitions()
        best, least = first, self.time * _GAIN
        for blocks, chunks in others:
            plan.set_partition(blocks, chunks)
            if self.time < least:
                best, least = (blocks, chunks), self.time
        plan.set_partition(*best)


def has_known_sizes(plan: Contraction) -> bool:
    """True if no size of a contraction is known at run time only."""
    return not any(map(is_dynamic, plan.roles.size.values()))


def _multiplying_time(plan: Contraction, rows: int) -> float:
    """Cycles that a panel of columns takes to be multiplied by so many rows."""
    if not plan.matrix_unit:
        return rows_time(rows, plan.tile) * plan.depth
    full, rest = divmod(rows, plan.tile)
    counts = [plan.tile] * full + [rest] * (rest > 0)
    steps = plan.padded(plan.depth) / plan.depth_unit
    return sum(steps * TILE_SIDE / GAIN_OF_MATRIX_UNIT * max(n, _MIN_TILE_ROWS)
               + plan.depth_blocks * (_TILE_START + n * _TILE_ROW) for n in counts)


def _panels(plan: Contraction) -> float:
    """The panels of a block of columns; one with a single vector counts as a part."""
    full, rest = divmod(plan.columns_per_block, 2 * plan.vector)
    whole = plan.panel_label is None and plan.column_blocks > 1
    return full + (0.0 if not rest else _ONE_VECTOR if rest <= plan.vector and not whole else 1.0)


def _store_cost(plan: Contraction) -> float:
    """Vector operations that storing an element of the result takes."""
    columns, size = plan.roles.columns, plan.roles.size
    stride = length = 1  # between columns that are neighbours, and the number of such columns
    for label in reversed(plan.labels[2]):
        n = upper_bound(size[label])
        if label in columns:
            length *= n
        elif length == 1:
            stride *= n
        elif n > 1:
            break
    shuffled = stride == 1 or plan.machine.vector_bytes >= _BYTES_OF_MASKED_STORES
    vectors = _STORES_OF_STRIDE.get(stride) if shuffled else None
    return 2.0 if vectors is None else vectors / min(length, plan.vector)
