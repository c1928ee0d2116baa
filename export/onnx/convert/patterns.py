"""Matches several nodes that one operator computes; each pattern starts at its last node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....capture.sizes.symbolic_dim import size_expr_of
from ....eager.arrays.shapes import product
from ....eager.ops.products.contract import parts
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue
from . import attention
from .normalization import normalized
from .op_table import convolved, pool_means
from .repeated_pixels import repeated, resized


class Fused(NamedTuple):
    """A replacement for a node: its inputs, and the function that writes it."""

    inputs: tuple[Node, ...]
    write: Callable[[WriterContext, list[OnnxValue]], OnnxValue]


Users = Mapping[Node, Sequence[Node]]


def fused(node: Node, users: Users, opset: int) -> Fused | None:
    """The first pattern that ends in `node` and has an operator in this opset, or None."""
    for pattern in PATTERNS.get(node.op, ()):
        match = pattern(node, users) if opset >= SINCE.get(pattern, 0) else None
        if match is not None:
            return match
    return None


def _attention(node: Node, users: Users) -> Fused | None:
    """softmax(q @ k.mT) @ v -> Attention."""
    match = attention.attention(node, users)
    return None if match is None else Fused(match.inputs, match.write)


def _linear(node: Node, users: Users) -> Fused | None:
    """x @ w (+ bias) over two axes -> Gemm; a transposed weight is used as stored."""
    product, bias = node, None
    if node.op == "add":
        split = _with_operand(node, "contract", users)
        if split is None:
            return None
        product, bias = split
        columns = product.type.shape[-1:]
        if bias.type.shape not in (columns, (1, *columns)):
            return None
    left, right, out = parts(product.params["spec"])
    stored = right[1:] == left[1:]  # (out, in), the last axes of both are summed
    if len(left) != 2 or len(right) != 2 or left[1] not in right \
            or out != left[0] + right[not stored] or node.type.dtype.kind != "f":
        return None
    x, w = product.inputs
    view = w.op == "permute_dims"
    transposed = stored is not view
    if not transposed and bias is None:
        return None
    inputs = (x, w.inputs[0] if view else w, *([bias] if bias is not None else []))
    return Fused(inputs, lambda c, xs: c.writer.op("Gemm", xs, node.type.dtype,
                                                   transB=int(transposed)))


def _conv_bias(node: Node, users: Users) -> Fused | None:
    """conv(x, w) + bias per channel -> Conv with a bias."""
    split = _with_operand(node, "conv", users)
    if split is None:
        return None
    conv, bias = split
    channels = conv.type.shape[1]
    if bias.op != "reshape" or bias.inputs[0].type.shape != (channels,) or \
            bias.type.shape != (1, channels, *[1] * (conv.type.ndim - 2)):
        return None
    return Fused((*conv.inputs, bias.inputs[0]), lambda c, xs: convolved(c, conv, xs))


def _scaled_norm(node: Node, users: Users) -> Fused | None:
    """normalize(x) * weight (+ bias) over the last axes -> one operator."""
    product, bias = node, None
    if node.op == "add":
        split = _with_operand(node, "multiply", users)
        if split is None:
            return None
        product, bias = split
    operands = _with_operand(product, "normalize", users)
    if operands is None or (bias is not None and not operands[0].params["centred"]):
        return None
    norm, weight = operands
    sizes = norm.type.shape[min(norm.params["axes"]):]
    if any(x is not None and x.type.shape != sizes for x in (weight, bias)):
        return None
    inputs = (*norm.inputs, weight, *([bias] if bias is not None else []))
    return Fused(inputs, lambda c, xs: normalized(c, norm, xs))


def _with_operand(node: Node, op: str, users: Users) -> tuple[Node, Node] | None:
    """(operand, other) of a node with an operand `op` that has no other user."""
    for one, other in (node.inputs, node.inputs[::-1]):
        if one.op == op and len(users[one]) == 1 and one.type == node.type:
            return one, other
    return None


def _mean(node: Node, users: Users) -> Fused | None:
    """sum(x) / number of summed elements -> ReduceMean."""
    total, count = node.inputs
    if total.op != "sum" or count.op != "const" or count.type.shape or \
            node.type.dtype.kind != "f" or len(users[total]) != 1:
        return None
    axes = total.params["axis"]
    number = count.params["value"]
    if isinstance(number, float) and not number.is_integer():
        return None
    sizes = [total.inputs[0].type.shape[i] for i in axes]
    if not axes or size_expr_of(number) != size_expr_of(product(sizes)):
        return None
    return Fused(total.inputs, lambda c, xs: c.reduce("ReduceMean", xs[0], axes,
                                                      total.params["keepdims"]))


def _clip(node: Node, users: Users) -> Fused | None:
    """minimum(maximum(x, low), high) -> Clip, which runtimes fuse with the node before it."""
    split = _with_operand(node, "maximum", users)
    if split is None or node.type.dtype.kind != "f":
        return None
    inner, high = split
    for x, low in (inner.inputs, inner.inputs[::-1]):
        if all(limit.op == "const" and not limit.type.shape for limit in (low, high)):
            return Fused((x, low, high), lambda c, xs: c.writer.apply("Clip", xs))
    return None


def _prelu(node: Node, users: Users) -> Fused | None:
    """where(x > 0, x, slope * x) -> PRelu."""
    above, x, scaled = node.inputs
    if (above.op, scaled.op) != ("greater", "multiply") or above.inputs[0] is not x or \
            x not in scaled.inputs or not _is_number(above.inputs[1], 0) or \
            any(len(users[n]) != 1 for n in (above, scaled)) or node.type != x.type:
        return None
    slope = scaled.inputs[scaled.inputs[0] is x]
    if slope is x or slope.type.dtype != np.float32 or slope.type.ndim > x.type.ndim:
        return None
    return Fused((x, slope), lambda c, xs: c.writer.op("PRelu", xs, node.type.dtype))


def _pool_mean(node: Node, users: Users) -> Fused | None:
    """Sum over windows / number of elements of a window -> AveragePool."""
    total, count = node.inputs
    if total.op != "pool_sum" or len(users[total]) != 1 or \
            not _is_number(count, product(total.params["kernel"])):
        return None
    return Fused(total.inputs, lambda c, xs: pool_means(c, total, xs))


def _pixels(node: Node, users: Users) -> Fused | None:
    """Pixels repeated along spatial axes -> Resize."""
    if node.type.ndim not in (4, 5) or node.type.dtype != np.float32:
        return None
    match = repeated(node, users)
    if match is None or match[1][:2] != [1, 1]:
        return None
    image, times = match
    return Fused((image,), lambda c, xs: resized(c, xs[0], times))


def _indices(node: Node, users: Users) -> Fused | None:
    """take(x, where(i < 0, i + n, i)) -> take(x, i): Gather accepts negative indices."""
    x, chosen = node.inputs
    if chosen.op != "where":
        return None
    below, later, i = chosen.inputs
    if below.op != "less" or later.op != "add" or below.inputs[0] is not i or i not in later.inputs:
        return None
    added = next((n for n in later.inputs if n is not i), i)
    size = x.type.shape[node.params["axis"]]
    if not _is_number(below.inputs[1], 0) or not _is_number(added, size) \
            or i.type.dtype.name not in ("int32", "int64"):
        return None
    return Fused((x, i), lambda c, xs: c.writer.op("Gather", xs, xs[0].dtype,
                                                   axis=node.params["axis"]))


def _index_put(node: Node, users: Users) -> Fused | None:
    """index_put with distinct indices -> ScatterND."""
    if not _is_distinct(node.inputs[2]):
        return None

    def write(c: WriterContext, xs: list[OnnxValue]) -> OnnxValue:
        w = c.writer
        indices = w.op("Unsqueeze", [w.cast(xs[2], np.int64), w.ints([-1])], np.int64)
        return w.op("ScatterND", [xs[0], indices, xs[1]], xs[0].dtype)

    return Fused(node.inputs, write)


def _is_distinct(node: Node) -> bool:
    """True if indices are known to be distinct: a single one, or positions along an axis."""
    one = all(n == 1 for n in node.type.shape)
    while node.op in ("reshape", "permute_dims", "slice") or (
            node.op == "take" and not node.inputs[1].type.shape):
        node = node.inputs[0]
    return one or node.op == "iota"


def _is_number(node: Node, value: object) -> bool:
    return node.op == "const" and not node.type.shape and bool(node.params["value"] == value)


OperatorPattern = Callable[[Node, Users], Fused | None]
PATTERNS: dict[str, list[OperatorPattern]] = {
    "add": [_linear, _conv_bias, _scaled_norm], "multiply": [_scaled_norm],
    "contract": [_attention, _linear], "divide": [_mean, _pool_mean], "take": [_indices],
    "reshape": [_attention, _pixels], "minimum": [_clip], "where": [_prelu],
    "index_put": [_index_put],
}
SINCE: dict[OperatorPattern, int] = {_attention: attention.SINCE}
