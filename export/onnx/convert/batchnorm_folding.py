"""Folds batch norms into the products before them: into constant weights and biases."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....capture.graph.graph import Graph, Node, Nodes, rebuild, users
from ....eager.ops.products.contract import parts


def fold_channels(graph: Graph, constants: Collection[Node]) -> Graph:
    """The graph with scales and shifts by channel folded into products with constant weights."""
    return rebuild(graph, _Folding(graph, constants).visit)


class _Folding:
    """Rewrites each node with its new inputs; `_constant` are new nodes without variable inputs."""

    def __init__(self, graph: Graph, constants: Collection[Node]) -> None:
        self._constant_inputs = set(constants)
        self._read = {node: len(by) for node, by in users(graph.nodes()).items()}
        for out in graph.outputs:
            self._read[out] = self._read.get(out, 0) + 1
        self._constant: set[Node] = set()
        self._single: set[Node] = set()  # new nodes with one user

    def visit(self, nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        rewritten = self._folded(nodes, node, inputs) or nodes.with_inputs(node, inputs)
        if node in self._constant_inputs or node.op == "const" or (
                inputs and node.kind in ("pointwise", "view")
                and all(i in self._constant for i in inputs)):
            self._constant.add(rewritten)
        if self._read.get(node) == 1:
            self._single.add(rewritten)
        return rewritten

    def _folded(self, nodes: Nodes, node: Node, inputs: Sequence[Node]) -> Node | None:
        if node.op not in ("multiply", "add") or node.type.dtype.kind != "f":
            return None
        for one, other in (inputs, inputs[::-1]):
            if one in self._single and other in self._constant and one.type == node.type \
                    and _is_by_channel(other, _channel(one)):
                return self._into(nodes, node.op, one, other)
        return None

    def _into(self, nodes: Nodes, op: str, one: Node, other: Node) -> Node | None:
        """`one` `op` `other`, folded into the weight or bias of a product; None if impossible.

        `other` holds one number per channel.
        """
        if op == "multiply" and one.op in ("conv", "contract") \
                and one.inputs[1] in self._constant:
            weight = self._scaled(nodes, one, other)
            return None if weight is None else nodes.apply(
                one.op, (one.inputs[0], weight), one.params, one.site)
        if one.op != "add":
            return None
        product, bias = one.inputs if one.inputs[1] in self._constant else one.inputs[::-1]
        if bias not in self._constant or product.op not in ("conv", "contract"):
            return None
        if op == "add":
            return nodes.apply("add", (product, self._by_channel(nodes, "add", bias, other)), {},
                               one.site)
        inner = self._into(nodes, op, product, other)
        return None if inner is None else nodes.apply(
            "add", (inner, self._by_channel(nodes, op, bias, other)), {}, one.site)

    def _by_channel(self, nodes: Nodes, op: str, a: Node, b: Node) -> Node:
        """A constant: `op` of two constants along channels, computed on vectors."""
        count = max(a.type.size, b.type.size)
        flat = nodes.apply(op, [nodes.apply("reshape", (x,), {"shape": (x.type.size,)})
                                for x in (a, b)], {})
        shape = a.type.shape if a.type.size == count and a.type.ndim >= b.type.ndim \
            else b.type.shape
        combined = nodes.apply("reshape", (flat,), {"shape": shape})
        self._constant.update((flat, combined))
        return combined

    def _scaled(self, nodes: Nodes, product: Node, scale: Node) -> Node | None:
        """The weight of a product, multiplied by a number for each channel of the result."""
        weight = product.inputs[1]
        axis = 0
        if product.op == "contract":
            left, right, out = parts(product.params["spec"])
            if out[-1] not in right or out[-1] in left:
                return None
            axis = right.index(out[-1])
        shape = tuple(scale.type.size if i == axis else 1 for i in range(weight.type.ndim))
        along = nodes.apply("reshape", (scale,), {"shape": shape})
        scaled = nodes.apply("multiply", (weight, along), {})
        self._constant.update((along, scaled))
        return scaled


def _channel(node: Node) -> int:
    """The axis of the channels, counted from the end."""
    product = node
    while product.op == "add":
        product = next((i for i in product.inputs if i.op in ("conv", "contract")),
                       product.inputs[0])
        if product.op == "add":
            break
    return 1 - node.type.ndim if product.op == "conv" else -1


def _is_by_channel(value: Node, axis: int) -> bool:
    """True if all axes other than `axis` have size 1."""
    shape = value.type.shape
    return len(shape) >= -axis and value.type.size == shape[axis]
