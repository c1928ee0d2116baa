"""Evaluates a graph with NumPy, node by node.

Tests compare every pass and every kernel with this interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...eager.arrays import cpu_kernels
from ...eager.core.op import OPS
from ...eager.errors import GraphError
from .bind_sizes import dims_in
from .graph import Graph, Node


def evaluate(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The graph's outputs for these input arrays. Its sizes must be numbers."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    for node in graph.nodes():
        if node not in values:
            values[node] = evaluate_node(node, [values[i] for i in node.inputs])
    return [values[o] for o in graph.outputs]


def evaluate_node(node: Node, inputs: list[Any]) -> Any:
    """One node's value. Raises GraphError for a symbolic size, whose value differs from call to
    call."""
    for size in dims_in((node.type.shape, *node.params.values())):
        raise GraphError(f"{node.op}: the size {size.expr} has no number",
                         "call bind_sizes(graph, sizes) first, and evaluate its result")
    if node.op == "transfer":
        return inputs[0]  # the interpreter has all arrays on the CPU
    if node.op == "const":
        return np.array(node.params["value"], node.type.dtype).reshape(node.type.shape)
    return np.asarray(OPS[node.op].impl(cpu_kernels, *inputs, **node.params))
