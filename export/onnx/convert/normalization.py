"""Writes normalizations as one operator: over the last axes, or over space per channel."""

from __future__ import annotations

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import Dim
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from .op_table import row


def is_whole(node: Node, opset: int) -> bool:
    """True if ONNX has an operator for this normalization, which computes in float32."""
    if node.type.dtype != np.float32 or not _is_last(node):
        return False
    return not node.params["centred"] or _is_static(_sizes(node)) or _by_channel(node)


def _sizes(node: Node) -> tuple[object, ...]:
    """The sizes of the normalized axes."""
    return node.type.shape[min(node.params["axes"]):]


def _is_last(node: Node) -> bool:
    axes = tuple(sorted(node.params["axes"]))
    return axes == tuple(range(axes[0], node.type.ndim))


def _is_static(sizes: tuple[object, ...]) -> bool:
    return not any(type(n) is Dim for n in sizes)


def _by_channel(node: Node) -> bool:
    """True if it normalizes all but the first two axes, with a static number of channels."""
    return min(node.params["axes"]) == 2 and _is_static(node.type.shape[1:2])


@row("normalize")
def _normalize(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    if node.params["centred"] and _by_channel(node):
        channels = node.type.shape[1]
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return c.writer.apply("InstanceNormalization",
                              [xs[0], c.writer.const(ones), c.writer.const(zeros)],
                              epsilon=float(node.params["eps"]))
    if not node.params["centred"]:
        return _by_root(c, node, xs[0])
    return normalized(c, node, [*xs, c.writer.const(np.ones(_sizes(node), np.float32))])


def _by_root(c: WriterContext, node: Node, x: OnnxValue) -> OnnxValue:
    """`x` divided by its root mean square, in the steps of the pattern that runtimes fuse."""
    square = c.k.pow(c.k.wrap(x), 2.0).value
    mean = c.reduce("ReduceMean", square, node.params["axes"], True)
    return (c.k.wrap(x) / c.k.sqrt(c.k.wrap(mean) + float(node.params["eps"]))).value


def normalized(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    """The normalization times a weight, plus a bias if there is one."""
    if not node.params["centred"] and c.writer.opset < 23:
        return c.writer.apply("Mul", [_by_root(c, node, xs[0]), xs[1]])
    kind = "LayerNormalization" if node.params["centred"] else "RMSNormalization"
    first = min(node.params["axes"]) - node.type.ndim
    return c.writer.apply(kind, xs, axis=first, epsilon=float(node.params["eps"]))
