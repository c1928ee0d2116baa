"""Checks of values whose results nobody reads: eager raises their errors, so replays make them.

A replay computes what is read. Of an op that raises an error for some values, and that nothing
reads, it makes the check alone: that indices are in range, or, of a decomposition, all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...eager.core.op import OPS
from ..graph.graph import Node, Nodes, param_key
from ..graph.graph_builder import build
from ..passes.bounds_checks import is_below, source_of
from ..scalars.scalar_expr import ScalarExpr, elements
from ..segments.segment import cone
from ..trace.tracer import Tracer


def find_checks(recorder: Tracer, outputs: Sequence[Node]) -> list[list[Node]]:
    """The nodes to compute for their errors alone, before each element of the path that a run took,
    and behind the last one."""
    found: list[list[Node]] = [[] for _ in range(len(recorder.path) + 1)]
    if recorder.raising:
        live = set(cone([*outputs, *_nodes_in(recorder.path)]))
        made = {key for n in live for key in _made_by(n)}
        for at, node in recorder.raising:
            if node not in live:
                found[at] += [c for c in _checks_of(recorder.nodes, node) if _is_new(c, made)]
    return found


def _nodes_in(value: Any) -> Iterator[Node]:
    """The nodes that elements of a path hold."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, ScalarExpr):
        yield from elements([value])
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _nodes_in(part)


def _indices(node: Node) -> Iterable[tuple[Node, Any, str]]:
    """The values that a node takes as indices, the size that they must be below, and what to call
    them."""
    if node.op == "check_index":
        return [(node.inputs[0], node.params["size"], node.params["what"])]
    bounds = OPS[node.op].bounds if node.op in OPS else None
    if bounds is None:
        return []
    return [(node.inputs[i], size, f"{node.op}: index")
            for i, size in bounds(*[n.type for n in node.inputs], **node.params)]


def _made_by(node: Node) -> Iterator[Any]:
    """Keys of the checks that code for a node makes."""
    return (_key(index, size) for index, size, _ in _indices(node))


def _key(index: Node, size: Any) -> Any:
    node, low = source_of(index, size)
    return node, param_key(size), low == 0


def _checks_of(nodes: Nodes, node: Node) -> Iterator[Node]:
    """What to compute in the place of a node, for its errors alone."""
    if node.kind == "composite":
        root = build(nodes, OPS[node.op].meaning, node.inputs, dict(node.params), node.site)
        for inner in cone([root], node.inputs):
            if inner not in node.inputs:
                yield from _checks_of(nodes, inner)
    elif node.op in OPS and OPS[node.op].raises:
        yield node
    else:
        for index, size, what in _indices(node):
            yield nodes.make("check_index", (index,), {"size": size, "what": what}, index.type,
                             node.site)


def _is_new(check: Node, made: Collection[Any]) -> bool:
    """Whether nothing else makes a check, and it can fail."""
    return not any(is_below(source_of(index, size)[0], size) or _key(index, size) in made
                   for index, size, _ in _indices(check))
