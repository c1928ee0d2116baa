"""Recognizes contractions that are 3 by 3 convolutions of stride 1, or their weight gradients."""

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
from ...ir.inline import Indices, Inliner, memory_reader, stores_of
from ...ir.loop_ir import Expr, KernelBuffer, Stmt
from ...ir.sizes import is_dynamic, upper_bound
from ...ir.target_info import Machine
from ..gemm.plan import is_persistent
from ..partition_work import sites_of
from .matrices import KERNEL, Transforms, transforms
from .tile_grid import tiles_of

Pair = tuple[str, str]


@dataclass(frozen=True)
class ConvRoles:
    """The labels of a convolution by role; (y, x) where there are two."""

    images: str
    channels: str
    filters: str
    space: Pair
    kernel: Pair


class Convolution:
    """A contraction of 3 by 3 windows with weights, or with result gradients, and access to its
    operands."""

    def __init__(self, group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                 name: str,
                 operand: int, roles: ConvRoles, persistent: Collection[KernelBuffer]) -> None:
        self.group, self.buffers, self.machine, self.name = group, buffers, machine, name
        self.node, self.operand, self.roles = group.members[0], operand, roles
        self.labels = parts(self.node.params["spec"])
        self.dtype = self.node.type.dtype
        self.persistent_weights = is_persistent(self.node.inputs[1 - operand], buffers,
                                                persistent)  # of the weights
        window = self.node.inputs[operand]
        self.source = window.inputs[0]
        self.pad: tuple[int, int] = tuple(window.params["pad"])
        size = {a: n for names, i in zip(self.labels, self.node.inputs)
                for a, n in zip(names, i.type.shape)}
        self.images, self.channels = size[roles.images], size[roles.channels]
        self.filters = size[roles.filters]
        self.space = size[roles.space[0]], size[roles.space[1]]  # of the results of the convolution

    @cached_property
    def tile_results(self) -> int:
        """The results along a side of a tile; 0 where tiles are not wanted.

        In training, results decide on which side of a relu they are, or which one is the maximum,
        and so decide gradients. They are made as exact as a direct convolution by smaller tiles.
        Gradients decide nothing."""
        machine, operand = self.machine, 1 - self.operand
        is_forward = self.labels[operand][0] == self.roles.filters
        if is_forward and (machine.training or not self.persistent_weights):
            return min(machine.winograd, machine.winograd_training)
        return machine.winograd

    @cached_property
    def transforms(self) -> Transforms:
        """The transforms of the tiles."""
        return transforms(self.tile_results)

    @property
    def is_dynamic(self) -> bool:
        """True if other sizes than the number of images are known at run time only."""
        return any(map(is_dynamic, (self.channels, self.filters, *self.space, *self.source_space)))

    @property
    def source_space(self) -> tuple[int, int]:
        """Rows and columns of the images that the windows are taken from."""
        shape = self.source.type.shape
        return shape[-2], shape[-1]

    @cached_property
    def tile_counts(self) -> tuple[int, int, int]:
        """(images, rows of tiles, tiles of a row)."""
        return (self.images, *tiles_of(self.space, self.transforms.results))

    # ---- operands
    def image(self, image: Index, channel: Index, y: Index, x: Index) -> ExprValue:
        """An element of the images that the windows are taken from."""
        roles = self.roles
        where = {roles.images: image, roles.channels: channel}
        lead = self.labels[self.operand][:2]
        return Inliner(self.read).value(self.source, (*(where[a] for a in lead), y, x))

    def other_operand(self, **where: Index) -> ExprValue:
        """An element of the other operand, by the names of `ConvRoles`; y and x are in space or in
        the weights."""
        roles = self.roles
        indices = {roles.images: where.get("images"), roles.filters: where["filters"],
                   roles.channels: where.get("channels")}
        for pair in (roles.space, roles.kernel):
            indices |= dict(zip(pair, (where["y"], where["x"])))
        number = 1 - self.operand
        index = tuple(indices[a] for a in self.labels[number])
        return Inliner(self.read).value(self.node.inputs[number], index)

    def read(self, node: Node, index: Indices, mask: Any) -> ExprValue | None:
        """Reads an element in memory, or returns None."""
        return memory_reader(self.buffers, self.group.members)(node, index, mask)

    # ---- epilogue
    def stores(self, where: Mapping[str, Index], total: Expr) -> list[Stmt]:
        """Stores of the group's members at one element of the result, given its sum."""
        index = tuple(where[a] for a in self.labels[2])
        return stores_of(self.group.members, self.buffers, index, ExprValue(total), self.read)

    @property
    def sites(self) -> tuple[str, ...]:
        return sites_of(self.group.members)

    @property
    def nanoseconds(self) -> float:
        """The approximate time of all products on one core."""
        images, rows, columns = self.tile_counts
        tiles = self.transforms.side ** 2 * upper_bound(images) * rows * columns
        products = float(tiles * self.channels * self.filters)
        return 2.6 * products / (10 * self.machine.lanes())


def conv_roles_of(node: Node, operand: int) -> tuple[ConvRoles, bool] | None:
    """The roles of the labels if this operand is 3 by 3 windows at every position, or None.

    The second value is True if the other operand is the gradient of the results, not the weights.
    """
    windows = node.inputs[operand]
    if windows.op != "window" or not _is_plain(windows.params):
        return None
    labels = parts(node.params["spec"])
    window_labels, other_labels, result_labels = labels[operand], labels[1 - operand], labels[2]
    lead, space, kernel = window_labels[:-4], window_labels[-4:-2], window_labels[-2:]
    filters = [a for a in other_labels if a in result_labels and a not in window_labels]
    if len(lead) != 2 or len(filters) != 1:
        return None
    for images, channels in ((lead[0], lead[1]), (lead[1], lead[0])):
        roles = ConvRoles(images, channels, filters[0], (space[0], space[1]),
                          (kernel[0], kernel[1]))
        weights, results = {channels, *filters, *kernel}, {images, *filters, *space}
        if (set(other_labels), set(result_labels)) == (weights, results):
            return roles, False
        if (set(other_labels), set(result_labels)) == (results, weights):
            return roles, True
    return None


def _is_plain(params: Mapping[str, Any]) -> bool:
    ones = (1, 1)
    return tuple(params["kernel"]) == (KERNEL, KERNEL) and params["fill"] == 0 and all(
        tuple(params[name]) == ones for name in ("stride", "dilation", "spread"))
