"""Selects the attentions that have GPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....eager.arrays.dtypes import is_small
from ...cpu.attention.shape import AttentionShape
from ...fusion.fusion import Group
from ...ir.loop_ir import Kernel, KernelBuffer
from ...ir.sizes import is_dynamic
from ...ir.target_info import Machine
from .backward import AttentionBackward, backward_tile
from .forward import AttentionForward, forward_tile
from .tiles import ScoreTile

_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


class _KernelChoice(NamedTuple):
    """The tile and the kernels of an op."""

    leading_inputs: int  # before query, key and value
    tile: Callable[[AttentionShape], ScoreTile | None]  # None where no tile fits
    kernels: type[AttentionForward] | type[AttentionBackward]


_KERNELS: Mapping[str, _KernelChoice] = {"attention": _KernelChoice(0, forward_tile,
                                                                    AttentionForward),
                                         "attention_back": _KernelChoice(2, backward_tile,
                                                                         AttentionBackward)}


def has_kernel(node: Node, machine: Machine) -> bool:
    """True if a composite has kernels of its own; otherwise it is decomposed."""
    if node.op not in _KERNELS:
        return False
    choice = _KERNELS[node.op]
    end = choice.leading_inputs + 3
    if any(n.type.dtype != _FLOAT for n in node.inputs[:end]) or not all(
            n.type.dtype in (_FLOAT, _BOOL) or is_small(n.type.dtype)
            for n in node.inputs[end:]):
        return False
    shape = AttentionShape(node, choice.leading_inputs, {}, machine, "")
    widths = shape.width, shape.values
    if any(map(is_dynamic, widths)) or 0 in (shape.heads, shape.queries, shape.keys, *widths):
        return False
    return choice.tile(shape) is not None


def attention_kernels(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                      name: str
                      ) -> list[Kernel]:
    """The kernels of an attention node."""
    (node,) = group.members
    choice = _KERNELS[node.op]
    return choice.kernels(AttentionShape(node, choice.leading_inputs, buffers, machine,
                                         name)).kernels()
