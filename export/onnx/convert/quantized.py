"""Writes 8-bit quantized layers as the patterns that runtimes compute in integers.

With static ranges, the input of a layer passes through QuantizeLinear and DequantizeLinear, its
weight and bias are constants of int8 and int32 behind a DequantizeLinear, and the product is one of
floats. With the range of each input, DynamicQuantizeLinear is followed by MatMulInteger or
ConvInteger.
"""

from __future__ import annotations

import numpy as np

from ....capture.graph.graph import Node
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from .op_table import convolved, formula_row, row

SINCE = 13  # the first opset with a scale for each channel
_DYNAMIC = ("dynamic_quantized", "dynamic_scale", "dynamic_zero")  # the results of the operator


def is_whole(node: Node, opset: int) -> bool:
    """True if ONNX has operators for this product, which return float32."""
    return node.type.dtype == np.float32 and opset >= SINCE


def has_range(node: Node, opset: int) -> bool:
    """True if ONNX has an operator for the range of this input."""
    return node.inputs[0].type.dtype == np.float32


@row("quantize_linear")
def _quantize(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    x, scale, zero = node.inputs
    if (scale.op, zero.op) == _DYNAMIC[1:] and scale.inputs == zero.inputs == (x,):
        return _dynamic(c, xs[0], _DYNAMIC[0])
    if scale.type.size != 1 or zero.type.size != 1 or scale.type.dtype != np.float32:
        return formula_row(c, node, xs)
    return c.writer.op("QuantizeLinear", xs, node.type.dtype)


@row("dynamic_scale", "dynamic_zero")
def _of_input(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    return _dynamic(c, xs[0], node.op)


def _dynamic(c: WriterContext, x: OnnxValue, name: str) -> OnnxValue:
    """A result of DynamicQuantizeLinear; its three results share one node."""
    key = ("DynamicQuantizeLinear", x)
    if key not in c.writer.shared:
        c.writer.shared[key] = c.writer.ops(
            "DynamicQuantizeLinear", [x], [np.uint8, np.float32, np.uint8])
    return c.writer.shared[key][_DYNAMIC.index(name)]


@row("quantized_linear")
def _linear(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    q, scale, zero, w, w_scale, *bias = xs
    channels = node.inputs[3].type.shape[0]
    if _is_dynamic(node):
        turned = c.writer.permuted(w, (1, 0))
        given = [q, turned, zero] if c.writer.array(w) is not None else \
            [q, *_unsigned(c, turned, zero)]
        sums = c.writer.op("MatMulInteger", given, np.int32)
        return _scaled(c, node, sums, xs, 0)
    x = c.writer.op("DequantizeLinear", [q, scale, zero], np.float32)
    if node.type.ndim == 2:
        weight = _plain(c, w, w_scale, channels, 0)
        return c.writer.op("Gemm", [x, weight, *_bias(c, xs, channels)], np.float32, transB=1)
    weight = _plain(c, c.writer.permuted(w, (1, 0)), w_scale, channels, 1)
    out = c.writer.op("MatMul", [x, weight], np.float32)
    return c.writer.op("Add", [out, *_bias(c, xs, channels)], np.float32) if bias else out


@row("quantized_conv")
def _conv(c: WriterContext, node: Node, xs: list[OnnxValue]) -> OnnxValue:
    q, scale, zero, w, w_scale = xs[:5]
    channels = node.inputs[3].type.shape[0]
    if _is_dynamic(node):
        sums = convolved(c, node, [q, *_unsigned(c, w, zero)], weight=3, kind="ConvInteger")
        return _scaled(c, node, OnnxValue(sums.name, np.dtype(np.int32)), xs, node.type.ndim - 2)
    x = c.writer.op("DequantizeLinear", [q, scale, zero], np.float32)
    weight = _plain(c, w, w_scale, channels, 0)
    return convolved(c, node, [x, weight, *_bias(c, xs, channels)], weight=3)


def _unsigned(c: WriterContext, w: OnnxValue, zero: OnnxValue) -> list[OnnxValue]:
    """A weight as uint8, the zero point of the input, and that of the weight.

    Only the latest versions of onnxruntime convolve with int8 weights.
    """
    array, middle = c.writer.array(w), c.writer.const(np.uint8(128))
    if array is not None:
        return [c.writer.const(array.astype(np.int16) + 128, np.uint8), zero, middle]
    return [_shifted(c, w), zero, middle]


def _shifted(c: WriterContext, x: OnnxValue) -> OnnxValue:
    """Codes of int8 as codes of uint8, whose zero point is 128. Processors without VNNI add the
    products of two of these exactly."""
    wide = c.writer.op("Add", [c.writer.cast(x, np.int32), c.writer.const(np.int32(128))], np.int32)
    return c.writer.cast(wide, np.uint8)


def _is_dynamic(node: Node) -> bool:
    """True if each input has its own range."""
    if node.inputs[1].op == "dynamic_scale":
        return True
    return any(b.type.dtype != np.int32 for b in node.inputs[5:])


def _plain(c: WriterContext, x: OnnxValue, scale: OnnxValue, count: int, axis: int) -> OnnxValue:
    """Dequantized integers with zero point 0, scaled along an axis of `count`.

    The zeros are part of the pattern that runtimes fuse. Each product has its own weight and zeros:
    onnxruntime 1.32 cannot load shared ones if it is to add exactly on all processors.
    """
    if c.writer.array(x) is None and x.dtype == np.int8:
        x, zeros = _shifted(c, x), c.writer.const(np.full(count, 128, np.uint8))
    else:
        x, zeros = _own(c, x), c.writer.const(np.zeros(count, x.dtype), name=f"{x.name}_zero")
    return c.writer.op("DequantizeLinear", [x, scale, zeros], np.float32, axis=axis)


def _own(c: WriterContext, x: OnnxValue) -> OnnxValue:
    """A constant, for one product: if others read it too, a reshape to its own shape, which
    onnxruntime computes when it loads the model."""
    array, read = c.writer.array(x), ("read by a product", x.name)
    everywhere = c.writer.shared.maps[-1]  # not only in this branch
    if array is None or read not in everywhere:
        everywhere[read] = [x]
        return x
    return c.writer.reshape(x, array.shape)


def _bias(c: WriterContext, xs: list[OnnxValue], channels: int) -> list[OnnxValue]:
    """The dequantized bias in a list, or an empty list."""
    _, scale, _, _, w_scale, *bias = xs
    scales = [c.writer.array(x) for x in (scale, w_scale)]
    unit = c.writer.op("Mul", [scale, w_scale], np.float32) if any(x is None for x in scales) \
        else c.writer.const(scales[0] * scales[1])
    return [_plain(c, b, unit, channels, 0) for b in bias]


def _scaled(c: WriterContext, node: Node, sums: OnnxValue, xs: list[OnnxValue],
            space: int) -> OnnxValue:
    """int32 sums as floats, with the scale and bias of each channel."""
    w, (_, scale, _, _, w_scale, *bias) = c.writer, xs
    shape = (-1, *[1] * space)

    def along(x: OnnxValue) -> OnnxValue:
        return w.reshape(x, shape) if space else x

    if bias and bias[0].dtype == np.int32:
        sums, bias = w.op("Add", [sums, along(bias[0])], np.int32), []
    factor = along(w.op("Mul", [scale, w_scale], np.float32))
    out = w.op("Mul", [w.cast(sums, np.float32), factor], np.float32)
    return w.op("Add", [out, along(bias[0])], np.float32) if bias else out
