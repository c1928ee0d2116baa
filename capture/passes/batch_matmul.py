"""Sums of many small products as one product over all that is summed.

The way back of a weight that each step of a loop multiplies with adds up a product for each step,
all as large as the weight: what is written, and read again, is far more than what is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from ...eager.ops.products.contract import parts
from ..graph.graph import Graph, Node, Nodes, users
from .sum_trees import summands, sums_of, with_sums

_FEWEST = 9  # products, below which their sum is as good


class _Sum(NamedTuple):
    """What a sum adds up: groups of products that can be one, and all else."""

    products: list[list[Node]]
    others: list[Node]


def merge_products(graph: Graph) -> Graph:
    """The graph in which many products that are added up, and smaller to read than to write, are
    one product of their operands, laid one behind the other."""
    return with_sums(graph, _sums(graph), _joined)


def _joined(nodes: Nodes, root: Node, found: _Sum, new: Mapping[Node, Node]) -> Node:
    """The sum of what is one product now, and of all else."""
    terms = [*(new[n] for n in found.others), *(_product(nodes, p, new) for p in found.products)]
    return reduce(lambda a, b: nodes.apply("add", (a, b), {}, root.site), terms)


def _sums(graph: Graph) -> dict[Node, _Sum]:
    """The sums that have many such products."""
    readers = users(graph.nodes())
    joinable = {n for n in graph.nodes() if n.op == "contract" and _is_worth_it(n)
                and len(readers[n]) == 1} - set(graph.outputs)
    if len(joinable) < _FEWEST:
        return {}
    roots, alone = sums_of(graph)
    found = {}
    for root in roots:
        terms, groups = summands(root, alone)[::-1], dict[Any, list[Node]]()
        for n in terms:
            if n in joinable and n.type == root.type:
                groups.setdefault(_form(n), []).append(n)
        many = [some for some in groups.values() if len(some) >= _FEWEST]
        if many:
            joined = set().union(*many)
            found[root] = _Sum(many, [n for n in terms if n not in joined])
    return found


def _is_worth_it(node: Node) -> bool:
    """Whether a product sums something, in a dtype that sums are rounded in anyway, and its
    operands are no larger than what they give."""
    of, (left, right) = node.type, node.inputs
    return _summed(node) is not None and of.dtype.kind == "f" and of.dtype.itemsize > 2 \
        and left.type.size + right.type.size <= of.size


def _summed(node: Node) -> str | None:
    """The first letter that a product sums."""
    left, right, out = parts(node.params["spec"])
    return next((a for a in left if a in right and a not in out), None)


def _axes(node: Node) -> tuple[int, int]:
    """The axes of its operands that a product sums first."""
    left, right, _ = parts(node.params["spec"])
    letter = _summed(node)
    assert letter is not None
    return left.index(letter), right.index(letter)


def _form(node: Node) -> Any:
    """Equal for products that can be one: all sizes but that of what is summed first."""
    shapes = [i.type.shape[:a] + i.type.shape[a + 1:] for i, a in zip(node.inputs, _axes(node))]
    return node.params["spec"], *shapes, *(i.type.dtype for i in node.inputs)


def _product(nodes: Nodes, products: Sequence[Node], new: Mapping[Node, Node]) -> Node:
    """The sum of products as one."""
    first = products[0]
    operands = [nodes.apply("concat", [new[p.inputs[k]] for p in products], {"axis": axis},
                            first.site) for k, axis in enumerate(_axes(first))]
    return nodes.make("contract", operands, first.params, first.type, first.site)
