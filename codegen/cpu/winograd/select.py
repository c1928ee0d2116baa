"""Selects the contractions that are computed by Winograd tiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from .conv_kernel import ConvKernel
from .convolution import Convolution, conv_roles_of
from .weight_gradient import WeightGradient


def winograd_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str,
                     persistent: Collection[Buffer] = ()) -> list[Kernel] | None:
    """The kernels of a group that begins with a 3 by 3 convolution, or None where tiles do not pay.

    `persistent`: buffers that are usually the same in every call of the program."""
    node = group.members[0]
    if (
        group.kind != "contract"
        or not machine.winograd
        or machine.dynamic_sizes
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
            return lowering(convolution).kernels() if convolution.is_worth() else None
    return None
