"""The sizes of a contraction's loops: what each letter does, blocks, tiles, buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ....capture.graph.graph import Node, missing_below
from ....eager.arrays.dtypes import summed_in
from ....eager.arrays.shapes import product
from ....eager.ops.products.contract import parts
from ...fusion.fusion import WHOLE, Group
from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, atom
from ...ir.loop_ir import BOOL, INT, Buffer, Expr, If, Stmt, const
from ...ir.target_info import Machine
from .coalesce import steps_as_one
from .dot_packing import WORD, PackedLanes, lane_packing_for

_BLOCK = 128  # columns of a block
_DEPTH = 512  # summed elements of a block
_PAD = 16  # keeps rows of packed blocks out of the same cache sets
_READING = 1.5  # the columns' share in the time of a tile, in rows
_MANY_ROWS = 1024
_LATENCY = 4  # rows below which a tile waits for its own sums


@dataclass
class DimRoles:
    """The letters of a contraction by what they do, and which operand has the columns."""

    batch: list[str]
    rows: list[str]
    columns: list[str]
    summed: list[str]
    row_operand: int
    size: dict[str, int]

    def count(self, letters: list[str]) -> int:
        return int(product(self.size[letter] for letter in letters))


def dim_roles_of(node: Node, lanes: int, row_operand: int, as_one: Callable[[list[str]], bool]
             ) -> DimRoles:
    """The letters' roles with this operand as rows. Of the other operand's letters all but as many
    as fill two vectors count as batch: the rows are multiplied with each of them anew. `as_one`
    tells which of its letters everything steps through as one."""
    names = parts(node.params["spec"])
    size = {a: n for letters, i in zip(names, node.inputs) for a, n in zip(letters, i.type.shape)}
    mine, other, out = names[row_operand], names[1 - row_operand], names[2]
    batch = [a for a in out if a in mine and a in other]
    columns = [a for a in out if a in other and a not in mine]
    roles = DimRoles(batch, [a for a in out if a in mine and a not in other], columns,
                     [a for a in names[0] if a not in out], row_operand, size)
    _join_last(roles, 2 * lanes, as_one)
    while len(columns) > 1 and roles.count(columns[1:]) >= 2 * lanes:
        batch.append(columns.pop(0))
    return roles


def _join_last(roles: DimRoles, wide: int, as_one: Callable[[list[str]], bool]) -> None:
    """Makes one letter of the last ones of the columns where the very last alone would leave
    vectors half empty, such as 28 pixels of a row. The others are of size 1 then."""
    columns, size = roles.columns, roles.size
    if len(columns) < 2 or size[columns[-1]] % wide == 0:
        return
    first = next((n for n in range(len(columns) - 1) if as_one(columns[n:])), len(columns) - 1)
    joined = columns[first:]
    last, count = [a for a in joined if size[a] > 1 or a == joined[0]][-1], roles.count(joined)
    roles.batch += [a for a in joined if a != last]
    columns[first:] = [last]
    size.update(dict.fromkeys(joined, 1) | {last: count})


def words_of(node: Node, roles: DimRoles, machine: Machine) -> tuple[PackedLanes, str] | None:
    """The words in which elements are packed, and the summed letter whose neighbours they hold;
    None where the processor has none for them, or no letter is of whole words."""
    for word in lane_packing_for(node, roles.row_operand, machine):
        for a in reversed(roles.summed):
            if roles.size[a] % word.count == 0 and not machine.varies(roles.size[a]):
                return word, a
    return None


@dataclass(frozen=True)
class RowPlan:
    """`count` rows of a tile, from number `start` on, of which only `left` may be there."""

    tile: Index
    count: int
    start: Index
    left: Index | None = None

    def number(self, i: Index | int, rows: int) -> Index:
        """The number of row i among all `rows`."""
        here = self.start + i
        return here if self.left is None else atom(here.expr(), (0, rows - 1))

    def there(self, i: int) -> Index:
        """A row of the tile that can be read as row i: the last one in the place of one that is not
        there."""
        if self.left is None or i == 0:
            return as_index(i)
        last = loop_ir.call("sub", (self.left.expr(), const(1)), INT)
        return atom(loop_ir.call("minimum", (const(i), last), INT), (0, i))

    def only(self, i: int, body: list[Stmt]) -> list[Stmt]:
        """Statements for row i, run if it is there."""
        if self.left is None or i == 0:
            return body
        return [If(loop_ir.call("gt", (self.left.expr(), const(i)), BOOL), tuple(body))]

    def packed(self) -> Expr:
        """How many of them there are to pack."""
        if self.left is None:
            return const(self.count)
        return loop_ir.call("minimum", (const(self.count), self.left.expr()), INT)


def is_persistent(operand: Node, buffers: Mapping[Node, Buffer], kept: Collection[Buffer]) -> bool:
    """Whether an operand depends on nothing but what is kept."""
    def has_home(node: Node) -> bool:  # one without a buffer here is in a part that is not read
        return node in buffers or node.kind in ("reduce", *WHOLE)

    read: dict[Node, None] = {}
    for node in missing_below(operand, read, has_home):
        read[node] = None
    found = {buffers[n] for n in read if n in buffers}
    return bool(found) and found.issubset(kept)


class Contraction:
    """The loops of one contraction group."""

    def __init__(
        self, group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
        row_operand: int, kept: Collection[Buffer] = (),
    ) -> None:
        """`kept`: what mostly is the same in every call of the program."""
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = summed_in(self.node.type.dtype)
        self.vector = machine.lanes(self.dtype.itemsize)
        self.letters = parts(self.node.params["spec"])
        self.roles = dim_roles_of(self.node, self.vector, row_operand,
                                  self._as_one(1 - row_operand))
        self.words = words_of(self.node, self.roles, machine)
        self.packed = self.dtype
        if self.words is not None:
            word, letter = self.words
            self.packed = WORD
            self.roles.size[letter] //= word.count
        self.kept = [is_persistent(n, buffers, kept) for n in self.node.inputs]
        self.side_by_side = False  # whether the summed elements of a row lie so, and are packed so
        self.direct = False  # whether tiles read their rows where these lie
        self._choose_blocks()

    def _as_one(self, operand: int) -> Callable[[list[str]], bool]:
        """Tells whether letters of an operand are stepped through as one, there and in the
        epilogue."""
        def as_one(letters: list[str]) -> bool:
            axes = [self.letters[2].index(a) for a in letters]
            return not self.machine.open and \
                steps_as_one(self.group, self.buffers, axes, operand)

        return as_one

    def _choose_blocks(self) -> None:
        roles = self.roles
        self.rows, self.columns = roles.count(roles.rows), roles.count(roles.columns)
        self.depth, self.batches = roles.count(roles.summed), roles.count(roles.batch)
        self._choose_columns()
        self._choose_depth()
        self._choose_rows()

    def _choose_columns(self) -> None:
        """Blocks of columns: pieces of the first of their letters."""
        roles, wide = self.roles, 2 * self.vector
        inner, first = roles.count(roles.columns[1:]), roles.size[roles.columns[0]]
        if self.open_columns:
            self._choose_open_columns(inner, first, wide)
            return
        block = _BLOCK
        while block > wide and self.batches * -(-self.columns // block) < 2 * self.machine.threads:
            block //= 2  # more tasks than threads: a thread that comes late delays the others less
        step = max(1, min(first, -(-block // inner)))
        blocks = self._even(-(-first // step), first)
        step = -(-first // blocks)
        if inner == 1 and blocks > 1:
            step = min(first, -(-step // wide) * wide)
        self.column_step, self.column_blocks = step, -(-first // step)
        self.block = step * inner
        self.pitch = -(-self.block // wide) * wide + _PAD
        self._choose_panels(wide)

    def _even(self, blocks: int, most: int) -> int:
        """So many blocks of columns or a few more, of which no thread gets much more than its
        part."""
        def part(count: int) -> float:
            return -(-self.batches * count // self.machine.threads) / count

        return min(range(blocks, max(blocks, min(most, blocks * 5 // 4)) + 1), key=part)

    def _choose_open_columns(self, inner: int, first: int, wide: int) -> None:
        """Blocks of a size that does not depend on how many columns there are."""
        self.column_step = max(1, _BLOCK // inner // wide) * wide
        self.column_blocks = -(-first // self.column_step)
        self.block = self.column_step * inner
        self.pitch = self.block + _PAD
        alone = len(self.roles.columns) == 1
        self.cut = self.roles.columns[0] if alone else None
        self.panel = wide if alone else self.pitch

    @property
    def column_count(self) -> Index:
        """How many blocks of columns there are."""
        first = self.roles.size[self.roles.columns[0]]
        if not self.open_columns:
            return as_index(self.column_blocks)
        return quotient(first, self.column_step - 1, self.column_step)

    def _choose_panels(self, wide: int) -> None:
        """How wide the panels are in which a block of columns lies, each of them one stream for the
        tiles that read it; and the letter that is cut into them. A block whose letters cannot be
        cut is a single panel."""
        long = [a for a in self.roles.columns if self.roles.size[a] > 1] or self.roles.columns
        whole = self.roles.size[long[-1]] % wide == 0
        self.cut = long[-1] if whole or long[-1] == self.roles.columns[0] else None
        self.panel = self.pitch if self.cut is None else wide

    def _choose_rows(self) -> None:
        """Tiles of rows, and shares of them where there would be too few tasks."""
        if self.machine.varies(self.rows):
            self.tile, self.share, self.shares = self.machine.tile_rows, self.rows, 1
            return
        self.tile = tile_rows(self.rows, self.machine.tile_rows)
        shares = 1
        while shares * self.batches * self.column_blocks < self.machine.threads and \
                self.rows // (shares * 2) >= 2 * self.tile:
            shares *= 2  # each share packs the columns anew: no more of them than threads
        self.share = -(-self.rows // shares // self.tile) * self.tile
        self.shares = -(-self.rows // self.share)

    def _choose_depth(self) -> None:
        """Blocks of the summed axes: pieces of the first of them."""
        summed = self.roles.summed
        first = self.roles.size[summed[0]]
        rest = self.roles.count(summed[1:])
        limit = 2 * _DEPTH if self.machine.most(self.depth) <= 2 * _DEPTH else _DEPTH
        self.depth_step = max(1, min(first, limit // rest))
        self.depth_blocks = -(-first // self.depth_step)
        if not self.machine.varies(first):
            self.depth_step = -(-first // self.depth_blocks)
        self.block_depth = self.depth_step * rest

    @property
    def depth_count(self) -> Index:
        """How many blocks of the summed axes there are."""
        first = self.roles.size[self.roles.summed[0]]
        if self.depth_blocks == 1 or not self.machine.varies(first):
            return as_index(self.depth_blocks)
        return quotient(first, self.depth_step - 1, self.depth_step)

    @property
    def tasks(self) -> int:
        return self.batches * self.column_blocks * self.shares

    # ---- memory

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The memory that a task needs for itself."""
        own = [] if self.kept_columns else [self.packed_columns]
        own += [] if self.shared or self.direct else [self.packed_rows]
        own += [self.sums] if self.depth_blocks > 1 else []
        return tuple(own)

    @property
    def kept_columns(self) -> bool:
        """Whether the columns are packed beforehand, all of them, as that need not be done in every
        call; where there are many rows, packing takes little of the time, but memory."""
        return self.kept[1 - self.roles.row_operand] and self.rows <= _MANY_ROWS

    @cached_property
    def packed_columns(self) -> Buffer:
        if not self.kept_columns:
            return Buffer("columns", self.packed, self.column_area, scratch=True)
        return Buffer(f"{self.name}_columns", self.packed, self.column_areas * self.column_area)

    @property
    def column_area(self) -> int:
        """How many elements a packed block of columns takes, for one block of the sums."""
        return -(-self.block // self.panel) * self.panel * self.block_depth

    @property
    def column_areas(self) -> int:
        """How many such blocks there are."""
        batches = self.roles.count(self.own_batch(1 - self.roles.row_operand))
        return batches * self.column_blocks * self.depth_blocks

    def place(self, k: Index, column: Index) -> Index:
        """Where an element of the block of columns is packed."""
        panel, lane = column // self.panel, column % self.panel
        return panel * (self.block_depth * self.panel) + k * self.panel + lane

    @cached_property
    def packed_rows(self) -> Buffer:
        return Buffer("rows", self.packed, self.row_area, scratch=True)

    @cached_property
    def shared(self) -> bool:
        """Whether many tasks use the same rows: they are packed once, by a kernel of its own."""
        if (self.open and self.row_batches > 1) or self.open_columns:
            return self.kept[self.roles.row_operand]
        repeats = self.batches // self.row_batches
        return repeats * self.column_blocks >= 4 or self.kept[self.roles.row_operand]

    @cached_property
    def shared_rows(self) -> Buffer:
        """The tiles of rows of every batch element, each `row_area` apart."""
        size = self.row_batches * -(-self.rows // self.tile) * self.row_area
        return Buffer(f"{self.name}_rows", self.packed, size)

    @property
    def open(self) -> bool:
        """Whether the number of rows is known at run time only."""
        return self.machine.varies(self.rows)

    @property
    def open_columns(self) -> bool:
        """Whether the number of columns is known at run time only."""
        return self.machine.varies(self.columns)

    @property
    def full_tiles(self) -> Index:
        """Tiles of rows that are all there, in one element of the batch."""
        return self._divided(0)

    @property
    def row_tiles(self) -> Index:
        """Tiles of rows in one element of the batch."""
        return self._divided(self.tile - 1)

    def _divided(self, more: int) -> Index:
        if not self.open:
            return as_index((self.rows + more) // self.tile)
        return quotient(self.rows, more, self.tile)

    def tile_of(self, number: Index) -> RowPlan:
        """A tile of rows that are all there."""
        return RowPlan(number, self.tile, number * self.tile)

    @property
    def pieces(self) -> list[int]:
        """How many rows there may be in what is computed behind the tiles, where that is open."""
        parts = [-(-(self.tile - 1) * part // 3) for part in (1, 2, 3)]
        return sorted({*parts} - {0}, reverse=True)

    def rest(self) -> RowPlan | None:
        """The rows behind the tiles, as they are packed."""
        left = self.rows % self.tile
        start = self.full_tiles * self.tile
        if self.open:
            rest = loop_ir.call("imod", (const(self.rows), const(self.tile)), INT)
            return RowPlan(self.full_tiles, self.tile, start, atom(rest, (0, self.tile - 1)))
        return RowPlan(self.full_tiles, left, start) if left else None

    def rest_rows(self) -> Iterator[tuple[RowPlan, Expr]]:
        """The rows behind the tiles, as they are computed: in a piece that has room for them; and
        whether it is that piece."""
        rest = self.rest()
        if rest is None or rest.left is None:
            yield from [] if rest is None else [(rest, const(1, BOOL))]
            return
        for size, smaller in zip(self.pieces, [*self.pieces[1:], 0]):
            there = loop_ir.call("and", (
                loop_ir.call("gt", (rest.left.expr(), const(smaller)), BOOL),
                loop_ir.call("le", (rest.left.expr(), const(size)), BOOL)), BOOL)
            yield replace(rest, count=size), there

    @property
    def row_area(self) -> int:
        """How many elements a packed tile of rows takes."""
        return self.tile * self.row_pitch if self.side_by_side else self.row_pitch

    @property
    def row_pitch(self) -> int:
        """How many elements there are from one packed row to the next, or in all of a tile."""
        depth = self.depth if self.shared else self.block_depth
        size = depth if self.side_by_side else self.tile * depth
        return size + (0 if self.machine.varies(depth) else _PAD)

    def row_place(self, k: Index, row: Index) -> Index:
        """Where an element of a tile of rows is packed."""
        return row * self.row_pitch + k if self.side_by_side else k * self.tile + row

    def own_batch(self, operand: int) -> list[str]:
        """The batch letters that an operand has."""
        return [a for a in self.roles.batch if a in self.letters[operand]]

    @property
    def row_letters(self) -> list[str]:
        """The batch letters that the rows' operand has."""
        return self.own_batch(self.roles.row_operand)

    @property
    def row_batches(self) -> int:
        return self.roles.count(self.row_letters)

    @cached_property
    def sums(self) -> Buffer:
        rows = -(-self.share // self.tile) * self.tile  # those that are not there have sums as well
        return Buffer("sums", self.dtype, rows * self.pitch, scratch=True)


def quotient(number: int, more: int, divisor: int) -> Index:
    """(number + more) // divisor as an expression, for a number known at run time only."""
    total = loop_ir.call("add", (const(number), const(more)), INT) if more else const(number)
    return atom(loop_ir.call("idiv", (total, const(divisor)), INT), (0, (number + more) // divisor))


def divided(number: Index, count: Index) -> tuple[Index, Index]:
    """A number's quotient and remainder by a count that may be known at run time only."""
    if not count.terms:
        return number // count.const, number % count.const
    high = number.range()[1]
    parts = [atom(loop_ir.call(op, (number.expr(), count.expr()), INT), (0, high))
             for op in ("idiv", "imod")]
    return parts[0], parts[1]


def tile_rows(rows: int, most: int) -> int:
    """How many rows a tile has, of which the last has what is left over."""
    def time(tile: int) -> float:
        whole, rest = divmod(rows, tile)
        return whole * (tile + _READING) + (max(rest, _LATENCY) + _READING if rest else 0)

    return rows if rows <= most else min(range(most, most // 2, -1), key=time)
