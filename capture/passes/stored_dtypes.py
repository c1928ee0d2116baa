"""Replaces dtypes that are only stored by their codes, bytes, so that no back end knows them.

A cast becomes an op that encodes or decodes. An op that moves elements moves codes, and all bits
stay. An op that compares reads decoded numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import is_stored, uint8
from ...eager.arrays.shapes import TensorType
from ...eager.ops.elementwise.codes import as_stored_op, decode_op, encode_op
from ..graph.graph import Graph, Node, Nodes, rebuild

_NUMBERS = {"full": "value", "unslice": "fill"}  # the param of an op that becomes an element


def encode_stored(graph: Graph) -> Graph:
    """The graph with bytes in place of dtypes that are only stored, in its inputs, too."""
    if not any(is_stored(n.type.dtype) for n in (*graph.inputs, *graph.nodes())):
        return graph
    nodes, olds = Nodes(), dict[Node, Node]()

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        return _encoded(nodes, node, inputs)

    coded = rebuild(graph, visit, nodes, olds)
    outputs = [_result(nodes, old, new) for old, new in zip(graph.outputs, coded.outputs)]
    return replace(coded, outputs=tuple(outputs))


def _encoded(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over codes; `inputs` are the new inputs."""
    moves = is_stored(node.type.dtype)
    if not moves and not any(is_stored(i.type.dtype) for i in node.inputs):
        return nodes.with_inputs(node, inputs)
    if node.op in ("input", "const"):
        params = {**node.params, "value": codes_of(node.params["value"], node.type.dtype)} \
            if node.op == "const" else node.params
        return nodes.make(node.op, (), params, TensorType(node.type.shape, uint8), node.site)
    if moves and node.op != "cast":
        return nodes.apply(node.op, inputs, _coded_params(node), node.site)
    decoded = [nodes.apply(decode_op.name, (new,), {"dtype": old.type.dtype}, node.site)
               if is_stored(old.type.dtype) else new for old, new in zip(node.inputs, inputs)]
    return nodes.apply(encode_op.name if moves else node.op, decoded, node.params, node.site)


def _coded_params(node: Node) -> dict[str, Any]:
    """The params of an op that creates or moves elements, with codes for numbers."""
    params = dict(node.params)
    if (name := _NUMBERS.get(node.op)) is not None:
        params[name] = codes_of(params[name], node.type.dtype)
    if "dtype" in params:
        params["dtype"] = uint8
    return params


def codes_of(value: Any, dtype: Any) -> Any:
    """The codes of a Python number, or of a flat tuple of them."""
    with np.errstate(all="ignore"):
        codes = np.asarray(value).astype(dtype).view(np.uint8).tolist()
    return tuple(codes) if isinstance(value, tuple) else codes


def _result(nodes: Nodes, old: Node, new: Node) -> Node:
    """An output of the program. One that is an input is the caller's array, as it is."""
    if not is_stored(old.type.dtype) or old.op == "input":
        return new
    return nodes.apply(as_stored_op.name, (new,), {"dtype": old.type.dtype}, old.site)
