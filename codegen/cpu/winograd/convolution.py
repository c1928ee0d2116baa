"""Which contractions are convolutions with 3 by 3 weights at every place, and their gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ....capture.graph.graph import Node
from ....eager.ops.products.contract import parts
from ...fusion.fusion import Group
from ...ir.affine_index import Index
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, in_memory, stores_of
from ...ir.loop_ir import Buffer, Expr, Stmt
from ...ir.target_info import Machine
from ..gemm.plan import is_persistent
from ..partition_work import sites_of
from .matrices import KERNEL, Transforms, transforms
from .tile_grid import tiles_of

_CHANNELS = 16  # fewer on either side: transforming tiles takes longer than it spares
_TILES = 16  # fewer: weights are read for so little, and are four times as many
_WORTH = 1.5  # multiplications spared by less than that pay for no transform


Pair = tuple[str, str]


@dataclass(frozen=True)
class ConvRoles:
    """The letters of a convolution by what they count; (y, x) where there are two."""

    images: str
    channels: str
    filters: str
    space: Pair
    kernel: Pair


class Convolution:
    """A contraction of windows of 3 by 3, one at every place, with weights or with what they gave;
    and how its operands are read."""

    def __init__(self, group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str,
                 operand: int, roles: ConvRoles, kept: Collection[Buffer]) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node, self.operand, self.roles = group.members[0], operand, roles
        self.letters = parts(self.node.params["spec"])
        self.dtype = self.node.type.dtype
        self.kept = is_persistent(self.node.inputs[1 - operand], buffers, kept)  # the weights
        window = self.node.inputs[operand]
        self.source = window.inputs[0]
        self.pad: tuple[int, int] = tuple(window.params["pad"])
        size = {a: n for names, i in zip(self.letters, self.node.inputs)
                for a, n in zip(names, i.type.shape)}
        self.images, self.channels = size[roles.images], size[roles.channels]
        self.filters = size[roles.filters]
        self.space = size[roles.space[0]], size[roles.space[1]]  # of the results of the convolution

    @cached_property
    def results(self) -> int:
        """The results along a side of a tile; 0 where tiles are not wanted.

        In training, results decide on which side of a relu they are, or which is the maximum, and
        with that on gradients: they are as exact as directly there, by smaller tiles. Gradients
        decide nothing."""
        machine, number = self.machine, 1 - self.operand
        is_result = self.letters[number][0] == self.roles.filters
        if is_result and (machine.trains or not self.kept):
            return min(machine.winograd, machine.winograd_training)
        return machine.winograd

    @cached_property
    def transforms(self) -> Transforms:
        """The transforms of its tiles."""
        return transforms(self.results)

    @property
    def source_space(self) -> tuple[int, int]:
        """Rows and columns of the images of which there are windows."""
        shape = self.source.type.shape
        return shape[-2], shape[-1]

    @cached_property
    def whole(self) -> tuple[int, int, int]:
        """Images, rows of tiles, and tiles of a row."""
        return (self.images, *tiles_of(self.space, self.transforms.results))

    def is_worth(self) -> bool:
        """Whether transforming tiles is wanted, and takes less than it spares."""
        if not self.results:
            return False
        images, rows, columns = self.whole
        direct = KERNEL ** 2 * self.space[0] * self.space[1]
        here = self.transforms.side ** 2 * rows * columns
        return min(self.channels, self.filters) >= _CHANNELS and direct >= _WORTH * here \
            and images * rows * columns >= _TILES

    # ---- operands
    def image(self, image: Index, channel: Index, y: Index, x: Index) -> ExprValue:
        """An element of the images of which there are windows."""
        roles = self.roles
        where = {roles.images: image, roles.channels: channel}
        lead = self.letters[self.operand][:2]
        return Inliner(self.leaf).value(self.source, (*(where[a] for a in lead), y, x))

    def other(self, **where: Index) -> ExprValue:
        """An element of the other operand, by the names of `Roles`; y and x of its axes of space or
        of the weights."""
        roles = self.roles
        of = {roles.images: where.get("images"), roles.filters: where["filters"],
              roles.channels: where.get("channels")}
        for pair in (roles.space, roles.kernel):
            of |= dict(zip(pair, (where["y"], where["x"])))
        number = 1 - self.operand
        index = tuple(of[a] for a in self.letters[number])
        return Inliner(self.leaf).value(self.node.inputs[number], index)

    def leaf(self, node: Node, index: Indices, mask: Any) -> ExprValue | None:
        """An element of what lies in memory."""
        return in_memory(self.buffers, self.group.members)(node, index, mask)

    # ---- epilogue
    def stores(self, where: Mapping[str, Index], total: Expr) -> list[Stmt]:
        """Stores of the group's members at one element of the result, letter by letter, from the
        sum there."""
        index = tuple(where[a] for a in self.letters[2])
        return stores_of(self.group.members, self.buffers, index, ExprValue(total), self.leaf)

    @property
    def sites(self) -> tuple[str, ...]:
        return sites_of(self.group.members)

    @property
    def nanoseconds(self) -> float:
        """Roughly the time of all products on one core."""
        images, rows, columns = self.whole
        tiles = self.transforms.side ** 2 * images * rows * columns
        products = float(tiles * self.channels * self.filters)
        return 2.6 * products / (10 * self.machine.lanes())


def conv_roles_of(node: Node, operand: int) -> tuple[ConvRoles, bool] | None:
    """The roles of the letters where this operand is windows of 3 by 3 at every place, and whether
    the other one is what the convolution gave, not weights."""
    windows = node.inputs[operand]
    if windows.op != "window" or not _is_plain(windows.params):
        return None
    names = parts(node.params["spec"])
    own, other, out = names[operand], names[1 - operand], names[2]
    lead, space, kernel = own[:-4], own[-4:-2], own[-2:]
    filters = [a for a in other if a in out and a not in own]
    if len(lead) != 2 or len(filters) != 1:
        return None
    for images, channels in ((lead[0], lead[1]), (lead[1], lead[0])):
        roles = ConvRoles(images, channels, filters[0], (space[0], space[1]),
                          (kernel[0], kernel[1]))
        weights, results = {channels, *filters, *kernel}, {images, *filters, *space}
        if (set(other), set(out)) == (weights, results):
            return roles, False
        if (set(other), set(out)) == (results, weights):
            return roles, True
    return None


def _is_plain(params: Mapping[str, Any]) -> bool:
    ones = (1, 1)
    return tuple(params["kernel"]) == (KERNEL, KERNEL) and params["fill"] == 0 and all(
        tuple(params[name]) == ones for name in ("stride", "dilation", "spread"))
