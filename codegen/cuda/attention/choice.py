"""Which attentions there are kernels for on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....capture.graph import Node
from ...attention.heads import Heads
from ...fuse import Group
from ...loops import Buffer, Kernel
from ...machine import Machine
from .forward import Forward, tile_of

_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


def has_kernel(node: Node, machine: Machine) -> bool:
    """Whether a composite becomes kernels of its own; it is opened if not."""
    if node.op != "attention" or machine.open:
        return False
    if any(n.type.dtype != _FLOAT for n in node.inputs[:3]) or any(
            n.type.dtype not in (_FLOAT, _BOOL) for n in node.inputs[3:]):
        return False
    heads = Heads(node, 0, {}, machine, "")
    if 0 in (heads.heads, heads.queries, heads.keys, heads.width, heads.values):
        return False
    return tile_of(heads) is not None


def attention_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                      ) -> list[Kernel]:
    """The kernels of a node that has some."""
    (node,) = group.members
    return Forward(Heads(node, 0, buffers, machine, name)).kernels()
