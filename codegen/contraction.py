"""The sizes of a contraction's loops: what each letter does, blocks, tiles, buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..capture.graph import Node
from ..eager.ops.contract import parts
from ..eager.shapes import product
from .fuse import Group
from .loops import Buffer
from .machine import Machine

_BLOCK = 128  # columns of a block
_DEPTH = 512  # summed elements of a block
_PAD = 16  # keeps rows of packed blocks out of the same cache sets


@dataclass
class Roles:
    """The letters of a contraction by what they do, and which operand has the columns."""

    batch: list[str]
    rows: list[str]
    columns: list[str]
    summed: list[str]
    row_operand: int
    size: dict[str, int]

    def count(self, letters: list[str]) -> int:
        return int(product(self.size[letter] for letter in letters))


def roles_of(node: Node, lanes: int, row_operand: int) -> Roles:
    """The letters' roles with this operand as rows. Of the other operand's letters all but as many
    as fill two vectors count as batch: the rows are multiplied with each of them anew."""
    names = parts(node.params["spec"])
    size = {a: n for letters, i in zip(names, node.inputs) for a, n in zip(letters, i.type.shape)}
    mine, other, out = names[row_operand], names[1 - row_operand], names[2]
    batch = [a for a in out if a in mine and a in other]
    columns = [a for a in out if a in other and a not in mine]
    roles = Roles(batch, [a for a in out if a in mine and a not in other], columns,
                  [a for a in names[0] if a not in out], row_operand, size)
    while len(columns) > 1 and roles.count(columns[1:]) >= 2 * lanes:
        batch.append(columns.pop(0))
    return roles


class Contraction:
    """The loops of one contraction group."""

    def __init__(
        self, group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
        row_operand: int,
    ) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node = group.members[0]
        self.dtype = self.node.type.dtype
        self.vector = machine.lanes(self.dtype.itemsize)
        self.roles = roles_of(self.node, self.vector, row_operand)
        self.letters = parts(self.node.params["spec"])
        self._choose_blocks()

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
        block = _BLOCK
        while block > wide and self.batches * -(-self.columns // block) < 2 * self.machine.threads:
            block //= 2  # more tasks than threads: a thread that comes late delays the others less
        step = max(1, min(first, -(-block // inner)))
        blocks = -(-first // step)
        step = -(-first // blocks)
        if inner == 1 and blocks > 1:
            step = min(first, -(-step // wide) * wide)
        self.column_step, self.column_blocks = step, -(-first // step)
        self.block = step * inner
        self.pitch = -(-self.block // wide) * wide + _PAD

    def _choose_rows(self) -> None:
        """Tiles of rows, and shares of them where there would be too few tasks."""
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
        limit = 2 * _DEPTH if self.depth <= 2 * _DEPTH else _DEPTH
        self.depth_step = max(1, min(first, limit // rest))
        self.depth_blocks = -(-first // self.depth_step)
        self.depth_step = -(-first // self.depth_blocks)
        self.block_depth = self.depth_step * rest

    @property
    def tasks(self) -> int:
        return self.batches * self.column_blocks * self.shares

    # ---- memory

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The memory that a task needs for itself."""
        own = [self.packed_columns]
        own += [] if self.shared else [self.packed_rows]
        own += [self.sums] if self.depth_blocks > 1 else []
        return tuple(own)

    @cached_property
    def packed_columns(self) -> Buffer:
        return Buffer("columns", self.dtype, self.block_depth * self.pitch, scratch=True)

    @cached_property
    def packed_rows(self) -> Buffer:
        return Buffer("rows", self.dtype, self.tile * self.row_pitch, scratch=True)

    @cached_property
    def shared(self) -> bool:
        """Whether many tasks use the same rows: they are packed once, by a kernel of its own."""
        own = set(self.letters[self.roles.row_operand])
        repeats = self.roles.count([a for a in self.roles.batch if a not in own])
        return repeats * self.column_blocks >= 4 and self.depth_blocks == 1

    @cached_property
    def shared_rows(self) -> Buffer:
        """The rows of every batch element, each `row_pitch` apart."""
        size = self.row_batches * self.rows * self.row_pitch
        return Buffer(f"{self.name}_rows", self.dtype, size)

    @property
    def row_pitch(self) -> int:
        return self.block_depth + _PAD

    @property
    def row_letters(self) -> list[str]:
        """The batch letters that the rows' operand has."""
        own = self.letters[self.roles.row_operand]
        return [a for a in self.roles.batch if a in own]

    @property
    def row_batches(self) -> int:
        return self.roles.count(self.row_letters)

    @cached_property
    def sums(self) -> Buffer:
        return Buffer("sums", self.dtype, self.share * self.pitch, scratch=True)


def tile_rows(rows: int, most: int) -> int:
    """How many rows a tile has: a divisor of `rows`, if one is not much smaller than `most`."""
    if rows <= most:
        return rows
    divisors = [t for t in range(most, most // 2, -1) if rows % t == 0]
    return divisors[0] if divisors else most
