"""Rewrites matrix-vector products as multiply and sum, which fuse like any reduction.

Products of few rows with a matrix that is computed from smaller numbers, such as weights in few
bits, are rewritten as well: a matrix product would write the computed matrix to memory first.
"""

from __future__ import annotations

import math
from typing import Any

from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ...eager.core.tensor import Tensor
from ...eager.ops.declare import cast
from ...eager.ops.products.contract import parts
from ...eager.ops.reduction.reduce import sum as sum_along
from ...eager.ops.shape.view import broadcast_to, permute_dims, reshape
from ..graph.graph import SPECIAL, Graph, Node, Nodes, rebuild
from ..graph.graph_builder import build
from ..sizes.symbolic_dim import typical

_MAX_ROWS = 4  # of a matrix that is computed from smaller numbers; with more, a product is faster
_LARGE_MATRIX = 1 << 20  # elements; writing a vector takes less time than computing it in each row


def decompose_vector_products(graph: Graph) -> Graph:
    """The graph with each contraction that lacks rows or columns, or has few rows of a matrix that
    is computed from smaller numbers, written as multiply and sum."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "contract" and (_is_vector(node) or _has_few_rows_of_small_numbers(node)):
            return build(nodes, _multiply_and_sum, inputs, {
                **node.params, "along": _along(node), "repeats": _repeats(node)}, node.site)
        return nodes.with_inputs(node, inputs)

    return rebuild(graph, visit)


def _is_vector(node: Node) -> bool:
    sizes = _sizes(node)
    return any(0 in s for s in sizes) or not all(sizes[:3])


def _repeats(node: Node) -> bool:
    """True if the elements of the smaller operand are used so often that they need memory."""
    small, large = sorted(typical(i.type.size) for i in node.inputs)
    return not _is_vector(node) or (large >= _LARGE_MATRIX and small > 1)


def _sizes(node: Node) -> tuple[list[Any], ...]:
    """The sizes other than 1 of the rows, the columns, the summed axes, and the batch axes."""
    left, right, out = parts(node.params["spec"])
    size = dict(zip(left, node.inputs[0].type.shape)) | dict(zip(right, node.inputs[1].type.shape))
    labels = ([c for c in out if c not in right], [c for c in out if c not in left],
              [c for c in left if c not in out], [c for c in out if c in left and c in right])
    return tuple([size[c] for c in group if size[c] != 1] for group in labels)


def _has_few_rows_of_small_numbers(node: Node) -> bool:
    rows, columns, _, _ = _sizes(node)
    if not all(type(n) is int for s in (node.type, *(i.type for i in node.inputs))
               for n in s.shape):
        return False
    matrix = node.inputs[int(product(rows) < product(columns))]
    has_few_rows = min(product(rows), product(columns)) <= _MAX_ROWS
    # A product converts 16-bit floats to those in which it sums.
    memory = matrix.type.size * summed_in(matrix.type.dtype).itemsize
    return has_few_rows and bool(2 * _bytes_read(matrix) <= memory)


def _bytes_read(node: Node) -> float:
    """The bytes of the arrays that an element-wise expression reads; infinite for any other."""
    leaves, stack = dict[Node, float](), [node]
    while stack:
        at = stack.pop()
        if at.op in SPECIAL:
            leaves[at] = at.type.size * at.type.dtype.itemsize
        elif at.kind in ("pointwise", "view"):
            stack.extend(at.inputs)
        else:
            return math.inf
    return sum(leaves.values())


def _along(node: Node) -> str:
    """The label of the larger operand's contiguous axis; "" if it has one element."""
    larger = max(range(2), key=lambda i: typical(node.inputs[i].type.size))
    labels, source = list(parts(node.params["spec"])[larger]), node.inputs[larger]
    while source.op == "permute_dims":
        axes = source.params["axes"]
        labels = [labels[axes.index(i)] for i in range(len(axes))]
        source = source.inputs[0]
    if source.op == "window":  # its last axes have the strides of the axes before them
        labels = labels[:len(labels) - len(source.params["kernel"])]
    long = [c for c, n in zip(labels, source.type.shape) if n != 1]
    return long[-1] if long else ""


def _multiply_and_sum(x: Tensor, y: Tensor, spec: str, along: str, repeats: bool) -> Tensor:
    """The product with `along` as its last axis: sums over other axes then add contiguous rows.

    repeats: each element of the smaller operand is used many times, so it is computed once.
    """
    left, right, out = parts(spec)
    summed = [c for c in left if c not in out]
    outer, last = [c for c in out if c != along], [c for c in out if c == along]
    if not summed:
        outer, last = [*out], []
    labels = [*outer, *summed, *last]
    sum_dtype = summed_in(x.dtype)  # half floats are rounded once, after the sum
    operands = [cast(_aligned(x, left, labels), sum_dtype),
                cast(_aligned(y, right, labels), sum_dtype)]
    if repeats:  # a value that is broadcast has memory
        sizes = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
        few = int(y.size < x.size)
        operands[few] = broadcast_to(operands[few], tuple(sizes[c] for c in labels))
    terms = operands[0] * operands[1]
    axes = tuple(range(len(outer), len(outer) + len(summed)))
    total = sum_along(terms, axis=axes, dtype=sum_dtype) if summed else terms
    return permute_dims(cast(total, x.dtype), [[*outer, *last].index(c) for c in out])


def _aligned(x: Tensor, axis_labels: str, labels: list[str]) -> Tensor:
    """`x` with its axes in the order of `labels`, and axes of size 1 for the labels it lacks."""
    ordered = permute_dims(x, [axis_labels.index(c) for c in labels if c in axis_labels])
    sizes = iter(ordered.shape)
    return reshape(ordered, tuple(next(sizes) if c in axis_labels else 1 for c in labels))
