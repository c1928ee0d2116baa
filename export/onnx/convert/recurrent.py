"""Recurrent layers as the operators LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim
from ....eager.errors import ExportError
from ....eager.ops.layers.recurrent import PARTS
from ..writer.context import Context
from ..writer.graph_writer import Value
from .op_table import row

# Of a kind of layer: the operator, its attributes, its activation where that is not the usual one.
_OPERATORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "LSTM": ("LSTM", {}, ""), "GRU": ("GRU", {"linear_before_reset": 1}, ""),
    "RNN_TANH": ("RNN", {}, ""), "RNN_RELU": ("RNN", {}, "Relu"),
}


def is_whole(node: Node, opset: int) -> bool:
    """Whether runtimes have a kernel for this layer. ExportError where it has no steps either."""
    if node.type.dtype.name in ("float16", "float32"):
        return True
    if type(node.inputs[0].type.shape[0]) is Dim:
        error = ExportError(f"runtimes have no kernel for recurrent layers of {node.type.dtype}, "
                            "and the number of its steps varies",
                            "model.to(fw.float32), or leave the axis of steps out of "
                            "dynamic_shapes")
        error.line = node.site
        raise error
    return False


@row("recurrent")
def _recurrent(c: Context, node: Node, xs: list[Value]) -> Value:
    """A result of the operator, which is one node for all of them."""
    p = node.params
    key = (*xs, p["kind"], p["ways"])
    if key not in c.writer.shared:
        c.writer.shared[key] = _layer(c, node, xs)
    return c.writer.shared[key][PARTS.index(p["part"])]


def _layer(c: Context, node: Node, xs: list[Value]) -> list[Value]:
    p, hidden = node.params, node.inputs[2].type.shape[2]
    kind, attributes, activation = _OPERATORS[p["kind"]]
    given, state = xs[:3 + p["bias"]], xs[3 + p["bias"]:]
    inputs: list[Value | None] = [*given, *[None] * (5 - len(given)), *state] if state else [*given]
    if activation:
        attributes = {**attributes, "activations": [activation] * len(p["ways"])}
    way = "bidirectional" if len(p["ways"]) == 2 else p["ways"][0]
    count = 3 if kind == "LSTM" else 2
    return c.writer.ops(kind, inputs, [node.type.dtype] * count, hidden_size=hidden, direction=way,
                        **attributes)
