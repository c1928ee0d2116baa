"""Tiles of scores on the threads of a team, and products of blocks that lie in shared memory.

    a thread has  OWN rows that follow each other, and every `across`-th column
    a block has   rows of a matrix, as far apart as threads read without waiting for each other
    sums are      a thread's own: its rows, and of the columns some quads (4 neighbours)
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
from ...ir.loop_ir import Buffer, Expr, For, Register, Stmt, const

FLOAT = np.dtype("float32")
OWN = 4  # rows of a thread
QUAD = 4  # columns that are moved at once
_MOST = 64  # sums of a thread
ENOUGH = 128  # teams that keep most processors busy
SHARED = 46 << 10  # bytes of memory that the threads of a team share


@dataclass(frozen=True)
class Tile:
    """So many rows and columns of scores, and the threads of the team that has them."""

    rows: int
    columns: int
    threads: int

    @property
    def across(self) -> int:
        """Threads that have the same rows."""
        return self.threads * OWN // self.rows

    @property
    def each(self) -> int:
        """Columns of a thread."""
        return self.columns // self.across

    def loop(self, count: int, body: Callable[[Index], Sequence[Stmt]]) -> For:
        """Runs body(i) for i < count, as turns of all threads."""
        var, i = counter("i", count)
        return For(var, const(0), const(count), tuple(body(i)), self.threads)


def chosen(tiles: Sequence[Tile], room: Callable[[Tile], bool], teams: Callable[[Tile], int]
           ) -> Tile | None:
    """The largest tile that there is room for and are enough of, the smallest where there never
    are; None where there is no room."""
    fitting = [tile for tile in tiles if room(tile)]
    return next((tile for tile in fitting if teams(tile) >= ENOUGH),
                fitting[-1] if fitting else None)


class Thread:
    """Where a thread of a tile is, in one of its loops."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.var, self.number = counter("t", tile.threads)
        self.row = self.number // tile.across * OWN
        self.place = self.number % tile.across  # among those that have the same rows

    def column(self, j: int) -> Index:
        """Its j-th column."""
        return self.place + j * self.tile.across

    def loop(self, body: Sequence[Stmt]) -> For:
        """A statement that all threads run."""
        threads = self.tile.threads
        return For(self.var, const(0), const(threads), tuple(body), threads)


class ThreadTile:
    """`count` numbers of each thread."""

    def __init__(self, name: str, tile: Tile, count: int, dtype: Any = FLOAT) -> None:
        self.count, self.dtype = count, dtype
        self.buffer = Buffer(name, dtype, tile.threads * count, scratch=True)

    def place(self, thread: Thread, n: Any) -> Expr:
        place: Index = thread.number * self.count + n
        return place.expr()

    def load(self, thread: Thread, n: Any) -> ExprValue:
        return ExprValue(loop_ir.load(self.buffer, self.place(thread, n)))

    def store(self, thread: Thread, n: Any, value: ExprValue) -> Stmt:
        return loop_ir.Store(self.buffer, self.place(thread, n), value.expr)

    def filled(self, thread: Thread, value: Any) -> list[Stmt]:
        """Statements that give all of them one value."""
        return [self.store(thread, n, ExprValue(loop_ir.const(value, self.dtype)))
                for n in range(self.count)]


class Sums(ThreadTile):
    """Sums of a thread: of its rows, and of its share of so many columns."""

    def __init__(self, name: str, tile: Tile, width: int) -> None:
        self.tile, self.width, self.quads = tile, width, -(-width // QUAD)
        self.shares = shares_of(tile, width)  # quads of a thread
        super().__init__(name, tile, OWN * QUAD * self.shares)

    def number(self, row: int, column: int) -> int:
        """The number of a sum."""
        return row * QUAD * self.shares + column

    def first(self, thread: Thread, share: int) -> Index:
        """The first column of a quad; a thread that has none there takes the last one as well."""
        return smaller(thread.column(share), self.quads - 1) * QUAD

    def stores(self, thread: Thread, inside: Callable[[int], Any],
               store: Callable[[int, Index, ExprValue], Stmt]) -> list[Stmt]:
        """store(row, column, sum) of all sums of the rows that are inside."""
        out: list[Stmt] = []
        for share in range(self.shares):
            there = thread.column(share) < self.quads
            for row in range(OWN):
                body = self._quad(thread, row, share, store)
                out += guarded(call("and", inside(row), there), body)
        return out

    def _quad(self, thread: Thread, row: int, share: int,
              store: Callable[[int, Index, ExprValue], Stmt]) -> list[Stmt]:
        var, n = counter("n", QUAD)
        column = self.first(thread, share) + n
        value = self.load(thread, self.number(row, share * QUAD) + n)
        body = guarded(column < self.width, [store(row, column, value)])
        return [For(var, const(0), const(QUAD), tuple(body), 0, QUAD)]


def shares_of(tile: Tile, width: int) -> int:
    """How many quads of so many columns a thread has."""
    return -(-round_up(width, QUAD) // (QUAD * tile.across))


def fits(tile: Tile, width: int) -> bool:
    """Whether a thread can have sums for so many columns."""
    return OWN * QUAD * shares_of(tile, width) <= _MOST


def guarded(condition: Any, body: list[Stmt]) -> list[Stmt]:
    """Statements that run where something holds that may be known."""
    if isinstance(condition, ExprValue):
        return [loop_ir.If(condition.expr, tuple(body))]
    return body if condition else []


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a matrix in shared memory."""

    buffer: Buffer
    width: int

    @property
    def pitch(self) -> int:
        """Elements from row to row: those of 8 rows that follow each other lie in all banks."""
        return pitch(self.width)

    def load(self, row: Index, column: Index) -> Expr:
        return loop_ir.load(self.buffer, (row * self.pitch + column).expr())

    def filled(self, tile: Tile, rows: int, first: Index, count: int,
               element: Callable[[Index, Index], ExprValue]) -> For:
        """Reads rows from `first` on of a matrix that has `count`; behind its end they are 0."""
        quads = round_up(self.width, QUAD) // QUAD

        def body(i: Index) -> list[Stmt]:
            var, n = counter("n", QUAD)
            own, column = i // quads, i % quads * QUAD + n
            inside = call("and", first + own < count, column < self.width)
            value = element(smaller(first + own, count - 1), smaller(column, self.width - 1))
            store = loop_ir.Store(self.buffer, (own * self.pitch + column).expr(),
                                  call("where", inside, value, 0.0).expr)
            return [For(var, const(0), const(QUAD), (store,), 0, QUAD)]

        return tile.loop(rows * quads, body)


def pitch(width: int) -> int:
    return round_up(width, 8) + 4


def block(name: str, rows: int, *widths: int) -> list[Block]:
    """Blocks of these widths that lie in the same memory, one after the other in time."""
    buffer = Buffer(name, FLOAT, rows * max(map(pitch, widths)), scratch=True)
    return [Block(buffer, width) for width in widths]


def dots(thread: Thread, rows: Block, columns: Block) -> tuple[list[Stmt], list[list[Register]]]:
    """Statements for the products of a thread's rows and columns, and registers of them."""
    tile = thread.tile
    sums = [[Register(f"s{i}", FLOAT) for _ in range(tile.each)] for i in range(OWN)]
    var, k = counter("k", round_up(rows.width, QUAD))
    mine = [Register(f"a{i}", FLOAT) for i in range(OWN)]
    others = [Register(f"b{j}", FLOAT) for j in range(tile.each)]
    step: list[Stmt] = [loop_ir.Assign(r, rows.load(thread.row + i, k)) for i, r in enumerate(mine)]
    step += [loop_ir.Assign(r, columns.load(thread.column(j), k)) for j, r in enumerate(others)]
    step += [_product(sums[i][j], mine[i], others[j])
             for i in range(OWN) for j in range(tile.each)]
    begin: list[Stmt] = [loop_ir.Assign(r, loop_ir.const(0, FLOAT)) for row in sums for r in row]
    return ([*begin, For(var, const(0), const(round_up(rows.width, QUAD)), tuple(step),
            0, QUAD)], sums)


def _product(total: Register, x: Register, y: Register) -> Stmt:
    return loop_ir.Update(total, "add", loop_ir.call("mul", (loop_ir.read(x), loop_ir.read(y)),
                                                     FLOAT))


class Weights:
    """A number for each row and column of a tile, in shared memory: column after column."""

    def __init__(self, name: str, tile: Tile) -> None:
        self.tile, self.pitch = tile, tile.rows + QUAD
        self.buffer = Buffer(name, FLOAT, tile.columns * self.pitch, scratch=True)

    def place(self, row: Index, column: Index) -> Expr:
        return (column * self.pitch + row).expr()

    def store(self, thread: Thread, i: int, j: int, value: ExprValue) -> Stmt:
        """What a thread has for its i-th row and j-th column."""
        return loop_ir.Store(self.buffer, self.place(thread.row + i, thread.column(j)), value.expr)

    def added(self, sums: Sums, rows: Block, factors: Callable[[Thread], Sequence[ExprValue]] | None
              = None) -> For:
        """Adds to the sums of each row the rows of a block, one for each column, by their weights.
        The sums are multiplied before, by a factor for each row."""
        thread = Thread(self.tile)
        registers = {(i, c): Register(f"s{i}", FLOAT) for i, c in _places(sums)}
        by = factors(thread) if factors else []
        before: list[Stmt] = []
        for (i, c), r in registers.items():
            value = sums.load(thread, sums.number(i, c))
            before.append(loop_ir.Assign(r, (value * by[i] if by else value).expr))
        after = [sums.store(thread, sums.number(i, c), ExprValue(loop_ir.read(r)))
                 for (i, c), r in registers.items()]
        var, k = counter("k", self.tile.columns)
        loop = For(var, const(0), const(self.tile.columns),
                   tuple(self._step(thread, k, sums, rows, registers)), 0, QUAD)
        return thread.loop([*before, loop, *after])

    def _step(self, thread: Thread, k: Index, sums: Sums, rows: Block,
              registers: dict[tuple[int, int], Register]) -> Iterator[Stmt]:
        mine = [Register(f"a{i}", FLOAT) for i in range(OWN)]
        others = [Register(f"b{c}", FLOAT) for c in range(QUAD * sums.shares)]
        for i, r in enumerate(mine):
            yield loop_ir.Assign(r, loop_ir.load(self.buffer, self.place(thread.row + i, k)))
        for c, r in enumerate(others):
            column = sums.first(thread, c // QUAD) + c % QUAD
            yield loop_ir.Assign(r, rows.load(k, column))
        for (i, c), r in registers.items():
            yield _product(r, mine[i], others[c])


def _places(sums: Sums) -> Iterator[tuple[int, int]]:
    return ((i, c) for i in range(OWN) for c in range(QUAD * sums.shares))
