"""Chooses the concats that are written operand by operand, each by a kernel of its own.

Other concats are views: each reader chooses the operand of an element by its index. That computes
and masks all operands, which pays where no memory is needed otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Graph, Node, Nodes, rebuild, users
from ...eager.arrays.shapes import product
from ..ir.sizes import is_dynamic
from ..ir.target_info import Machine
from .materialize import SPLIT, WHOLE_OPERAND_KINDS, is_forwarding_view

_MIN_ELEMENTS = 4096  # of an operand on average; fewer are copied faster than a kernel starts


def split_concats(graph: Graph, machine: Machine) -> Graph:
    """The graph in which concats to be written operand by operand have the param `SPLIT`."""
    readers, outputs = users(graph.nodes()), set(graph.outputs)
    chosen = {n for n in graph.nodes() if n.op == "concat" and _has_long_operands(n, machine)
              and (n in outputs or _is_packed(n, readers))}
    if not chosen:
        return graph

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in chosen:
            return nodes.with_inputs(node, inputs)
        return nodes.make(node.op, inputs, {**node.params, SPLIT: True}, node.type, node.site)

    return rebuild(graph, visit)


def _has_long_operands(concat: Node, machine: Machine) -> bool:
    """True if all operands are written in full vectors, and their kernels are worth a start."""
    shape, axis = concat.type.shape, concat.params["axis"]
    if any(is_dynamic(n) for n in shape) or \
            concat.type.size < _MIN_ELEMENTS * len(concat.inputs):
        return False
    after, lanes = product(shape[axis + 1:]), machine.lanes(concat.type.dtype.itemsize)
    return all(i.type.shape[axis] * after >= lanes for i in concat.inputs)


def _is_packed(node: Node, readers: Mapping[Node, list[Node]]) -> bool:
    """True if a reader copies the node as an operand, directly or through views."""
    return any(r.kind in WHOLE_OPERAND_KINDS or (is_forwarding_view(r) and _is_packed(r, readers))
               for r in readers[node])
