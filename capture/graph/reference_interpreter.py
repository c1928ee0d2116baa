"""Runs a graph with NumPy, node by node: the oracle of every pass and of every kernel."""

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
    """The graph's outputs, as arrays, for these arrays as inputs. Its sizes must be numbers."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    for node in graph.nodes():
        if node not in values:
            values[node] = evaluate_node(node, [values[i] for i in node.inputs])
    return [values[o] for o in graph.outputs]


def evaluate_node(node: Node, inputs: list[Any]) -> Any:
    """One node's value. GraphError for a size that is a symbol: what it was when it was recorded
    is not what it is now."""
    for size in dims_in((node.type.shape, *node.params.values())):
        raise GraphError(f"{node.op}: the size {size.expr} has no number",
                         "give specialise(graph, sizes) the sizes, and evaluate what it gives")
    if node.op == "transfer":
        return inputs[0]  # all is on the CPU here
    if node.op == "const":
        return np.array(node.params["value"], node.type.dtype).reshape(node.type.shape)
    return np.asarray(OPS[node.op].impl(cpu_kernels, *inputs, **node.params))
