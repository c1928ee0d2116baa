"""Measures calls between a model's functions: their depth, and the nodes that they expand to.

If each of n functions calls the next one twice, there are 2^n nodes. Equal calls share a method,
but a model that expands to too many nodes would never finish.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .....eager.errors import ImportModelError
from ..runtime.limits import Meter

MAX_CALL_DEPTH = 50

Key = tuple[str, str, str]


def key_of(x: Any) -> Key:
    """The name of a function, or of the function that a node may call."""
    name = x.op_type if hasattr(x, "op_type") else x.name
    return "" if x.domain == "ai.onnx" else x.domain, name, getattr(x, "overload", "")


def nodes_in(nodes: Any) -> Iterator[Any]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for a in node.attribute:
            for graph in (a.g, *a.graphs) if a.HasField("g") else a.graphs:
                yield from nodes_in(graph.node)


def check_calls(model: Any, meter: Meter) -> None:
    """Raises ImportModelError for recursive or too deep calls, LimitError for too many nodes."""
    functions = {key_of(f): f for f in model.functions}
    extents: dict[Key, Extent] = {}
    for key in functions:
        _measure(key, functions, extents, [], meter)
    meter.nodes(_extent(model.graph.node, extents, meter).nodes)


class Extent(NamedTuple):
    """The number of nodes with those of called functions, and the depth of calls."""

    nodes: int
    depth: int


def _measure(key: Key, functions: dict[Key, Any], extents: dict[Key, Extent], path: list[Key],
             meter: Meter) -> None:
    """Adds the extents of a function and of all functions that it calls to `extents`."""
    if key in extents:
        return
    if key in path:
        raise ImportModelError(f"the function {key[1]} calls itself")
    if len(path) >= MAX_CALL_DEPTH:
        raise _too_deep()
    for other in dict.fromkeys(map(key_of, nodes_in(functions[key].node))):
        if other in functions:
            _measure(other, functions, extents, [*path, key], meter)
    extents[key] = _extent(functions[key].node, extents, meter)
    if extents[key].depth > MAX_CALL_DEPTH:
        raise _too_deep()


def _extent(nodes: Any, extents: dict[Key, Extent], meter: Meter) -> Extent:
    meter.tick()
    called = [extents.get(key_of(node), Extent(0, 0)) for node in nodes_in(nodes)]
    return Extent(len(called) + sum(x.nodes for x in called),
                  1 + max((x.depth for x in called), default=0))


def _too_deep() -> ImportModelError:
    return ImportModelError(f"functions call each other more than {MAX_CALL_DEPTH} levels deep")
