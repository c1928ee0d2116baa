"""Merges sums of many small matrix products into one product with a longer summed axis.

The gradient of a weight that every step of a loop uses is a sum of one product per step. Each
product is as large as the weight, so memory traffic would cost far more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from ...eager.ops.products.contract import parts
from ..graph.graph import Graph, Node, Nodes, users
from ..sizes.symbolic_dim import typical
from .sum_trees import summands, sums_of, with_sums

MIN_PRODUCTS = 9  # in a sum; fewer products are as fast unmerged


class _ProductSum(NamedTuple):
    """The summands of a sum: groups of products that can be merged, and all others."""

    products: list[list[Node]]
    others: list[Node]


def merge_products(graph: Graph) -> Graph:
    """The graph with sums of many products merged into one product of concatenated operands.

    Only products whose operands are smaller than their result are merged.
    """
    return with_sums(graph, _sums(graph), _merged_sum)


def _merged_sum(nodes: Nodes, root: Node, product_sum: _ProductSum,
                new: Mapping[Node, Node]) -> Node:
    """The sum of the merged products and the other summands."""
    terms = [*(new[n] for n in product_sum.others),
             *(_product(nodes, p, new) for p in product_sum.products)]
    return reduce(lambda a, b: nodes.apply("add", (a, b), {}, root.site), terms)


def _sums(graph: Graph) -> dict[Node, _ProductSum]:
    """The sums to rewrite, by their root."""
    readers = users(graph.nodes())
    mergeable = {n for n in graph.nodes() if n.op == "contract" and _is_worth_it(n)
                 and len(readers[n]) == 1} - set(graph.outputs)
    if len(mergeable) < MIN_PRODUCTS:
        return {}
    roots, inner = sums_of(graph)
    sums = {}
    for root in roots:
        terms, groups = summands(root, inner)[::-1], dict[Any, list[Node]]()
        for n in terms:
            if n in mergeable and n.type == root.type:
                groups.setdefault(_merge_key(n), []).append(n)
        products = [some for some in groups.values() if len(some) >= MIN_PRODUCTS]
        if products:
            merged = set().union(*products)
            sums[root] = _ProductSum(products, [n for n in terms if n not in merged])
    return sums


def _is_worth_it(node: Node) -> bool:
    """True if merging a product is exact enough and saves memory traffic.

    It must sum along an axis, in float32 or float64, and its operands together must not be larger
    than its result.
    """
    of, (left, right) = node.type, node.inputs
    return _summed(node) is not None and of.dtype.kind == "f" and of.dtype.itemsize > 2 \
        and typical(left.type.size) + typical(right.type.size) <= typical(of.size)


def _summed(node: Node) -> str | None:
    """The first label of the spec that a product sums over; None if it sums over none."""
    left, right, out = parts(node.params["spec"])
    return next((a for a in left if a in right and a not in out), None)


def _axes(node: Node) -> tuple[int, int]:
    """The axis of each operand that stands for the first summed label."""
    left, right, _ = parts(node.params["spec"])
    label = _summed(node)
    assert label is not None
    return left.index(label), right.index(label)


def _merge_key(node: Node) -> Any:
    """A key that is equal for products that can be merged.

    It holds the spec, the dtypes and all sizes except that of the first summed axis.
    """
    shapes = [i.type.shape[:a] + i.type.shape[a + 1:] for i, a in zip(node.inputs, _axes(node))]
    return node.params["spec"], *shapes, *(i.type.dtype for i in node.inputs)


def _product(nodes: Nodes, products: Sequence[Node], new: Mapping[Node, Node]) -> Node:
    """One product that equals the sum of these products."""
    first = products[0]
    operands = [nodes.apply("concat", [new[p.inputs[k]] for p in products], {"axis": axis},
                            first.site) for k, axis in enumerate(_axes(first))]
    return nodes.make("contract", operands, first.params, first.type, first.site)
