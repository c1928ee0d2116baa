"""Runs a graph with NumPy, node by node: the oracle of every pass and of every kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..eager import kernels
from ..eager.op import OPS
from .graph import Graph, Node


def evaluate(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The graph's outputs, as arrays, for these arrays as inputs."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    for node in graph.nodes():
        if node not in values:
            values[node] = evaluate_node(node, [values[i] for i in node.inputs])
    return [values[o] for o in graph.outputs]


def evaluate_node(node: Node, inputs: list[Any]) -> Any:
    """One node's value."""
    if node.op == "const":
        return np.array(node.params["value"], node.type.dtype).reshape(node.type.shape)
    return np.asarray(OPS[node.op].impl(kernels, *inputs, **node.params))
