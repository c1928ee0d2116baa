"""Which attentions there are kernels for on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....eager.arrays.dtypes import is_small
from ...cpu.attention.shape import AttentionShape
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from .backward import AttentionBackward, tile_of_back
from .forward import AttentionForward, tile_of
from .tiles import Tile

_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


class _KernelChoice(NamedTuple):
    """How the kernels of an op are made."""

    before: int  # inputs before query, key and value
    tile: Callable[[AttentionShape], Tile | None]  # None where no tile fits
    make: type[AttentionForward] | type[AttentionBackward]


_WAYS: Mapping[str, _KernelChoice] = {"attention": _KernelChoice(0, tile_of, AttentionForward),
                                      "attention_back": _KernelChoice(2, tile_of_back,
                                                                      AttentionBackward)}


def has_kernel(node: Node, machine: Machine) -> bool:
    """Whether a composite becomes kernels of its own; it is opened if not."""
    if node.op not in _WAYS or machine.dynamic_sizes:
        return False
    way = _WAYS[node.op]
    behind = way.before + 3
    if any(n.type.dtype != _FLOAT for n in node.inputs[:behind]) or not all(
            n.type.dtype in (_FLOAT, _BOOL) or is_small(n.type.dtype)
            for n in node.inputs[behind:]):
        return False
    heads = AttentionShape(node, way.before, {}, machine, "")
    if 0 in (heads.heads, heads.queries, heads.keys, heads.width, heads.values):
        return False
    return way.tile(heads) is not None


def attention_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                      ) -> list[Kernel]:
    """The kernels of a node that has some."""
    (node,) = group.members
    way = _WAYS[node.op]
    return way.make(AttentionShape(node, way.before, buffers, machine, name)).kernels()
