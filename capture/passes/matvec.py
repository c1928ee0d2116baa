"""Contractions with a vector are sums of products: written as such they fuse like any reduction."""

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
    """The graph, each contraction without rows or without columns written as multiply and sum."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "contract" and _is_vector(node):
            return build(nodes, _multiply_and_sum, inputs,
                         {**node.params, "along": _along(node)}, node.site)
        return nodes.again(node, inputs)

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
    """The letter along which the larger operand lies in memory; "" where it has one element."""
    larger = max(range(2), key=lambda i: node.inputs[i].type.size)
    letters, source = list(parts(node.params["spec"])[larger]), node.inputs[larger]
    while source.op == "permute_dims":
        axes = source.params["axes"]
        letters = [letters[axes.index(i)] for i in range(len(axes))]
        source = source.inputs[0]
    if source.op == "window":  # a step in one steps as far as from one to the next
        letters = letters[:len(letters) - len(source.params["kernel"])]
    long = [c for c, n in zip(letters, source.type.shape) if n != 1]
    return long[-1] if long else ""


def _multiply_and_sum(x: Tensor, y: Tensor, spec: str, along: str) -> Tensor:
    """The product with `along` as its last letter, so that sums over others are sums of rows."""
    left, right, out = parts(spec)
    size: dict[str, Any] = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
    summed = [c for c in left if c not in out]
    kept, last = [c for c in out if c != along], [c for c in out if c == along]
    if not summed:
        kept, last = [*out], []
    letters = [*kept, *summed, *last]
    full = tuple(size[c] for c in letters)
    wide = summed_in(x.dtype)  # small floats are rounded once, when all is added up
    terms = cast(_aligned(x, left, letters, full), wide) * \
        cast(_aligned(y, right, letters, full), wide)
    axes = tuple(range(len(kept), len(kept) + len(summed)))
    total = sum_along(terms, axis=axes, dtype=wide) if summed else terms
    return permute_dims(cast(total, x.dtype), [[*kept, *last].index(c) for c in out])


def _aligned(x: Tensor, own: str, letters: list[str], full: tuple[Any, ...]) -> Tensor:
    """`x` with its axes in the order of `letters`, repeated along those it does not have."""
    order = [own.index(c) for c in letters if c in own]
    sizes = tuple(n if c in own else 1 for c, n in zip(letters, full))
    return broadcast_to(reshape(permute_dims(x, order), sizes), full)
