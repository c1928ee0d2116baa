"""Plans the loops of a contraction: the roles of its labels, blocks, tiles and buffers.

A label is a letter of the einsum specification; it stands for a dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ....capture.graph.graph import Node, missing_below
from ....eager.arrays.dtypes import summed_in
from ....eager.arrays.shapes import product
from ....eager.ops.products.contract import parts
from ...fusion.fusion import Group
from ...fusion.materialize import WHOLE_OPERAND_KINDS
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.loop_ir import BOOL, TILE_SIDE, Expr, KernelBuffer, const
from ...ir.sizes import (
    Size,
    ceil_div,
    is_at_least,
    is_dynamic,
    is_multiple,
    upper_bound,
)
from ...ir.target_info import Machine
from .coalesce import can_coalesce
from .dot_packing import WORD, PackedLanes, lane_packing_for, matrix_packing_for
from .row_plan import RowPlan

_MAX_COLUMNS_PER_BLOCK = 128
_MAX_DEPTH_PER_BLOCK = 512  # summed elements
_PAD_ELEMENTS = 16  # keeps rows of packed blocks in different cache sets
_COLUMN_READ_COST_ROWS = 1.5  # time to read the columns of a tile, in units of a row's time
_MAX_ROWS_TO_PREPACK = 1024
_MAX_BLOCKS = 64  # of columns, among those that are compared
_MIN_ROWS_WITHOUT_STALL = 4  # a tile of fewer rows waits for its own sums


@dataclass
class DimRoles:
    """The labels of a contraction by role, and the number of the operand that has the rows."""

    batch: list[str]
    rows: list[str]
    columns: list[str]
    summed: list[str]
    row_operand: int
    size: dict[str, Size]

    def count(self, labels: list[str]) -> Size:
        return product(self.size[a] for a in labels)  # type: ignore[no-any-return]


def dim_roles_of(node: Node, lanes: int, row_operand: int, can_coalesce: Callable[[list[str]], bool]
                 ) -> DimRoles:
    """The roles of the labels, with operand `row_operand` as rows.

    Of the other operand's labels, only the last ones that fill two vectors are columns. The others
    count as batch: the rows are multiplied with each of them anew. `can_coalesce` tells whether
    some of its labels are always stepped through as one."""
    names = parts(node.params["spec"])
    size = {a: n for labels, i in zip(names, node.inputs) for a, n in zip(labels, i.type.shape)}
    row_labels, column_labels, out = names[row_operand], names[1 - row_operand], names[2]
    batch = [a for a in out if a in row_labels and a in column_labels]
    columns = [a for a in out if a in column_labels and a not in row_labels]
    roles = DimRoles(batch, [a for a in out if a in row_labels and a not in column_labels], columns,
                     [a for a in names[0] if a not in out], row_operand, size)
    _coalesce_columns(roles, 2 * lanes, can_coalesce)
    while len(columns) > 1 and upper_bound(roles.count(columns[1:])) >= 2 * lanes:
        batch.append(columns.pop(0))
    return roles


def _coalesce_columns(
    roles: DimRoles, wide: int, can_coalesce: Callable[[list[str]], bool]
) -> None:
    """Merges the last column labels into one where the last alone would leave vectors half empty.

    An example are 28 pixels of a row. The other labels then have size 1."""
    columns, size = roles.columns, roles.size
    if len(columns) < 2 or is_multiple(size[columns[-1]], wide):
        return
    first = next(
        (n for n in range(len(columns) - 1) if can_coalesce(columns[n:])), len(columns) - 1
    )
    coalesced = columns[first:]
    last, count = (
        [a for a in coalesced if size[a] != 1 or a == coalesced[0]][-1],
        roles.count(coalesced),
    )
    roles.batch += [a for a in coalesced if a != last]
    columns[first:] = [last]
    size.update(dict.fromkeys(coalesced, 1) | {last: count})


def choose_lane_packing(
    packings: Iterable[PackedLanes], roles: DimRoles
) -> tuple[PackedLanes, str] | None:
    """The lane packing of the elements, and the summed label whose neighbours share a word.

    None where there is no packing, or no label is a multiple of a word."""
    for packing in packings:
        for a in reversed(roles.summed):
            if not is_dynamic(roles.size[a]) and roles.size[a] % packing.count == 0:
                return packing, a
    return None


def is_persistent(operand: Node, buffers: Mapping[Node, KernelBuffer],
                  persistent: Collection[KernelBuffer]) -> bool:
    """True if an operand depends on persistent buffers alone."""
    def is_leaf(node: Node) -> bool:  # a leaf without a buffer belongs to a part that is not read
        return node in buffers or node.kind in ("reduce", *WHOLE_OPERAND_KINDS)

    visited: dict[Node, None] = {}
    for node in missing_below(operand, visited, is_leaf):
        visited[node] = None
    read_buffers = {buffers[n] for n in visited if n in buffers}
    return bool(read_buffers) and read_buffers.issubset(persistent)


class Contraction:
    """The loops of one contraction group."""

    def __init__(
        self, group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
        row_operand: int, persistent: Collection[KernelBuffer] = (), matrix_unit: bool = False,
    ) -> None:
        """`persistent`: buffers that are usually the same in every call of the program.

        `matrix_unit`: whether the matrix unit multiplies, if it can; otherwise vectors do."""
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = summed_in(self.node.type.dtype)
        self.vector = machine.lanes(self.dtype.itemsize)
        self.labels = parts(self.node.params["spec"])
        self.roles = dim_roles_of(self.node, self.vector, row_operand,
                                  self._coalescing_test(1 - row_operand))
        self.matrix_unit = matrix_unit
        packings = matrix_packing_for if matrix_unit else lane_packing_for
        self.lane_packing = choose_lane_packing(packings(self.node, row_operand, machine),
                                                self.roles)
        self.packed_dtype = self.dtype
        if self.lane_packing is not None:
            packing, label = self.lane_packing
            self.packed_dtype = WORD
            self.roles.size[label] //= packing.count
        self.persistent = [is_persistent(n, buffers, persistent) for n in self.node.inputs]
        # whether the summed elements of a row are contiguous, also packed
        self.k_contiguous = matrix_unit
        self.reads_unpacked = False  # whether tiles read rows from the operand, without packing
        self._choose_blocks()

    def _coalescing_test(self, operand: int) -> Callable[[list[str]], bool]:
        """A test of whether labels of an operand are stepped through as one, in it and in the
        epilogue."""
        def test(labels: list[str]) -> bool:
            axes = [self.labels[2].index(a) for a in labels]
            return can_coalesce(self.group, self.buffers, axes, operand)

        return test

    def _choose_blocks(self) -> None:
        roles = self.roles
        self.rows, self.columns = roles.count(roles.rows), roles.count(roles.columns)
        self.depth, self.batches = roles.count(roles.summed), roles.count(roles.batch)
        self._choose_columns()
        self._choose_depth()
        self._choose_rows()

    def _choose_columns(self) -> None:
        """Chooses blocks of columns: chunks of the first of their labels."""
        roles, wide = self.roles, 2 * self.vector
        inner, first = roles.count(roles.columns[1:]), roles.size[roles.columns[0]]
        if self.dynamic_columns:
            self._choose_dynamic_columns(inner, first, wide)
            return
        block = _MAX_COLUMNS_PER_BLOCK
        batches, threads = upper_bound(self.batches), self.machine.threads
        while block > wide and batches * -(-self.columns // block) < 2 * threads:
            block //= 2  # with more tasks than threads, a late thread delays the others less
        step = max(1, min(first, -(-block // inner)))
        self._set_column_blocks(self._even_block_count(-(-first // step), first))

    def _set_column_blocks(self, blocks: int) -> None:
        """Divides the columns into about as many blocks of nearly the same size."""
        roles, wide = self.roles, 2 * self.vector
        inner, first = roles.count(roles.columns[1:]), roles.size[roles.columns[0]]
        step = -(-first // blocks)
        if inner == 1 and blocks > 1:
            step = min(first, -(-step // wide) * wide)
        self.column_step, self.column_blocks = step, -(-first // step)
        self.columns_per_block = step * inner
        self.pitch = -(-self.columns_per_block // wide) * wide + _PAD_ELEMENTS
        self._choose_panels(wide)

    def _even_block_count(self, blocks: int, most: int) -> int:
        """The number of blocks, at least `blocks`, that distributes columns most evenly over
        threads."""
        def largest_share(count: int) -> float:
            return -(-upper_bound(self.batches) * count // self.machine.threads) / count

        return min(range(blocks, max(blocks, min(most, blocks * 5 // 4)) + 1), key=largest_share)

    def _choose_dynamic_columns(self, inner: Size, first: Size, wide: int) -> None:
        """Chooses blocks of a size that does not depend on the number of columns."""
        inner = upper_bound(inner)
        self.column_step = max(1, _MAX_COLUMNS_PER_BLOCK // inner // wide) * wide
        self.column_blocks = ceil_div(first, self.column_step)
        self.columns_per_block = self.column_step * inner
        self.pitch = self.columns_per_block + _PAD_ELEMENTS
        alone = len(self.roles.columns) == 1
        self.panel_label = self.roles.columns[0] if alone else None
        self.panel_width = wide if alone else self.pitch

    def _choose_panels(self, wide: int) -> None:
        """Chooses the panel width, and the label that is split into panels.

        A block of columns is packed in panels; each is one stream for the tiles that read it. A
        block whose labels cannot be split is a single panel."""
        long = [a for a in self.roles.columns if self.roles.size[a] != 1] or self.roles.columns
        divides = self.roles.size[long[-1]] % wide == 0
        self.panel_label = long[-1] if divides or long[-1] == self.roles.columns[0] else None
        self.panel_width = self.pitch if self.panel_label is None else wide

    def _choose_rows(self) -> None:
        """Chooses tiles of rows, and chunks of rows where there would be too few tasks."""
        if is_dynamic(self.rows):
            self.tile, self.rows_per_chunk, self.row_chunks = self.most_rows, self.rows, 1
            return
        self.tile = min(self.rows, self.most_rows) if self.matrix_unit else \
            choose_tile_rows(self.rows, self.most_rows)
        chunks = 1
        tasks = upper_bound(self.batches * self.column_blocks)
        while chunks * tasks < self.machine.threads and \
                self.rows // (chunks * 2) >= 2 * self.tile:
            chunks *= 2  # each chunk packs the columns anew, so no more chunks than threads
        self._set_row_chunks(chunks)

    @property
    def most_rows(self) -> int:
        """The most rows of a tile."""
        return 2 * TILE_SIDE if self.matrix_unit else self.machine.tile_rows

    def _set_row_chunks(self, chunks: int) -> None:
        """Divides the rows into at most as many chunks of whole tiles."""
        self.rows_per_chunk = -(-self.rows // chunks // self.tile) * self.tile
        self.row_chunks = -(-self.rows // self.rows_per_chunk)

    def set_partition(self, column_blocks: int, row_chunks: int) -> None:
        """Replaces the first choice of blocks of columns and of chunks of rows."""
        self._set_column_blocks(column_blocks)
        self._set_row_chunks(row_chunks)
        for cached in ("packs_rows_once", "packed_columns", "packed_rows", "shared_rows", "sums"):
            self.__dict__.pop(cached, None)

    def partitions(self) -> list[tuple[int, int]]:
        """(blocks of columns, chunks of rows) that are worth comparing, the first choice first."""
        first = self.roles.size[self.roles.columns[0]]
        inner, threads = self.columns_per_block // self.column_step, self.machine.threads
        steps = {-(-first // n) for n in range(1, min(first, _MAX_BLOCKS) + 1)}
        blocks = sorted(-(-first // step) for step in steps
                        if step == 1 or step * inner <= _MAX_COLUMNS_PER_BLOCK)
        chunks = [1 << n for n in range((2 * threads).bit_length())
                  if not n or self.rows >> n >= 2 * self.tile]
        return [(self.column_blocks, self.row_chunks), *((b, c) for b in blocks for c in chunks)]

    def _choose_depth(self) -> None:
        """Chooses blocks of the summed axes: chunks of the first of them."""
        summed = self.roles.summed
        first = self.roles.size[summed[0]]
        rest = self.roles.count(summed[1:])
        limit = (
            2 * _MAX_DEPTH_PER_BLOCK
            if upper_bound(self.depth) <= 2 * _MAX_DEPTH_PER_BLOCK
            else _MAX_DEPTH_PER_BLOCK
        )
        most = max(1, limit // upper_bound(rest))
        self.depth_step: Size = first if is_at_least(most, first) else most
        self.depth_blocks = ceil_div(first, self.depth_step) if self.depth_step is not first else 1
        if not is_dynamic(first):
            self.depth_step = -(-first // self.depth_blocks)
        self.depth_unit = 1
        if self.matrix_unit:
            self._align_depth(first, rest)
        self.block_depth = self.padded(self.depth_step * rest)

    def _align_depth(self, first: int, rest: int) -> None:
        """Makes blocks of the summed axes multiples of the depth of the matrix unit's steps.

        Each step then begins on a cache line: tiles across two lines load three times as long."""
        if self.depth_blocks != 1:
            multiple = TILE_SIDE // math.gcd(TILE_SIDE, rest)
            self.depth_step = -(-self.depth_step // multiple) * multiple
            self.depth_blocks = -(-first // self.depth_step)
        self.depth_unit = min(self.depth, TILE_SIDE)

    def padded(self, depth: Size) -> Size:
        """The elements of a packed line of so many summed elements; the last ones are 0."""
        return depth if self.depth_unit == 1 else \
            -(-depth // self.depth_unit) * self.depth_unit

    @property
    def pads_depth(self) -> bool:
        """True if there are such elements."""
        return self.depth_unit != 1 and self.depth % self.depth_unit != 0

    @property
    def tasks(self) -> Size:
        return self.batches * self.column_blocks * self.row_chunks

    # ---- memory

    @property
    def scratch(self) -> tuple[KernelBuffer, ...]:
        """The scratch buffers of a task."""
        own = [] if self.prepacks_columns else [self.packed_columns]
        own += [] if self.packs_rows_once or self.reads_unpacked else [self.packed_rows]
        own += [self.sums] if self.depth_blocks != 1 else \
            [self.tile_sums] if self.matrix_unit else []
        return tuple(own)

    @property
    def prepacks_columns(self) -> bool:
        """True if all columns are packed once, as they are the same in most calls.

        With many rows packing takes little of the time, but the packed columns take memory."""
        return self.persistent[1 - self.roles.row_operand] \
            and upper_bound(self.rows) <= _MAX_ROWS_TO_PREPACK

    @cached_property
    def packed_columns(self) -> KernelBuffer:
        if not self.prepacks_columns:
            return KernelBuffer("columns", self.packed_dtype, self.column_block_size, scratch=True)
        return KernelBuffer(f"{self.name}_columns", self.packed_dtype,
                      self.packed_column_blocks * self.column_block_size)

    @property
    def column_block_size(self) -> Size:
        """The elements of a packed block of columns, for one block of the summed axes."""
        return -(-self.columns_per_block // self.panel_width) * self.panel_width * self.block_depth

    @property
    def packed_column_blocks(self) -> Size:
        """The number of packed blocks of columns."""
        batches = self.roles.count(self.batch_labels_of(1 - self.roles.row_operand))
        return batches * self.column_blocks * self.depth_blocks

    def packed_column_index(self, k: Index, column: Index) -> Index:
        """The index of an element in a packed block of columns."""
        panel, lane = column // self.panel_width, column % self.panel_width
        return panel * (self.block_depth * self.panel_width) + k * self.panel_width + lane

    @cached_property
    def packed_rows(self) -> KernelBuffer:
        return KernelBuffer("rows", self.packed_dtype, self.row_tile_size, scratch=True)

    @cached_property
    def packs_rows_once(self) -> bool:
        """True if many tasks use the same rows: a kernel of its own packs them once."""
        repeats = upper_bound(self.batches // self.row_batches)
        return self.persistent[self.roles.row_operand] \
            or repeats * upper_bound(self.column_blocks) >= 4

    @cached_property
    def shared_rows(self) -> KernelBuffer:
        """The packed tiles of rows of every batch element, each `row_tile_size` elements long."""
        size = self.row_batches * -(-self.rows // self.tile) * self.row_tile_size
        return KernelBuffer(f"{self.name}_rows", self.packed_dtype, size)

    @property
    def dynamic_rows(self) -> bool:
        """True if the number of rows is known at run time only."""
        return is_dynamic(self.rows)

    @property
    def dynamic_columns(self) -> bool:
        """True if the number of columns is known at run time only."""
        return is_dynamic(self.columns)

    @property
    def full_tiles(self) -> Size:
        """The number of full tiles of rows, in one element of the batch."""
        return self.rows // self.tile

    @property
    def row_tiles(self) -> Size:
        """The number of tiles of rows, in one element of the batch."""
        return ceil_div(self.rows, self.tile)

    def tile_of(self, number: Index) -> RowPlan:
        """A full tile of rows."""
        return RowPlan(number, self.tile, number * self.tile)

    @property
    def rest_row_counts(self) -> list[int]:
        """The sizes of partial tiles for which there is code, where the number of rows is dynamic.
        """
        parts = [-(-(self.tile - 1) * part // 3) for part in (1, 2, 3)]
        return sorted({*parts} - {0}, reverse=True)

    def rest_rows_packed(self) -> RowPlan | None:
        """The rows after the full tiles, as they are packed, or None."""
        left = self.rows % self.tile
        tiles, start = as_index(self.full_tiles), as_index(self.full_tiles * self.tile)
        if is_dynamic(left):
            return RowPlan(tiles, self.tile, start, atom(const(left), (0, self.tile - 1)))
        return RowPlan(tiles, left, start) if left else None

    def rest_rows_computed(self) -> Iterator[tuple[RowPlan, Expr]]:
        """The rows after the full tiles, as they are computed: partial tiles, each with its
        condition."""
        rest = self.rest_rows_packed()
        if rest is None or rest.remaining is None:
            yield from [] if rest is None else [(rest, const(1, BOOL))]
            return
        for size, smaller in zip(self.rest_row_counts, [*self.rest_row_counts[1:], 0]):
            condition = loop_ir.call("and", (
                loop_ir.call("gt", (rest.remaining.expr(), const(smaller)), BOOL),
                loop_ir.call("le", (rest.remaining.expr(), const(size)), BOOL)), BOOL)
            yield replace(rest, count=size), condition

    @property
    def row_tile_size(self) -> Size:
        """The elements of a packed tile of rows."""
        return self.tile * self.row_pitch if self.k_contiguous else self.row_pitch

    @property
    def row_pitch(self) -> Size:
        """The elements from one packed row to the next, or of a whole tile where rows are
        interleaved."""
        depth = self.padded(self.depth) if self.packs_rows_once else self.block_depth
        size = depth if self.k_contiguous else self.tile * depth
        return size + (0 if is_dynamic(depth) else _PAD_ELEMENTS)

    def packed_row_index(self, k: Index, row: Index) -> Index:
        """The index of an element in a packed tile of rows."""
        return row * self.row_pitch + k if self.k_contiguous else k * self.tile + row

    def batch_labels_of(self, operand: int) -> list[str]:
        """The batch labels of an operand."""
        return [a for a in self.roles.batch if a in self.labels[operand]]

    @property
    def row_batch_labels(self) -> list[str]:
        """The batch labels of the rows' operand."""
        return self.batch_labels_of(self.roles.row_operand)

    @property
    def row_batches(self) -> Size:
        return self.roles.count(self.row_batch_labels)

    @cached_property
    def tile_sums(self) -> KernelBuffer:
        """The sums of a tile and a panel, as the matrix unit stores them."""
        return KernelBuffer("tile_sums", self.dtype, 2 * TILE_SIDE * TILE_SIDE * 2, scratch=True)

    @cached_property
    def sums(self) -> KernelBuffer:
        # missing rows of a tile have sums, too
        rows = -(-self.rows_per_chunk // self.tile) * self.tile
        return KernelBuffer("sums", self.dtype, rows * self.pitch, scratch=True)


def rows_time(rows: int, tile: int) -> float:
    """The time of rows in tiles, in units of a row's multiplications by two vectors."""
    full, rest = divmod(rows, tile)
    return full * (max(tile, _MIN_ROWS_WITHOUT_STALL) + _COLUMN_READ_COST_ROWS) + (
        max(rest, _MIN_ROWS_WITHOUT_STALL) + _COLUMN_READ_COST_ROWS if rest else 0
    )


def choose_tile_rows(rows: int, most: int) -> int:
    """The number of rows of a tile; the last tile has the remaining rows."""
    return rows if rows <= most else min(range(most, most // 2, -1),
                                         key=lambda tile: rows_time(rows, tile))
