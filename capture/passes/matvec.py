"""Rewrites matrix-vector products as multiply and sum, which fuse like any reduction."""

from __future__ import annotations

from typing import Any

from ...eager.arrays.dtypes import summed_in
from ...eager.core.tensor import Tensor
from ...eager.ops.declare import cast
from ...eager.ops.products.contract import parts
from ...eager.ops.reduction.reduce import sum as sum_along
from ...eager.ops.shape.view import broadcast_to, permute_dims, reshape
from ..graph.graph import Graph, Node, Nodes, rebuild
from ..graph.graph_builder import build


def decompose_vector_products(graph: Graph) -> Graph:
    """The graph with each contraction that lacks rows or columns written as multiply and sum."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "contract" and _is_vector(node):
            return build(nodes, _multiply_and_sum, inputs,
                         {**node.params, "along": _along(node)}, node.site)
        return nodes.with_inputs(node, inputs)

    return rebuild(graph, visit)


def _is_vector(node: Node) -> bool:
    left, right, out = parts(node.params["spec"])
    size = dict(zip(left, node.inputs[0].type.shape)) | dict(zip(right, node.inputs[1].type.shape))
    if 0 in size.values():
        return True
    rows = [size[c] for c in out if c not in right and size[c] != 1]
    columns = [size[c] for c in out if c not in left and size[c] != 1]
    summed = [size[c] for c in left if c not in out and size[c] != 1]
    return not rows or not columns or not summed


def _along(node: Node) -> str:
    """The label of the larger operand's contiguous axis; "" if it has one element."""
    larger = max(range(2), key=lambda i: node.inputs[i].type.size)
    labels, source = list(parts(node.params["spec"])[larger]), node.inputs[larger]
    while source.op == "permute_dims":
        axes = source.params["axes"]
        labels = [labels[axes.index(i)] for i in range(len(axes))]
        source = source.inputs[0]
    if source.op == "window":  # its last axes have the strides of the axes before them
        labels = labels[:len(labels) - len(source.params["kernel"])]
    long = [c for c, n in zip(labels, source.type.shape) if n != 1]
    return long[-1] if long else ""


def _multiply_and_sum(x: Tensor, y: Tensor, spec: str, along: str) -> Tensor:
    """The product with `along` as its last axis: sums over other axes then add contiguous rows."""
    left, right, out = parts(spec)
    size: dict[str, Any] = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
    summed = [c for c in left if c not in out]
    outer, last = [c for c in out if c != along], [c for c in out if c == along]
    if not summed:
        outer, last = [*out], []
    labels = [*outer, *summed, *last]
    full = tuple(size[c] for c in labels)
    sum_dtype = summed_in(x.dtype)  # half floats are rounded once, after the sum
    terms = cast(_aligned(x, left, labels, full), sum_dtype) * \
        cast(_aligned(y, right, labels, full), sum_dtype)
    axes = tuple(range(len(outer), len(outer) + len(summed)))
    total = sum_along(terms, axis=axes, dtype=sum_dtype) if summed else terms
    return permute_dims(cast(total, x.dtype), [[*outer, *last].index(c) for c in out])


def _aligned(x: Tensor, axis_labels: str, labels: list[str], full: tuple[Any, ...]) -> Tensor:
    """`x` with its axes in the order of `labels`, broadcast along the labels it lacks."""
    axes = [axis_labels.index(c) for c in labels if c in axis_labels]
    sizes = tuple(n if c in axis_labels else 1 for c, n in zip(labels, full))
    return broadcast_to(reshape(permute_dims(x, axes), sizes), full)
