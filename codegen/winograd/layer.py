"""Which convolutions are computed by tiles, and the sizes of their blocks and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...capture.graph import Node
from ...eager.ops.contract import parts
from ..contraction import tile_rows
from ..fuse import Group
from ..index import Index
from ..inline import Indices, Inliner, load
from ..loops import Buffer
from ..machine import Machine
from ..values import Value
from .matrices import KERNEL, Transforms, transforms

_CHANNELS = 16  # fewer on either side: transforming tiles takes longer than it spares
_TILES = 16  # fewer: weights are read for so little, and are four times as many
_WORTH = 1.5  # multiplications spared by less than that pay for no transform
_BLOCK = 32  # tiles of a block, whose transformed data stays in the second cache
_BLOCKS = 4  # for each thread, fewer: tiles are transformed by a kernel of their own
_LINE = 16  # float32 in a cache line


@dataclass(frozen=True)
class Roles:
    """The letters of a convolution by what they count; (y, x) where there are two."""

    images: str
    channels: str
    filters: str
    space: tuple[str, str]
    kernel: tuple[str, str]


class Layer:
    """The sizes of one convolution, and how its operands are read."""

    def __init__(self, group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str,
                 operand: int, roles: Roles) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node, self.operand, self.roles = group.members[0], operand, roles
        self.letters = parts(self.node.params["spec"])
        self.dtype, self.vector = self.node.type.dtype, machine.lanes()
        self.panel = 2 * self.vector  # filters that are computed side by side
        self.transforms: Transforms = transforms(machine.winograd)
        window = self.node.inputs[operand]
        self.source = window.inputs[0]
        self.pad: tuple[int, int] = window.params["pad"]
        self.space = self.source.type.shape[-2], self.source.type.shape[-1]
        size = {a: n for names, i in zip(self.letters, self.node.inputs)
                for a, n in zip(names, i.type.shape)}
        self.images, self.channels = size[roles.images], size[roles.channels]
        self.filters = size[roles.filters]
        self.out = size[roles.space[0]], size[roles.space[1]]

    @property
    def points(self) -> int:
        """The elements of a transformed tile, each the place of one product of matrices."""
        return self.transforms.side ** 2

    @cached_property
    def tiles(self) -> tuple[int, int]:
        """How many tiles cover an image's results."""
        m = self.transforms.results
        return -(-self.out[0] // m), -(-self.out[1] // m)

    @property
    def all_tiles(self) -> int:
        return self.images * self.tiles[0] * self.tiles[1]

    def is_worth(self) -> bool:
        """Whether transforming tiles takes less than it spares."""
        direct = KERNEL ** 2 * self.out[0] * self.out[1]
        here = self.points * self.tiles[0] * self.tiles[1]
        return min(self.channels, self.filters) >= _CHANNELS and direct >= _WORTH * here \
            and self.all_tiles >= _TILES

    # ---- blocks of tiles
    @cached_property
    def block(self) -> tuple[int, int, int]:
        """A block: of so many images, rows of tiles, and tiles of a row."""
        rows, columns = self.tiles
        if columns > _BLOCK:
            return 1, 1, _even(columns, _BLOCK)
        if rows * columns > _BLOCK:
            return 1, _even(rows, max(1, _BLOCK // columns)), columns
        return _even(self.images, max(1, _BLOCK // (rows * columns))), rows, columns

    @cached_property
    def blocks(self) -> tuple[int, int, int]:
        """How many blocks there are, along the same axes."""
        images, rows, columns = self.block
        return -(-self.images // images), -(-self.tiles[0] // rows), -(-self.tiles[1] // columns)

    @property
    def block_count(self) -> int:
        a, b, c = self.blocks
        return a * b * c

    @property
    def block_tiles(self) -> int:
        """The tiles of a block."""
        a, b, c = self.block
        return a * b * c

    @cached_property
    def staged(self) -> tuple[int, int]:
        """The rows and columns of an image that a block reads."""
        m = self.transforms.results
        height, width = (n * m + KERNEL - 1 for n in self.block[1:])
        return min(self.space[0], height), min(self.space[1], width)

    @property
    def at_once(self) -> bool:
        """Whether a task transforms the tiles that it multiplies."""
        return self.block_count >= _BLOCKS * self.machine.threads

    @cached_property
    def panels(self) -> int:
        return -(-self.filters // self.panel)

    @cached_property
    def tile_rows(self) -> int:
        """How many tiles' sums stay in registers."""
        return tile_rows(self.block_tiles, self.machine.tile_rows)

    # ---- memory
    @cached_property
    def weights(self) -> Buffer:
        """[panel][point][channel][filter of the panel]"""
        return Buffer(f"{self.name}_weights", self.dtype,
                      self.panels * self.points * self.channels * self.panel)

    def weight_place(self, panel: Index, point: Index | int, channel: Index | int) -> Index:
        """Where a panel's weights of one point and one channel begin."""
        return ((panel * self.points + point) * self.channels + channel) * self.panel

    @property
    def pitch(self) -> int:
        """Elements from one transformed tile to the next of the same point."""
        return -(-self.channels // _LINE) * _LINE + _LINE

    @property
    def point_pitch(self) -> int:
        """Elements from one point to the next: an odd number of lines, so that what is written for
        all points at once falls into many sets of the caches."""
        lines = self.block_tiles * self.pitch // _LINE
        return (lines | 1) * _LINE

    @property
    def block_size(self) -> int:
        """The elements of a block of transformed tiles."""
        return self.points * self.point_pitch

    @cached_property
    def data(self) -> Buffer:
        """[block][point][tile][channel], or that of one block."""
        if self.at_once:
            return Buffer("data", self.dtype, self.block_size, scratch=True)
        return Buffer(f"{self.name}_data", self.dtype, self.block_count * self.block_size)

    # ---- operands
    def image(self, image: Index, channel: Index, y: Index, x: Index) -> Value:
        """An element of the images."""
        roles = self.roles
        where = {roles.images: image, roles.channels: channel}
        lead = self.letters[self.operand][:2]
        return self._element(self.source, (*(where[a] for a in lead), y, x))

    def weight(self, of: Mapping[str, Index]) -> Value:
        """An element of the weights."""
        number = 1 - self.operand
        return self._element(self.node.inputs[number],
                             tuple(of[a] for a in self.letters[number]))

    def _element(self, node: Node, index: Indices) -> Value:
        return Inliner(self.leaf).value(node, index)

    def leaf(self, node: Node, index: Indices, mask: Any) -> Value | None:
        """An element of what lies in memory."""
        if node in self.buffers and node not in self.group.members:
            return load(self.buffers[node], node.type, index, mask)
        return None

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n.site for n in self.group.members if n.site))

    def nanoseconds(self, share: float = 1.0) -> float:
        """Roughly the time of all products on one core, or a share of it."""
        products = 2.0 * self.points * self.all_tiles * self.channels * self.filters
        return share * products / (10 * self.vector) * 1.3


def _even(count: int, most: int) -> int:
    """How large parts of nearly equal size are, of which none is larger than `most`."""
    return -(-count // -(-count // most))


def layer_of(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
             ) -> Layer | None:
    """The layer of a group that begins with a convolution, if it is to be computed by tiles."""
    node = group.members[0]
    if machine.winograd == 0 or machine.open or machine.lanes() < 4 \
            or node.type.dtype != np.float32:
        return None
    for operand in (0, 1):
        roles = _roles(node, operand)
        if roles is not None:
            layer = Layer(group, buffers, machine, name, operand, roles)
            return layer if layer.is_worth() else None
    return None


def _roles(node: Node, operand: int) -> Roles | None:
    """The roles of the letters where this operand is windows of 3 by 3 at every place, and the
    other one weights."""
    windows = node.inputs[operand]
    if windows.op != "window" or not _is_plain(windows.params) or windows.type.dtype != \
            node.type.dtype:
        return None
    names = parts(node.params["spec"])
    own, other, out = names[operand], names[1 - operand], names[2]
    lead, space, kernel = own[:-4], own[-4:-2], own[-2:]
    images = [a for a in lead if a in out and a not in other]
    channels = [a for a in lead if a in other and a not in out]
    filters = [a for a in other if a in out and a not in own]
    if not len(images) == len(channels) == len(filters) == 1 or len(lead) != 2:
        return None
    if set(other) != {*channels, *filters, *kernel} or set(out) != {*images, *filters, *space}:
        return None
    return Roles(images[0], channels[0], filters[0], (space[0], space[1]), (kernel[0], kernel[1]))


def _is_plain(params: Mapping[str, Any]) -> bool:
    ones = (1, 1)
    return tuple(params["kernel"]) == (KERNEL, KERNEL) and params["fill"] == 0 and all(
        tuple(params[name]) == ones for name in ("stride", "dilation", "spread"))
