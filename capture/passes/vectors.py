"""Contractions with a vector are sums of products: written as such they fuse like any reduction."""

from __future__ import annotations

from typing import Any

from ...eager.ops.contract import parts
from ...eager.ops.reduce import sum as sum_along
from ...eager.ops.view import broadcast_to, permute_dims, reshape
from ...eager.tensor import Tensor
from ..builder import build
from ..graph import Graph, Node, Nodes, rebuild


def open_vector_products(graph: Graph) -> Graph:
    """The graph, each contraction without rows or without columns written as multiply and sum."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "contract" and _is_vector(node):
            return build(nodes, _multiply_and_sum, inputs, dict(node.params), node.site)
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


def _multiply_and_sum(x: Tensor, y: Tensor, spec: str) -> Tensor:
    left, right, out = parts(spec)
    summed = [c for c in left if c not in out]
    letters = [*out, *summed]
    size: dict[str, Any] = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
    full = tuple(size[c] for c in letters)
    product = _aligned(x, left, letters, full) * _aligned(y, right, letters, full)
    return sum_along(product, axis=tuple(range(len(out), len(letters)))) if summed else product


def _aligned(x: Tensor, own: str, letters: list[str], full: tuple[Any, ...]) -> Tensor:
    """`x` with its axes in the order of `letters`, repeated along those it does not have."""
    order = [own.index(c) for c in letters if c in own]
    sizes = tuple(n if c in own else 1 for c, n in zip(letters, full))
    return broadcast_to(reshape(permute_dims(x, order), sizes), full)
