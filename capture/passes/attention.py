"""Recognizes attention that is written as products and a softmax, and writes it as one op.

    weights = softmax(query @ key.T * scale + mask, -1)
    result = weights @ value

`attention_masks` tells which masks there may be. The op differs where a weight is nan: it has 0 for
a query whose mask is -inf for all keys, and the formula has nan. Exporters of PyTorch write 0 for
all weights that are nan. Both are kept exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...eager.arrays.shapes import TensorType
from ...eager.core.tensor import Tensor
from ...eager.ops.elementwise.composite import call
from ...eager.ops.elementwise.pointwise import isnan, logical_or, not_equal, where
from ...eager.ops.layers.attention import attends_to_any, attention_op
from ...eager.ops.products.contract import parts
from ...eager.ops.reduction.reduce import all as all_of
from ...eager.ops.reduction.reduce import sum as sum_of
from ...eager.ops.shape.view import matrix_transpose
from ..graph.graph import Graph, Node, Nodes, rebuild, users
from ..graph.graph_builder import build
from .attention_masks import (
    Mask,
    in_shape,
    joined,
    larger,
    number_of,
    step_operand,
    without_masks,
)

Readers = Mapping[Node, list[Node]]


@dataclass(frozen=True)
class _Match:
    """The parts of an attention.

    `lead`: the leading sizes of the matrices where the masks apply
    `turned`: the key has its features before its rows
    `with_zeros`: weights that are nan are replaced by 0
    """

    query: Node
    key: Node
    value: Node
    masks: tuple[Mask, ...]
    lead: tuple[Any, ...]
    scale: float
    turned: bool
    with_zeros: bool


def recognize_attention(graph: Graph, has_kernel: Callable[[Node], bool]) -> Graph:
    """The graph with attention as one op where `has_kernel` holds for it, and only the result is
    read: gradients read the weights."""
    readers, outputs = users(graph.nodes()), set(graph.outputs)

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        same = nodes.with_inputs(node, inputs)
        if node.op != "contract" or not _is_read_once(node.inputs[0], readers, outputs):
            return same
        match = _matched(same)
        if match is None:
            return same
        operands = _operands(nodes, match)
        params = {"causal": False, "scale": match.scale, "groups": 1}
        result = TensorType((*match.lead, *node.type.shape[-2:]), node.type.dtype)
        if not has_kernel(nodes.make("attention", operands, params, result, node.site)):
            return same
        return build(nodes, _written, operands, {
            "scale": match.scale, "with_zeros": match.with_zeros, "shape": node.type.shape},
            node.site)

    return rebuild(graph, visit)


def _operands(nodes: Nodes, match: _Match) -> tuple[Node, ...]:
    """Query, key, value and perhaps a mask, with the leading sizes of the masks."""
    key = build(nodes, matrix_transpose, (match.key,), {}) if match.turned else match.key
    matrices = [build(nodes, in_shape, (n,), {"shape": (*match.lead, *n.type.shape[-2:])})
                for n in (match.query, key, match.value)]
    if not match.masks:
        return tuple(matrices)
    mask = build(nodes, joined, tuple(m.node for m in match.masks), {
        "shapes": [m.shape for m in match.masks],
        "inverted": [m.is_inverted for m in match.masks]})
    return (*matrices, mask)


def _written(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, scale: float,
             with_zeros: bool, shape: tuple[Any, ...]) -> Tensor:
    """The result of the formula in this shape, by the op."""
    out = call(attention_op, query, key, value, *mask, causal=False, scale=scale, groups=1)
    some = attends_to_any(*mask) if mask else None
    return in_shape(_with_nan(out, value, some, with_zeros), shape)


def _with_nan(out: Tensor, value: Tensor, some: Tensor | None, with_zeros: bool) -> Tensor:
    """The result of the formula by that of the op: weights that are nan have an effect."""
    if not with_zeros:
        return out if some is None else where(some, out, math.nan)
    # Where all columns are nan, either the weights are, or each column has a value that is not
    # finite. 0 times the values is right for both.
    unknown = all_of(isnan(out), -1, keepdims=True)
    unknown = unknown if some is None else logical_or(unknown, not_equal(some, True))
    return where(unknown, sum_of(value * 0.0, -2, keepdims=True), out)


# ---- the pattern, from the result up
def _is_read_once(weights: Node, readers: Readers, outputs: set[Node]) -> bool:
    """True if nothing else reads the weights, nor the values from which they are computed."""
    chain, node = [weights], weights
    if node.op == "where":
        chain += [node.inputs[0]]
        node = node.inputs[2]
    while node.op != "contract" and node.op in _STEPS:
        chain.append(node)
        node = node.inputs[_STEPS[node.op](node)]
    inside = {*chain, node}
    return outputs.isdisjoint(inside) and all(
        sum(r not in inside for r in readers[n]) == (n is weights) for n in inside)


_STEPS: dict[str, Callable[[Node], int]] = {
    "softmax": lambda node: 0, "add": step_operand, "where": step_operand,
    "reshape": step_operand, "multiply": larger, "divide": lambda node: 0}


def _matched(node: Node) -> _Match | None:
    """The parts of the attention whose result is a contraction, or None."""
    weights, value = node.inputs
    softmax = _without_nan(weights)
    if softmax.op != "softmax" or softmax.params["axis"] != softmax.type.ndim - 1 \
            or not _is_turned(node):
        return None
    masked, scale = without_masks(softmax.inputs[0]), 1.0
    if masked is None:
        return None
    scores = masked.scores
    if scores.op in ("multiply", "divide"):
        at = larger(scores)
        factor = number_of(scores.inputs[1 - at])
        if factor is None or (scores.op == "divide" and at):
            return None
        scale = factor if scores.op == "multiply" else 1 / factor
        scores = scores.inputs[at]
    turned = _is_turned(scores) if scores.op == "contract" else None
    if turned is None or not 0 < scale < math.inf:
        return None
    query, key = scores.inputs  # the columns of scores are the rows of the key
    return _Match(query, key, value, masked.masks, masked.lead, scale, turned,
                  softmax is not weights)


def _without_nan(weights: Node) -> Node:
    """The weights before 0 replaced those that are nan; the weights themselves if it did not."""
    if weights.op != "where":
        return weights
    condition, other, kept = weights.inputs
    same = condition.op == "isnan" and condition.inputs[0] is kept and number_of(other) == 0
    return kept if same else weights


def _is_turned(product: Node) -> bool | None:
    """Whether the second factor of a product of matrices is not transposed; None for other
    products. Axes before the last two are those of a batch, in both factors."""
    left, right, out = parts(product.params["spec"])
    if len(out) < 2 or left[:-1] != out[:-1] or left[-1] in out:
        return None
    batch, column = out[:-2], out[-1]
    return {batch + left[-1] + column: True, batch + column + left[-1]: False}.get(right)
