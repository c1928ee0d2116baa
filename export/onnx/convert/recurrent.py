"""Writes recurrent layers as the operators LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim
from ....eager.errors import ExportError
from ....eager.ops.layers.recurrent import PARTS
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from .op_table import row

# By kind of layer: the operator, its attributes, and its activation if that is not the default.
_OPERATORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "LSTM": ("LSTM", {}, ""), "GRU": ("GRU", {"linear_before_reset": 1}, ""),
    "RNN_TANH": ("RNN", {}, ""), "RNN_RELU": ("RNN", {}, "Relu"),
}


def is_whole(node: Node, opset: int) -> bool:
    """True if runtimes have a kernel for this layer.

    Raises ExportError if there is none and the number of steps varies, so that the layer cannot be
    unrolled.
    """
    if node.type.dtype.name in ("float16", "float32"):
        return True
    if type(node.inputs[0].type.shape[0]) is Dim:
        error = ExportError(f"runtimes have no kernel for recurrent layers of {node.type.dtype}, "
                            "and a layer with a dynamic number of steps cannot be unrolled",
                            "model.to(fw.float32), or leave the axis of steps out of "
                            "dynamic_shapes")
        error.line = node.site
        raise error
    return False


@row("recurrent")
def _recurrent(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """A result of the operator; all results share one node."""
    p = node.params
    key = (*xs, p["kind"], p["directions"])
    if key not in c.writer.shared:
        c.writer.shared[key] = _layer(c, node, xs)
    return c.writer.shared[key][PARTS.index(p["part"])]


def _layer(c: WriterContext, node: Node, xs: list[OnnxValue]) -> list[OnnxValue]:
    p, hidden = node.params, node.inputs[2].type.shape[2]
    kind, attributes, activation = _OPERATORS[p["kind"]]
    weights, state = xs[:3 + p["bias"]], xs[3 + p["bias"]:]
    inputs: list[OnnxValue | None] = [*weights]
    if state:
        inputs += [*[None] * (5 - len(weights)), *state]
    if activation:
        attributes = {**attributes, "activations": [activation] * len(p["directions"])}
    direction = "bidirectional" if len(p["directions"]) == 2 else p["directions"][0]
    count = 3 if kind == "LSTM" else 2
    return c.writer.ops(kind, inputs, [node.type.dtype] * count, hidden_size=hidden,
                        direction=direction, **attributes)
