"""Finds the checks that a replay must run for ops whose results nothing reads.

A replay computes live values only. Eager raises the errors of dead ops too. So for a dead op that
may raise an error, a replay runs its bounds check, or the whole op if it has no such check. It also
runs every ordered op, at its place on the path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...eager.core.op import OPS
from ..effects.effect_call import EffectCall
from ..graph.graph import Node, Nodes, param_key
from ..graph.graph_builder import build
from ..passes.bounds_checks import indexed_value, is_below, is_zero
from ..scalars.scalar_expr import ScalarExpr, elements
from ..segments.segment import cone
from ..trace.tracer import Tracer


def find_checks(tracer: Tracer, outputs: Sequence[Node]) -> list[list[Node]]:
    """The nodes to compute only for their errors: before each element of the traced path, and after
    the last one."""
    checks: list[list[Node]] = [[] for _ in range(len(tracer.path) + 1)]
    if tracer.raising:
        live = set(cone([*outputs, *_nodes_in(tracer.path)]))
        performed = {key for n in live for key in _keys_of(n)}
        for at, node in tracer.raising:
            if OPS[node.op].ordered:  # it happens before later decisions, read or not
                checks[at].append(node)
            elif node not in live:
                checks[at] += [c for c in checks_of(tracer.nodes, node) if _is_new(c, performed)]
    return checks


def _nodes_in(value: Any) -> Iterator[Node]:
    """The graph nodes in the elements of a path."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, ScalarExpr):
        yield from elements([value])
    elif isinstance(value, EffectCall):
        yield from _nodes_in((value.nodes, value.formulas))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _nodes_in(part)


def _indices(node: Node) -> Iterable[tuple[Node, dict[str, Any]]]:
    """Each operand that a node uses as an index, with the parameters of its check."""
    if node.op == "check_index":
        return [(node.inputs[0], dict(node.params))]
    bounds = OPS[node.op].bounds if node.op in OPS else None
    if bounds is None:
        return []
    return [(node.inputs[i], {"size": size, "what": f"{node.op}: index"})
            for i, size in bounds(*[n.type for n in node.inputs], **node.params)]


def _keys_of(node: Node) -> Iterator[Any]:
    """The keys of the checks that the code of a node performs."""
    return (_key(index, **check) for index, check in _indices(node))


def _key(index: Node, size: Any, what: str, low: Any = 0) -> Any:
    node, low = indexed_value(index, size, low)
    return node, param_key(size), is_zero(low)


def checks_of(nodes: Nodes, node: Node) -> Iterator[Node]:
    """The nodes to compute instead of a node, only for its errors."""
    if node.kind == "composite":
        root = build(nodes, OPS[node.op].meaning, node.inputs, dict(node.params), node.site)
        for inner in cone([root], node.inputs):
            if inner not in node.inputs:
                yield from checks_of(nodes, inner)
    elif node.op in OPS and OPS[node.op].raises:
        yield node
    else:
        for index, check in _indices(node):
            yield nodes.make("check_index", (index,), check, index.type, node.site)


def _is_new(check: Node, performed: Collection[Any]) -> bool:
    """True if a check can fail and no other node performs it."""
    return not any(is_below(_key(index, **params)[0], params["size"])
                   or _key(index, **params) in performed for index, params in _indices(check))
