"""State of a training step: tensors that it changes, as inputs and outputs of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ....capture.graph.graph import Node
from ....capture.heap.access_path import Path
from ....capture.replay.path_enumeration import Explored
from ....capture.trace.export_tracer import ExportTrace, dotted
from ....eager.core.tensor import Tensor


class Held(NamedTuple):
    """A tensor that a step changes: the names of its value before and after, and who holds it."""

    name: str
    after: str
    node: Node
    tensors: list[Tensor]


def states_of(ways: Explored, names: Mapping[int, str]) -> list[Held]:
    """What the function changes on any way, named as the module or the optimizer names it."""
    outside = ways.names.outside
    own: dict[int, str] = {}
    for node, tensors in ways.states.items():
        name = names.get(id(outside[node].array)) or dotted(outside[node].path)
        own.update((id(t), name) for t in tensors)
    found: dict[str, Held] = {}
    for node, tensors in ways.states.items():
        wanted = _name(outside[node].path, own, own[id(tensors[0])], len(tensors) > 1)
        name = _unique(wanted or "state", found)
        found[name] = Held(name, f"{name}.new", node, tensors)
    return list(found.values())


def _name(path: Path | None, names: Mapping[int, str], own: str, shared: bool) -> str:
    """The name of a state; of an optimizer's that of the parameter comes first."""
    above = path.parent if path is not None else None
    key = getattr(above.key, "value", None) if above is not None else None
    if path is None or not isinstance(key, Tensor):
        return own
    word = str(getattr(path.key, "value", path.key))
    return word if shared else f"{names.get(id(key), 'parameter')}.{word}"


def _unique(wanted: str, taken: Mapping[str, Held]) -> str:
    name, count = wanted, 1
    while name in taken:
        name, count = f"{wanted}_{count}", count + 1
    return name


def after(run: ExportTrace, held: list[Held]) -> list[Node]:
    """The nodes of what the states are after a run: themselves where it left them."""
    return [run.after.get(h.node, h.node) for h in held]
