"""Which attentions there are kernels for on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....eager.dtypes import is_small
from ...cpu.attention.shape import Heads
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from .backward import Back, tile_of_back
from .forward import Forward, tile_of
from .tiles import Tile

_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


class _Way(NamedTuple):
    """How the kernels of an op are made."""

    before: int  # inputs before query, key and value
    tile: Callable[[Heads], Tile | None]  # None where no tile fits
    make: type[Forward] | type[Back]


_WAYS: Mapping[str, _Way] = {"attention": _Way(0, tile_of, Forward),
                             "attention_back": _Way(2, tile_of_back, Back)}


def has_kernel(node: Node, machine: Machine) -> bool:
    """Whether a composite becomes kernels of its own; it is opened if not."""
    if node.op not in _WAYS or machine.open:
        return False
    way = _WAYS[node.op]
    behind = way.before + 3
    if any(n.type.dtype != _FLOAT for n in node.inputs[:behind]) or not all(
            n.type.dtype in (_FLOAT, _BOOL) or is_small(n.type.dtype)
            for n in node.inputs[behind:]):
        return False
    heads = Heads(node, way.before, {}, machine, "")
    if 0 in (heads.heads, heads.queries, heads.keys, heads.width, heads.values):
        return False
    return way.tile(heads) is not None


def attention_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                      ) -> list[Kernel]:
    """The kernels of a node that has some."""
    (node,) = group.members
    way = _WAYS[node.op]
    return way.make(Heads(node, way.before, buffers, machine, name)).kernels()
