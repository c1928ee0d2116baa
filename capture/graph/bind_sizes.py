"""Puts numbers in the place of sizes that may vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...eager.arrays.shapes import TensorType
from ..sizes.symbolic_dim import Dim
from .graph import Graph, Node, Nodes, rebuild
from .graph_builder import literal


def bind_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph for these sizes: in types, in params and where a size is an operand."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        kind = TensorType(_known(node.type.shape, sizes), node.type.dtype)
        params = {name: _known(value, sizes) for name, value in node.params.items()}
        if node.op == "const" and type(node.params["value"]) is Dim:
            return nodes.const(*literal(params["value"], kind.dtype))
        return nodes.make(node.op, inputs, params, kind, node.site)

    return rebuild(graph, visit)


def _known(value: Any, sizes: Mapping[str, int]) -> Any:
    if type(value) is Dim:
        return value.expr.value(sizes)
    return tuple(_known(v, sizes) for v in value) if type(value) is tuple else value


def has_symbols(graph: Graph) -> bool:
    """Whether a graph holds a size that may vary."""
    return any(True for n in (*graph.inputs, *graph.nodes())
               for _ in dims_in((n.type.shape, *n.params.values())))


def dims_in(value: Any) -> Iterator[Dim]:
    """The sizes that may vary in a value, in tuples too."""
    if type(value) is Dim:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from dims_in(part)


def sizes_of(node: Node) -> set[str]:
    """The names of all sizes in a node."""
    return {name for dim in dims_in((node.type.shape, *node.params.values()))
            for name in dim.expr.symbols()}


def plain_sizes(node: Node) -> set[str]:
    """The names of sizes that are, as they are, the size of an axis."""
    return {dim.expr.name for dim in dims_in(node.type.shape) if dim.expr.name is not None}
