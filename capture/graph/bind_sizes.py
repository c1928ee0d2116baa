"""Replaces symbolic sizes in a graph by numbers, and finds the symbolic sizes of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...eager.arrays.shapes import TensorType
from ..sizes.symbolic_dim import Dim
from .graph import Graph, Node, Nodes, rebuild
from .graph_builder import literal


def bind_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph with these numbers for its sizes, in types, in params and in operands."""

    def visit(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        kind = TensorType(_bound(node.type.shape, sizes), node.type.dtype)
        params = {name: _bound(value, sizes) for name, value in node.params.items()}
        if node.op == "const" and type(node.params["value"]) is Dim:
            return nodes.const(*literal(params["value"], kind.dtype))
        return nodes.make(node.op, inputs, params, kind, node.site)

    return rebuild(graph, visit)


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    if type(value) is Dim:
        return value.expr.value(sizes)
    return tuple(_bound(v, sizes) for v in value) if type(value) is tuple else value


def has_symbols(graph: Graph) -> bool:
    """True if a graph holds a symbolic size."""
    return any(True for n in (*graph.inputs, *graph.nodes())
               for _ in dims_in((n.type.shape, *n.params.values())))


def dims_in(value: Any) -> Iterator[Dim]:
    """The symbolic sizes in a value, including those in nested tuples."""
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
    """The names of sizes that are the whole size of one of the node's axes."""
    return {dim.expr.name for dim in dims_in(node.type.shape) if dim.expr.name is not None}
