"""Selects the attentions that have kernels, and builds these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....eager.ops.layers.cached_attention import has_few_queries
from ...fusion.fusion import Group
from ...ir.loop_ir import Kernel, KernelBuffer
from ...ir.sizes import is_dynamic
from ...ir.target_info import Machine
from .backward import AttentionBackward
from .cached import CachedAttention, fits_cached
from .cached_shape import CachedShape
from .forward import AttentionForward
from .shape import AttentionShape

_MAX_SCRATCH_ELEMENTS = 1 << 19  # of a task
_FLOAT, _BOOL = np.dtype("float32"), np.dtype(bool)


class _KernelChoice(NamedTuple):
    """The lowering of an op."""

    before: int  # number of inputs before query, key and value
    make: type[AttentionForward] | type[AttentionBackward]


_KERNELS: Mapping[str, _KernelChoice] = {"attention": _KernelChoice(0, AttentionForward),
                                         "attention_back": _KernelChoice(2, AttentionBackward)}


def has_cached_kernel(node: Node, machine: Machine) -> bool:
    """True if attention to a cache has a kernel; it is decomposed if not."""
    if not fits_cached(node):
        return False
    if has_few_queries(node.inputs[0].type.shape[2]):
        return True
    if node.params["window"] or is_dynamic(node.inputs[0].type.shape[2]):
        return False
    shape = CachedShape(node, {}, machine, "")
    return bool(shape.rows) and not is_dynamic(shape.heads) and _fits(AttentionForward(shape))


def cached_attention_kernels(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                             name: str) -> list[Kernel]:
    """The kernel of a node for which `has_cached_kernel` holds."""
    (node,) = group.members
    if has_few_queries(node.inputs[0].type.shape[2]):
        return [CachedAttention(node, buffers, machine, name).kernel()]
    return [AttentionForward(CachedShape(node, buffers, machine, name)).kernel()]


def _fits(kernel: AttentionForward | AttentionBackward) -> bool:
    """True if the scratch memory of a task is not too large."""
    return sum(b.size for b in kernel.memory if b.scratch) <= _MAX_SCRATCH_ELEMENTS


def has_kernel(node: Node, machine: Machine) -> bool:
    """True if a composite has a kernel of its own; it is decomposed if not."""
    if node.op not in _KERNELS:
        return False
    choice = _KERNELS[node.op]
    mask_input = choice.before + 3
    if any(n.type.dtype != _FLOAT for n in node.inputs[:mask_input]) or any(
            n.type.dtype not in (_FLOAT, _BOOL) for n in node.inputs[mask_input:]):
        return False
    shape = AttentionShape(node, choice.before, {}, machine, "")
    sizes = shape.queries, shape.keys, shape.width, shape.values
    if any(map(is_dynamic, sizes)) or 0 in (shape.heads, shape.rows, *sizes[1:]):
        return False
    return _fits(choice.make(shape))


def attention_kernels(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                      name: str
                      ) -> list[Kernel]:
    """The kernels of a composite for which `has_kernel` holds."""
    (node,) = group.members
    choice = _KERNELS[node.op]
    return [choice.make(AttentionShape(node, choice.before, buffers, machine, name)).kernel()]
