"""Writes activations as operators that runtimes have kernels for."""

from __future__ import annotations

import math

import numpy as np

from ....capture.graph.graph import Node
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from ..writer.pointwise_formulas import Builder, Number
from .op_table import formula_row, row


@row("silu")
def _silu(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.writer.apply("Mul", [xs[0], c.writer.apply("Sigmoid", xs)])


@row("hardtanh")
def _hardtanh(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    limits = [c.writer.const(np.array(node.params[name], xs[0].dtype)) for name in ("low", "high")]
    return c.writer.apply("Clip", [xs[0], *limits])


@row("hardsigmoid")
def _hardsigmoid(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    if xs[0].dtype != np.float32:  # runtimes have no kernel for others
        return formula_row(c, node, xs)
    return c.writer.apply("HardSigmoid", xs, alpha=1 / 6, beta=0.5)


@row("hardswish")
def _hardswish(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    if xs[0].dtype != np.float32:
        return formula_row(c, node, xs)
    return c.writer.apply("HardSwish", xs)


@row("mish")
def _mish(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return c.writer.apply("Mul", [xs[0], c.writer.apply("Tanh", [c.writer.apply("Softplus", xs)])])


@row("gelu")
def _gelu(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    if c.writer.opset >= 20:
        return c.writer.apply("Gelu", xs, approximate=node.params["approximate"])
    return _GELU[node.params["approximate"]](c.k, c.k.wrap(xs[0])).value


def _gelu_by_erf(k: Builder, x: Number) -> Number:
    return x * (k.erf(x / math.sqrt(2.0)) + 1.0) * 0.5


def _gelu_by_tanh(k: Builder, x: Number) -> Number:
    inner = (x + k.pow(x, 3.0) * 0.044715) * math.sqrt(2.0 / math.pi)
    return x * 0.5 * (k.tanh(inner) + 1.0)


# The steps match the pattern that runtimes fuse into one kernel.
_GELU = {"none": _gelu_by_erf, "tanh": _gelu_by_tanh}
