"""Whether a group is computed by tiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from .conv import ConvKernel
from .convolution import Convolution, conv_roles_of
from .weight_gradient import WeightGradient


def winograd_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str,
                     kept: Collection[Buffer] = ()) -> list[Kernel] | None:
    """The kernels of a group that begins with a convolution of 3 by 3, where tiles are worth
    while; None for all others. `kept`: what mostly is the same in every call of the program."""
    node = group.members[0]
    if group.kind != "contract" or not machine.winograd or machine.open or machine.lanes() < 4 \
            or node.type.dtype != np.float32:
        return None
    for operand in (0, 1):
        found = conv_roles_of(node, operand)
        if found is not None:
            of = Convolution(group, buffers, machine, name, operand, found[0], kept)
            return (WeightGradient
                    if found[1] else ConvKernel)(of).kernels() if of.is_worth() else None
    return None
