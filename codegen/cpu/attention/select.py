"""Which attentions there are kernels for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ...fusion.fusion import Group
from ...ir.loop_ir import Buffer, Kernel
from ...ir.target_info import Machine
from .backward import AttentionBackward
from .forward import AttentionForward
from .shape import AttentionShape

_ON_STACK = 1 << 19  # elements of a task's own memory, at most
_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


class _KernelChoice(NamedTuple):
    """How the kernel of an op is made."""

    before: int  # inputs before query, key and value
    make: type[AttentionForward] | type[AttentionBackward]


_WAYS: Mapping[str, _KernelChoice] = {"attention": _KernelChoice(0, AttentionForward),
                                      "attention_back": _KernelChoice(2, AttentionBackward)}


def has_kernel(node: Node, machine: Machine) -> bool:
    """Whether a composite becomes a kernel of its own; it is opened if not."""
    if node.op not in _WAYS or machine.open:
        return False
    way = _WAYS[node.op]
    behind = way.before + 3
    if any(n.type.dtype != _FLOAT for n in node.inputs[:behind]) or any(
            n.type.dtype not in (_FLOAT, _BOOL) for n in node.inputs[behind:]):
        return False
    heads = AttentionShape(node, way.before, {}, machine, "")
    if 0 in (heads.heads, heads.rows, heads.keys, heads.width, heads.values):
        return False
    return sum(b.size for b in way.make(heads).memory if b.scratch) <= _ON_STACK


def attention_kernels(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
                      ) -> list[Kernel]:
    """The kernels of a node that has some."""
    (node,) = group.members
    way = _WAYS[node.op]
    return [way.make(AttentionShape(node, way.before, buffers, machine, name)).kernel()]
