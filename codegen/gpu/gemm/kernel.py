"""A team that computes a tile of a contraction, step by step of the summed axes.

    for each block of summed elements:
        all threads read a block of both operands into shared memory
        each thread adds the products of some rows and some columns to sums of its own
    each thread: what the group computes from its sums, and its stores

How a thread multiplies is left to `by_threads.py` and `by_tensor_cores.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from ....eager.arrays.shapes import product
from ...cpu.partition_work import buffers_of, chunk_bounds, sites_of
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import BUILDER, ExprValue, call, cast
from ...ir.inline import Indices, flatten, unflatten
from ...ir.loop_ir import Buffer, For, If, Kernel, Register, Stmt, const
from .configs import ADDERS, TensorTile, Tile, TileConfig
from .contraction import GpuContraction, at_most
from .library_pattern import product_of


class TileKernel:
    """The statements of a task of a contraction; `scratch`: memory for blocks of the operands, and
    what else its threads need."""

    tile: Tile | TensorTile
    scratch: tuple[Buffer, ...]

    def __init__(self, of: GpuContraction, way: TileConfig) -> None:
        self.of, (self.tile, self.shares) = of, way
        self.grid = of.count(of.batch), *of.sizes.grid(self.tile)
        self.sums = Buffer("sums", of.dtype, self.tile.threads * self.tile.sums, scratch=True)
        self.partial = Buffer(f"{of.name}_part", of.dtype, self.shares * of.node.type.size)

    @abstractmethod
    def read(self, side: int, block: Index) -> list[Stmt]:
        """Reads a block of the rows' operand (side 0) or the columns' into shared memory."""

    @abstractmethod
    def multiply(self) -> Stmt:
        """What each thread adds to its sums from the blocks in shared memory."""

    @abstractmethod
    def places(self, thread: Index) -> Iterable[tuple[int, Index, Index]]:
        """The number of every `piece`-th sum of a thread, and its row and column in the tile."""

    # ---- operands
    def side(self, side: int) -> tuple[int, int]:
        """The number of the rows' operand (side 0) or the columns', and how many of its rows or
        columns a tile has."""
        return abs(self.of.column_operand - 1 + side), (self.tile.rows, self.tile.columns)[side]

    def element(self, side: int, own: Index, k: Index, there: Any) -> ExprValue:
        """An element of an operand, at one of its rows or columns in the tile and one of the
        summed; 0 behind the end of the former, and where not `there`. Views know of no places
        behind an end, so the last one is read."""
        of, letters, own = self.of, (self.of.rows, self.of.columns)[side], self.first[side] + own
        inside = where_both(of.is_inside(own, letters), there)
        where = {**self.fixed, **of.nearest(letters, own), **of.nearest(of.summed, k)}
        value = of.element(self.side(side)[0], where)
        return value if inside is None else cast(call("where", inside, value, 0), value.dtype)

    # ---- kernels
    def kernels(self) -> list[Kernel]:
        """The tiles, and what adds up the shares of a tile."""
        of = self.of
        tasks = product(self.grid) * self.shares
        var, task = counter("task", tasks)
        body = tuple(self._statements(task // self.shares, task % self.shares))
        made = Kernel(of.name, *buffers_of(body), (*self.scratch, self.sums), var, tasks, body,
                      2e-3 * float(of.node.type.size) * of.depth, sites_of(of.group.members),
                      product=product_of(of, self._result) if of.is_plain else None)
        return [made, self._total()] if self._in_parts else [made]

    @property
    def _in_parts(self) -> bool:
        """Whether what the tiles give lies in memory before the rest of the group is computed."""
        return self.shares > 1 or (self.of.is_plain and len(self.of.group.members) > 1)

    @property
    def _result(self) -> Buffer:
        """What the tiles are written to, where they are written as they are."""
        return self.partial if self._in_parts else self.of.buffers[self.of.node]

    def _statements(self, number: Index, share: Index) -> list[Stmt]:
        of, tile = self.of, self.tile
        blocks = -(-of.sizes.depth // tile.depth)
        each = -(-blocks // self.shares)
        var, block = counter("block", blocks)
        column, number = number % self.grid[2], number // self.grid[2]
        row, batch = number % self.grid[1], number // self.grid[1]
        self.fixed = dict(zip(of.batch, unflatten(batch, [of.size[a] for a in of.batch])))
        self.first = row * tile.rows, column * tile.columns
        body = [*self.read(0, block), *self.read(1, block), self.multiply()]
        return [self._clear(), For(var, *chunk_bounds(share, each, blocks), tuple(body)),
                self._finish(share)]

    def lanes(self, body: list[Stmt], var: loop_ir.Var) -> For:
        """Statements that each thread runs once; `var` is its number."""
        return For(var, const(0), const(self.tile.threads), tuple(body), self.tile.threads)

    def own(self, thread: Index, n: int) -> Index:
        """Where a thread's n-th sum is."""
        return thread * self.tile.sums + n

    def _clear(self) -> For:
        lane, t = counter("t", self.tile.threads)
        zero = loop_ir.const(0, self.of.dtype)
        return self.lanes([loop_ir.Store(self.sums, self.own(t, n).expr(), zero)
                           for n in range(self.tile.sums)], lane)

    # ---- results
    def _finish(self, share: Index) -> For:
        lane, t = counter("t", self.tile.threads)
        return self.lanes([s for n, row, column in self.places(t)
                           for s in self._piece(t, n, row, column, share)], lane)

    def _piece(self, thread: Index, number: int, row: Index, column: Index, share: Index
               ) -> list[Stmt]:
        """A thread's results from this number on: a piece of a row at once, where all of its
        columns are there."""
        piece, columns = self.tile.piece, self.of.count(self.of.columns)
        row, column = self.first[0] + row, self.first[1] + column

        def result(column: Index, n: Index) -> list[Stmt]:
            value = ExprValue(loop_ir.load(self.sums, (self.own(thread, number) + n).expr()))
            return self._results(row, column, value, share)

        if columns % piece == 0:
            var, n = counter("n", piece)
            first = at_most(column // piece, columns // piece - 1) * piece
            loop = For(var, const(0), const(piece), tuple(result(first + n, n)), 0, piece)
            return self._guarded(row, column, [loop])
        return [s for n in range(piece) for s in self._guarded(
            row, column + n, result(at_most(column + n, columns - 1), as_index(n)))]

    def _guarded(self, row: Index, column: Index, body: list[Stmt]) -> list[Stmt]:
        of = self.of
        inside = where_both(of.is_inside(row, of.rows), of.is_inside(column, of.columns))
        return body if inside is None else [If(inside.expr, tuple(body))]

    def _results(self, row: Index, column: Index, value: ExprValue, share: Index) -> list[Stmt]:
        """Stores of the group's members at one element, or of a share's sum."""
        of = self.of
        where = self._element(row, column)
        if self._in_parts:
            at = share * of.node.type.size + flatten(where, of.node.type.shape)
            return [loop_ir.Store(self.partial, at.expr(), value.expr)]
        return of.stores(where, value)

    def _element(self, row: Index, column: Index) -> Indices:
        of = self.of
        letters = {**self.fixed, **of.nearest(of.rows, row), **of.places(of.columns, column)}
        return tuple(letters[a] for a in of.letters[2])

    def _total(self) -> Kernel:
        """Adds up the shares, and does the rest of the group: a thread for each element."""
        of, size = self.of, self.of.node.type.size
        tasks = -(-size // ADDERS)
        var, task = counter("task", tasks)
        lane, i = counter("i", size)
        number, p = counter("p", self.shares)
        total = Register("total", of.dtype)
        add = loop_ir.Update(total, "add", loop_ir.load(self.partial, (p * size + i).expr()))
        body = (loop_ir.Assign(total, loop_ir.const(0, of.dtype)),
                For(number, const(0), const(self.shares), (add,), 0, 4),
                *of.stores(unflatten(i, of.node.type.shape), ExprValue(loop_ir.read(total))))
        loop = (For(lane, *chunk_bounds(task, ADDERS, size), body, ADDERS),)
        return Kernel(of.name + "_total", *buffers_of(loop), (), var, tasks, loop, float(size),
                      sites_of(of.group.members))


def where_both(a: Any, b: Any) -> ExprValue | None:
    """Where both hold; None where that is everywhere."""
    known = a is True and b is True
    both = a and b if isinstance(a, bool) and isinstance(b, bool) else call("and", a, b)
    return None if known else both if isinstance(both, ExprValue) else BUILDER.const(both,
                                                                                     loop_ir.BOOL)
