"""Tiles of scores on the threads of a block, and products of matrices in shared memory.

    a thread has        ROWS_PER_THREAD consecutive rows, and every `threads_per_row`-th column
    a SharedMatrix has  rows of a matrix, padded so that threads read without bank conflicts
    accumulators are    registers of a thread: its rows, and some quads (4 columns)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cpu.attention.shape import round_up, smaller
from ...ir import loop_ir
from ...ir.affine_index import Index, counter
from ...ir.builder import ExprValue, call
from ...ir.loop_ir import Expr, For, KernelBuffer, Register, Stmt, const

FLOAT = np.dtype("float32")
ROWS_PER_THREAD = 4  # consecutive ones
QUAD = 4  # columns of one vector access
MAX_ACCUMULATORS = 64  # of a thread
MIN_BLOCKS = 128  # that keep most processors busy
SHARED_BYTES = 46 << 10  # of a thread block


@dataclass(frozen=True)
class ScoreTile:
    """A tile of `rows` by `columns` of scores, computed by a block of `threads`."""

    rows: int
    columns: int
    threads: int

    @property
    def threads_per_row(self) -> int:
        """The number of threads that share the same rows."""
        return self.threads * ROWS_PER_THREAD // self.rows

    @property
    def columns_per_thread(self) -> int:
        """The columns of a thread."""
        return self.columns // self.threads_per_row

    def loop(self, count: int, body: Callable[[Index], Sequence[Stmt]]) -> For:
        """A loop that runs body(i) for i < count, distributed over all threads."""
        var, i = counter("i", count)
        return For(var, const(0), const(count), tuple(body(i)), self.threads)


def choose_tile(tiles: Sequence[ScoreTile], fits: Callable[[ScoreTile], bool],
                block_count: Callable[[ScoreTile], int]) -> ScoreTile | None:
    """The largest tile that fits and gives enough blocks, else the smallest that fits; None if none
    fits."""
    fitting = [tile for tile in tiles if fits(tile)]
    return next((tile for tile in fitting if block_count(tile) >= MIN_BLOCKS),
                fitting[-1] if fitting else None)


class Thread:
    """The position of a thread in its tile, in one of its loops."""

    def __init__(self, tile: ScoreTile) -> None:
        self.tile = tile
        self.var, self.number = counter("t", tile.threads)
        self.row = self.number // tile.threads_per_row * ROWS_PER_THREAD
        self.lane_in_row = self.number % tile.threads_per_row  # among the threads of the same rows

    def column(self, j: int) -> Index:
        """The thread's j-th column."""
        return self.lane_in_row + j * self.tile.threads_per_row

    def loop(self, body: Sequence[Stmt]) -> For:
        """A loop in which each thread runs the statements once."""
        threads = self.tile.threads
        return For(self.var, const(0), const(threads), tuple(body), threads)


class ThreadTile:
    """`count` values of each thread."""

    def __init__(self, name: str, tile: ScoreTile, count: int, dtype: Any = FLOAT) -> None:
        self.count, self.dtype = count, dtype
        self.buffer = KernelBuffer(name, dtype, tile.threads * count, scratch=True)

    def index(self, thread: Thread, n: Any) -> Expr:
        index: Index = thread.number * self.count + n
        return index.expr()

    def load(self, thread: Thread, n: Any) -> ExprValue:
        return ExprValue(loop_ir.load(self.buffer, self.index(thread, n)))

    def store(self, thread: Thread, n: Any, value: ExprValue) -> Stmt:
        return loop_ir.Store(self.buffer, self.index(thread, n), value.expr)

    def filled(self, thread: Thread, value: Any) -> list[Stmt]:
        """Statements that set all values of a thread."""
        return [self.store(thread, n, ExprValue(loop_ir.const(value, self.dtype)))
                for n in range(self.count)]


class ThreadAccumulators(ThreadTile):
    """The accumulators of a thread: its rows by its share of `width` columns."""

    def __init__(self, name: str, tile: ScoreTile, width: int) -> None:
        self.tile, self.width, self.quads = tile, width, -(-width // QUAD)
        self.quads_per_thread = quads_per_thread(tile, width)
        super().__init__(name, tile, ROWS_PER_THREAD * QUAD * self.quads_per_thread)

    def accumulator_number(self, row: int, column: int) -> int:
        """The number of an accumulator within its thread."""
        return row * QUAD * self.quads_per_thread + column

    def first_column(self, thread: Thread, quad: int) -> Index:
        """The first column of a quad; a thread without that quad computes the last one again."""
        return smaller(thread.column(quad), self.quads - 1) * QUAD

    def guarded_stores(self, thread: Thread, inside: Callable[[int], Any],
                       store: Callable[[int, Index, ExprValue], Stmt]) -> list[Stmt]:
        """store(row, column, sum) for all accumulators whose row and column are in range."""
        out: list[Stmt] = []
        for quad in range(self.quads_per_thread):
            has_quad = thread.column(quad) < self.quads
            for row in range(ROWS_PER_THREAD):
                body = self._quad_stores(thread, row, quad, store)
                out += if_true(call("and", inside(row), has_quad), body)
        return out

    def _quad_stores(self, thread: Thread, row: int, quad: int,
                     store: Callable[[int, Index, ExprValue], Stmt]) -> list[Stmt]:
        var, n = counter("n", QUAD)
        column = self.first_column(thread, quad) + n
        value = self.load(thread, self.accumulator_number(row, quad * QUAD) + n)
        body = if_true(column < self.width, [store(row, column, value)])
        return [For(var, const(0), const(QUAD), tuple(body), 0, QUAD)]


def quads_per_thread(tile: ScoreTile, width: int) -> int:
    """The number of quads of `width` columns that a thread has."""
    return -(-round_up(width, QUAD) // (QUAD * tile.threads_per_row))


def fits_in_registers(tile: ScoreTile, width: int) -> bool:
    """True if the accumulators for `width` columns fit in a thread's registers."""
    return ROWS_PER_THREAD * QUAD * quads_per_thread(tile, width) <= MAX_ACCUMULATORS


def if_true(condition: Any, body: list[Stmt]) -> list[Stmt]:
    """Statements that run if the condition holds, which may be a known boolean."""
    if isinstance(condition, ExprValue):
        return [loop_ir.If(condition.expr, tuple(body))]
    return body if condition else []


@dataclass(frozen=True, eq=False)
class SharedMatrix:
    """Rows of a matrix in shared memory."""

    buffer: KernelBuffer
    width: int

    @property
    def pitch(self) -> int:
        """The distance between rows, such that 8 consecutive ones cover all banks."""
        return bank_pitch(self.width)

    def load(self, row: Index, column: Index) -> Expr:
        return loop_ir.load(self.buffer, (row * self.pitch + column).expr())

    def filled(self, tile: ScoreTile, rows: int, first: Index, count: int,
               element: Callable[[Index, Index], ExprValue]) -> For:
        """Loads rows from `first` on of a matrix that has `count` rows; those beyond its end are
        0."""
        quads = round_up(self.width, QUAD) // QUAD

        def body(i: Index) -> list[Stmt]:
            var, n = counter("n", QUAD)
            row, column = i // quads, i % quads * QUAD + n
            inside = call("and", first + row < count, column < self.width)
            value = element(smaller(first + row, count - 1), smaller(column, self.width - 1))
            store = loop_ir.Store(self.buffer, (row * self.pitch + column).expr(),
                                  call("where", inside, value, 0.0).expr)
            return [For(var, const(0), const(QUAD), (store,), 0, QUAD)]

        return tile.loop(rows * quads, body)


def bank_pitch(width: int) -> int:
    return round_up(width, 8) + 4


def shared_matrices(name: str, rows: int, *widths: int) -> list[SharedMatrix]:
    """Matrices of these widths that share one buffer, used one after the other."""
    buffer = KernelBuffer(name, FLOAT, rows * max(map(bank_pitch, widths)), scratch=True)
    return [SharedMatrix(buffer, width) for width in widths]


def dots(thread: Thread, rows: SharedMatrix, columns: SharedMatrix) -> tuple[list[Stmt],
                                                                             list[list[Register]]]:
    """Statements for the dot products of a thread's rows and columns, and the registers of the
    results."""
    tile = thread.tile
    sums = [[Register(f"s{i}", FLOAT) for _ in range(tile.columns_per_thread)]
            for i in range(ROWS_PER_THREAD)]
    var, k = counter("k", round_up(rows.width, QUAD))
    row_values = [Register(f"a{i}", FLOAT) for i in range(ROWS_PER_THREAD)]
    column_values = [Register(f"b{j}", FLOAT) for j in range(tile.columns_per_thread)]
    step: list[Stmt] = [loop_ir.Assign(r, rows.load(thread.row + i, k))
                        for i, r in enumerate(row_values)]
    step += [loop_ir.Assign(r, columns.load(thread.column(j), k))
             for j, r in enumerate(column_values)]
    step += [_product(sums[i][j], row_values[i], column_values[j])
             for i in range(ROWS_PER_THREAD) for j in range(tile.columns_per_thread)]
    begin: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, FLOAT)) for row in sums for r in row]
    return ([*begin, For(var, const(0), const(round_up(rows.width, QUAD)), tuple(step),
            0, QUAD)], sums)


def _product(total: Register, x: Register, y: Register) -> Stmt:
    return loop_ir.Update(total, "add", loop_ir.call("mul", (loop_ir.read(x), loop_ir.read(y)),
                                                     FLOAT))


class SharedWeights:
    """A weight for each row and column of a tile, in shared memory, column-major."""

    def __init__(self, name: str, tile: ScoreTile) -> None:
        self.tile, self.pitch = tile, tile.rows + QUAD
        self.buffer = KernelBuffer(name, FLOAT, tile.columns * self.pitch, scratch=True)

    def index(self, row: Index, column: Index) -> Expr:
        return (column * self.pitch + row).expr()

    def store(self, thread: Thread, i: int, j: int, value: ExprValue) -> Stmt:
        """Stores the weight of a thread's i-th row and j-th column."""
        return loop_ir.Store(self.buffer, self.index(thread.row + i, thread.column(j)), value.expr)

    def add_weighted_rows(self, sums: ThreadAccumulators, rows: SharedMatrix,
                          row_factors: Callable[[Thread],
                                                Sequence[ExprValue]] | None = None) -> For:
        """Adds to each row's accumulators the rows of a matrix, one for each column, by their
        weights. The accumulators are first scaled by a factor for each row."""
        thread = Thread(self.tile)
        registers = {(i, c): Register(f"s{i}", FLOAT) for i, c in _accumulator_positions(sums)}
        factors_of_rows = row_factors(thread) if row_factors else []
        before: list[Stmt] = []
        for (i, c), r in registers.items():
            value = sums.load(thread, sums.accumulator_number(i, c))
            before.append(loop_ir.Assign(r, (value * factors_of_rows[i]
                                             if factors_of_rows else value).expr))
        after = [sums.store(thread, sums.accumulator_number(i, c), ExprValue(loop_ir.read(r)))
                 for (i, c), r in registers.items()]
        var, k = counter("k", self.tile.columns)
        loop = For(var, const(0), const(self.tile.columns),
                   tuple(self._step(thread, k, sums, rows, registers)), 0, QUAD)
        return thread.loop([*before, loop, *after])

    def _step(self, thread: Thread, k: Index, sums: ThreadAccumulators, rows: SharedMatrix,
              registers: dict[tuple[int, int], Register]) -> Iterator[Stmt]:
        weights = [Register(f"a{i}", FLOAT) for i in range(ROWS_PER_THREAD)]
        row_values = [Register(f"b{c}", FLOAT) for c in range(QUAD * sums.quads_per_thread)]
        for i, r in enumerate(weights):
            yield loop_ir.Assign(r, loop_ir.load(self.buffer, self.index(thread.row + i, k)))
        for c, r in enumerate(row_values):
            column = sums.first_column(thread, c // QUAD) + c % QUAD
            yield loop_ir.Assign(r, rows.load(k, column))
        for (i, c), r in registers.items():
            yield _product(r, weights[i], row_values[c])


def _accumulator_positions(sums: ThreadAccumulators) -> Iterator[tuple[int, int]]:
    return ((i, c) for i in range(ROWS_PER_THREAD) for c in range(QUAD * sums.quads_per_thread))
