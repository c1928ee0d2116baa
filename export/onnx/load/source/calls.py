"""Functions of a model before anything follows their calls: how deep, and how many nodes in all.

Where each of n functions calls the next one twice, there are 2^n nodes. A method is made once for
calls that are alike, but a model whose calls stand for so many nodes would never come to an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .....eager.errors import ImportModelError
from ..runtime.limits import Meter

MOST = 50  # functions that call each other

Key = tuple[str, str, str]


def key_of(x: Any) -> Key:
    """The name of a function, or of that which a node may call."""
    name = x.op_type if hasattr(x, "op_type") else x.name
    return "" if x.domain == "ai.onnx" else x.domain, name, getattr(x, "overload", "")


def nodes_in(nodes: Any) -> Iterator[Any]:
    """Nodes, with those of graphs inside of them."""
    for node in nodes:
        yield node
        for a in node.attribute:
            for graph in (a.g, *a.graphs) if a.HasField("g") else a.graphs:
                yield from nodes_in(graph.node)


def check_calls(model: Any, meter: Meter) -> None:
    """ImportModelError for calls that go too deep or round, LimitError for too many nodes."""
    functions = {key_of(f): f for f in model.functions}
    known: dict[Key, Extent] = {}
    for key in functions:
        _measure(key, functions, known, [], meter)
    meter.nodes(_extent(model.graph.node, known, meter).nodes)


class Extent(NamedTuple):
    """How many nodes there are with those of functions, and how deep these call each other."""

    nodes: int
    depth: int


def _measure(key: Key, functions: dict[Key, Any], known: dict[Key, Extent], path: list[Key],
             meter: Meter) -> None:
    """Enters the extent of a function, and of all that it calls."""
    if key in known:
        return
    if key in path:
        raise ImportModelError(f"the function {key[1]} calls itself")
    if len(path) >= MOST:
        raise _too_deep()
    for other in dict.fromkeys(map(key_of, nodes_in(functions[key].node))):
        if other in functions:
            _measure(other, functions, known, [*path, key], meter)
    known[key] = _extent(functions[key].node, known, meter)
    if known[key].depth > MOST:
        raise _too_deep()


def _extent(nodes: Any, known: dict[Key, Extent], meter: Meter) -> Extent:
    meter.tick()
    called = [known.get(key_of(node), Extent(0, 0)) for node in nodes_in(nodes)]
    return Extent(len(called) + sum(x.nodes for x in called),
                  1 + max((x.depth for x in called), default=0))


def _too_deep() -> ImportModelError:
    return ImportModelError(f"functions call each other more than {MOST} deep")
