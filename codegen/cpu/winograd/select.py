"""Selects the convolutions that are computed by Winograd tiles: by dtype, sizes and channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Kernel, KernelBuffer
from ...ir.sizes import upper_bound
from ...ir.target_info import Machine
from .conv_kernel import ConvKernel
from .convolution import Convolution, conv_roles_of
from .matrices import KERNEL
from .weight_gradient import WeightGradient

_MIN_CHANNELS = 16  # with fewer on either side, transforming tiles costs more than it saves
_MIN_TILES = 16  # with fewer, reading the weights, four times as many, does not pay
_MIN_MULTIPLICATION_RATIO = 1.5  # direct per tile multiplication; less does not pay


def winograd_kernels(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                     name: str,
                     persistent: Collection[KernelBuffer] = ()) -> list[Kernel] | None:
    """The kernels of a group that begins with a 3 by 3 convolution, or None where tiles do not pay.

    `persistent`: buffers that are usually the same in every call of the program."""
    node = group.members[0]
    if (
        group.kind != "contract"
        or not machine.winograd
        or machine.lanes() < 4
        or node.type.dtype != np.float32
    ):
        return None
    for operand in (0, 1):
        matched = conv_roles_of(node, operand)
        if matched is not None:
            convolution = Convolution(
                group, buffers, machine, name, operand, matched[0], persistent
            )
            lowering = WeightGradient if matched[1] else ConvKernel
            return lowering(convolution).kernels() if _is_worth(convolution) else None
    return None


def _is_worth(conv: Convolution) -> bool:
    """True if tiles are wanted, and transforming them costs less than it saves."""
    if conv.is_dynamic or not conv.tile_results:
        return False
    images, rows, columns = conv.tile_counts
    direct = KERNEL ** 2 * conv.space[0] * conv.space[1]
    by_tiles = conv.transforms.side ** 2 * rows * columns
    return (
        min(conv.channels, conv.filters) >= _MIN_CHANNELS
        and direct >= _MIN_MULTIPLICATION_RATIO * by_tiles
        and upper_bound(images) * rows * columns >= _MIN_TILES
    )
