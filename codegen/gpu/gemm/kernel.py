"""The kernel of a thread block that computes a tile of a contraction.

    for each block of summed elements:
        all threads read a block of both operands into shared memory
        each thread adds the products of some rows and some columns to its accumulators
    each thread: the rest of the group, computed from its accumulators, and its stores

`simt.py` and `mma.py` define how a thread multiplies.
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
from ...ir.loop_ir import For, If, Kernel, KernelBuffer, Register, Stmt, const
from ...ir.sizes import ceil_div, upper_bound
from .configs import REDUCTION_BLOCK, SimtTile, TensorTile, TileConfig
from .contraction import GpuContraction, at_most
from .library_pattern import library_product_of


class TileKernel:
    """The statements of a task of a contraction; `scratch` holds blocks of the operands and other
    shared memory."""

    tile: SimtTile | TensorTile
    scratch: tuple[KernelBuffer, ...]

    def __init__(self, contraction: GpuContraction, config: TileConfig) -> None:
        self.contraction, (self.tile, self.split_k) = contraction, config
        self.grid = (contraction.count(contraction.batch),
                     ceil_div(contraction.count(contraction.rows), self.tile.rows),
                     ceil_div(contraction.count(contraction.columns), self.tile.columns))
        count = self.tile.threads * self.tile.accumulators
        self.accumulators = KernelBuffer("sums", contraction.dtype, count, scratch=True)
        self.partial = KernelBuffer(f"{contraction.name}_part", contraction.dtype,
                              self.split_k * contraction.node.type.size)

    @abstractmethod
    def read(self, side: int, block: Index) -> list[Stmt]:
        """Reads a block of the rows' operand (side 0) or the columns' operand (side 1) into shared
        memory."""

    @abstractmethod
    def multiply(self) -> Stmt:
        """Adds the products of the blocks in shared memory to each thread's accumulators."""

    @abstractmethod
    def accumulator_groups(self, thread: Index) -> Iterable[tuple[int, Index, Index]]:
        """The number of the first accumulator of each vector of a thread, with its row and column
        in the tile."""

    # ---- operands
    def side(self, side: int) -> tuple[int, int]:
        """The number of the operand of a side, and the number of its rows or columns in a tile."""
        extents = self.tile.rows, self.tile.columns
        return abs(self.contraction.column_operand - 1 + side), extents[side]

    def element(self, side: int, position: Index, k: Index, is_summed_inside: Any) -> ExprValue:
        """An element of an operand, at one of its rows or columns in the tile and one of the
        summed; 0 out of range. Views do not accept indices out of range, so these are clamped."""
        contraction, position = self.contraction, self.tile_origin[side] + position
        labels = (contraction.rows, contraction.columns)[side]
        inside = where_both(contraction.is_inside(position, labels), is_summed_inside)
        coordinates = {**self.batch_coordinates,
                       **contraction.clamped_coordinates(labels, position),
                       **contraction.clamped_coordinates(contraction.summed, k)}
        value = contraction.element(self.side(side)[0], coordinates)
        return value if inside is None else cast(call("where", inside, value, 0), value.dtype)

    # ---- kernels
    def kernels(self) -> list[Kernel]:
        """The kernel of the tiles, and the kernel that adds up splits if there are any."""
        contraction = self.contraction
        tasks = product(self.grid) * self.split_k
        var, task = counter("task", tasks)
        body = tuple(self._statements(task // self.split_k, task % self.split_k))
        tile_kernel = Kernel(contraction.name, *buffers_of(body),
                             (*self.scratch, self.accumulators), var, tasks, body,
                             2e-3 * float(upper_bound(contraction.node.type.size
                                                      * contraction.depth)),
                             sites_of(contraction.group.members),
                             product=library_product_of(contraction, self._result)
                             if contraction.uses_library else None)
        return [tile_kernel, self._add_splits()] if self._stores_partial_sums else [tile_kernel]

    @property
    def _stores_partial_sums(self) -> bool:
        """True if the tiles store their sums before the rest of the group is computed."""
        if self.contraction.uses_library and len(self.contraction.group.members) > 1:
            return True
        return self.split_k > 1

    @property
    def _result(self) -> KernelBuffer:
        """The buffer that tiles store unprocessed sums to."""
        if self._stores_partial_sums:
            return self.partial
        return self.contraction.buffers[self.contraction.node]

    def _statements(self, tile_number: Index, split: Index) -> list[Stmt]:
        contraction, tile = self.contraction, self.tile
        blocks = ceil_div(contraction.depth, tile.depth)
        blocks_per_split = ceil_div(blocks, self.split_k)
        var, block = counter("block", blocks)
        column, tile_number = tile_number % self.grid[2], tile_number // self.grid[2]
        row, batch = tile_number % self.grid[1], tile_number // self.grid[1]
        self.batch_coordinates = contraction.coordinates(contraction.batch, batch)
        self.tile_origin = row * tile.rows, column * tile.columns
        body = [*self.read(0, block), *self.read(1, block), self.multiply()]
        loop = For(var, *chunk_bounds(split, blocks_per_split, blocks), tuple(body))
        return [self._clear_accumulators(), loop, self._store_results(split)]

    def lanes(self, body: list[Stmt], var: loop_ir.Var) -> For:
        """Statements that each thread runs once; `var` is its number."""
        return For(var, const(0), const(self.tile.threads), tuple(body), self.tile.threads)

    def accumulator_index(self, thread: Index, n: int) -> Index:
        """The index of a thread's n-th accumulator."""
        return thread * self.tile.accumulators + n

    def _clear_accumulators(self) -> For:
        lane, t = counter("t", self.tile.threads)
        zero = loop_ir.const(0, self.contraction.dtype)
        return self.lanes([loop_ir.Store(self.accumulators, self.accumulator_index(t, n).expr(),
                                         zero) for n in range(self.tile.accumulators)], lane)

    # ---- results
    def _store_results(self, split: Index) -> For:
        lane, t = counter("t", self.tile.threads)
        return self.lanes([s for n, row, column in self.accumulator_groups(t)
                           for s in self._store_vector(t, n, row, column, split)], lane)

    def _store_vector(self, thread: Index, accumulator: int, row: Index, column: Index, split: Index
                      ) -> list[Stmt]:
        """The stores of a thread's results from an accumulator on; one vector of a row if tiles
        divide its columns."""
        vector, columns = self.tile.vector, self.contraction.count(self.contraction.columns)
        row, column = self.tile_origin[0] + row, self.tile_origin[1] + column

        def result(column: Index, n: Index) -> list[Stmt]:
            value = ExprValue(loop_ir.load(self.accumulators,
                                           (self.accumulator_index(thread,
                                                                   accumulator) + n).expr()))
            return self._element_stores(row, column, value, split)

        if columns % vector == 0:
            var, n = counter("n", vector)
            first = at_most(column // vector, columns // vector - 1) * vector
            loop = For(var, const(0), const(vector), tuple(result(first + n, n)), 0, vector)
            return self._if_inside(row, column, [loop])
        return [s for n in range(vector) for s in self._if_inside(
            row, column + n, result(at_most(column + n, columns - 1), as_index(n)))]

    def _if_inside(self, row: Index, column: Index, body: list[Stmt]) -> list[Stmt]:
        contraction = self.contraction
        inside = where_both(contraction.is_inside(row, contraction.rows),
                            contraction.is_inside(column, contraction.columns))
        return body if inside is None else [If(inside.expr, tuple(body))]

    def _element_stores(self, row: Index, column: Index, value: ExprValue,
                        split: Index) -> list[Stmt]:
        """The stores of the group at one element, or of the sum of a split."""
        contraction = self.contraction
        coordinates = self._result_coordinates(row, column)
        if self._stores_partial_sums:
            result = contraction.node.type
            index = split * result.size + flatten(coordinates, result.shape)
            return [loop_ir.Store(self.partial, index.expr(), value.expr)]
        return contraction.stores(coordinates, value)

    def _result_coordinates(self, row: Index, column: Index) -> Indices:
        contraction = self.contraction
        labels = {**self.batch_coordinates,
                   **contraction.clamped_coordinates(contraction.rows, row),
                   **contraction.coordinates(contraction.columns, column)}
        return tuple(labels[a] for a in contraction.labels[2])

    def _add_splits(self) -> Kernel:
        """The kernel that adds up the splits and computes the rest of the group; a thread for each
        element."""
        contraction, size = self.contraction, self.contraction.node.type.size
        tasks = ceil_div(size, REDUCTION_BLOCK)
        var, task = counter("task", tasks)
        lane, i = counter("i", size)
        split_var, p = counter("p", self.split_k)
        total = Register("total", contraction.dtype)
        add = loop_ir.Update(total, "add", loop_ir.load(self.partial, (p * size + i).expr()))
        body = (loop_ir.Assign(total, loop_ir.const(0, contraction.dtype)),
                For(split_var, const(0), const(self.split_k), (add,), 0, 4),
                *contraction.stores(unflatten(i, contraction.node.type.shape),
                                    ExprValue(loop_ir.read(total))))
        loop = (For(lane, *chunk_bounds(task, REDUCTION_BLOCK, size), body, REDUCTION_BLOCK),)
        return Kernel(contraction.name + "_total", *buffers_of(loop), (), var, tasks, loop,
                      float(upper_bound(size)), sites_of(contraction.group.members))


def where_both(a: Any, b: Any) -> ExprValue | None:
    """The conjunction of two conditions; None if it always holds."""
    always = a is True and b is True
    both = a and b if isinstance(a, bool) and isinstance(b, bool) else call("and", a, b)
    return None if always else both if isinstance(both, ExprValue) else BUILDER.const(both,
                                                                                      loop_ir.BOOL)
