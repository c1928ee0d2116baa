"""Finds guards on views: on where the elements of tensors lie, which decides whether a reshape is a
view, and on tensors whose base would change with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...eager.core.views import strides_of
from ..graph.graph import Node
from ..heap.access_path import Path, describe
from ..heap.mutations import SetArray, SetEdge
from ..trace.side_effects import SideEffect
from ..trace.tracer import Tracer
from .guards import Guard


def find_layout_guards(tracer: Tracer, outputs: Sequence[Node]) -> Iterator[Guard]:
    """Guards on the strides of the tensors of which a reshape is returned, or may be written.

    A view that is an argument may lie in its root otherwise in another call. Then eager code gets
    a copy in place of a view, or the reverse. Without writes, only `outputs` tell them apart.
    """
    with tracer.sizes.recording(False):
        paths = _reshaped(tracer, None if tracer.state.has_writes else set(outputs))
    for path in paths:
        strides = strides_of(tracer.state.values[path])
        yield Guard(path, "layout", {"K": strides},
                    f"{describe(path)} lies in its base with the distances {strides}" if strides
                    else f"{describe(path)} is no view, or has its elements in row-major order",
                    "identity")


def find_base_guards(tracer: Tracer, effects: Sequence[SideEffect]) -> Iterator[Guard]:
    """Guards on changed tensors that are no views in the trace, which changes no base.

    A replay changes the values of any base as well, unless elements of the view repeat: then a
    write to one of them changes others. It does not change the edge of a base.
    """
    for effect in effects:
        path = effect.target
        if not isinstance(effect.assign, SetArray | SetEdge) \
                or tracer.state.bases[path] is not None:
            continue
        if isinstance(effect.assign, SetEdge):
            yield Guard(path, "no view", {}, f"{describe(path)} is no view", "identity")
        else:
            yield Guard(path, "no repeats", {}, f"no elements of {describe(path)} repeat in its "
                        "base", "identity")


def _reshaped(tracer: Tracer, among: set[Node] | None) -> list[Path]:
    """The paths of tensors whose elements reach a reshape through ops that may be views. All of
    those that are read, if a reshape has its elements from another path or iteration.

    `among`: only those whose elements reach one of these nodes by further such ops.
    """
    path_of = {node: path for path, node in tracer.sources.items()}
    origins: dict[Node, tuple[Node, bool]] = {}  # of each view; True behind a reshape
    for node in tracer.nodes:
        if node.op == "input":
            origins[node] = (node, False)
        elif node.kind == "view" and node.inputs[0] in origins:
            origin, reshaped = origins[node.inputs[0]]
            origins[node] = (origin, reshaped or _moves_axes(node))
    found = [origin for node, (origin, reshaped) in origins.items()
             if reshaped and (among is None or node in among)]
    names = tracer.names
    if any(node not in names.paths and node not in names.numbers for node in found):  # a phi
        found = list(path_of)
    return [path_of[node] for node in dict.fromkeys(found)
            if node in path_of and len(node.type.shape) > 1]


def _moves_axes(node: Node) -> bool:
    """True for a reshape that does more than add or drop axes of size 1."""
    return node.op == "reshape" and \
        [n for n in node.type.shape if n != 1] != [n for n in node.inputs[0].type.shape if n != 1]
