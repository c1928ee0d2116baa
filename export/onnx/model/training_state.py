"""Turns the state of a training step into inputs and outputs of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ....capture.graph.graph import Node
from ....capture.heap.access_path import Path
from ....capture.replay.path_enumeration import Explored
from ....capture.trace.export_tracer import ExportTrace, dotted
from ....eager.core.tensor import Tensor


class ModelState(NamedTuple):
    """A tensor that a step changes: the names of its value before and after, and its owners."""

    name: str
    after: str
    node: Node
    tensors: list[Tensor]


def states_of(paths: Explored, names: Mapping[int, str]) -> list[ModelState]:
    """The tensors that any path changes, named as in the module or the optimizer."""
    outside = paths.names.outside
    own: dict[int, str] = {}
    for node, tensors in paths.states.items():
        name = names.get(id(outside[node].array)) or dotted(outside[node].path)
        own.update((id(t), name) for t in tensors)
    states: dict[str, ModelState] = {}
    for node, tensors in paths.states.items():
        base = _name(outside[node].path, own, own[id(tensors[0])], len(tensors) > 1)
        name = _unique(base or "state", states)
        states[name] = ModelState(name, f"{name}.new", node, tensors)
    return list(states.values())


def _name(path: Path | None, names: Mapping[int, str], own: str, shared: bool) -> str:
    """`own`, or for optimizer state the names of the parameter and of the state."""
    above = path.parent if path is not None else None
    key = getattr(above.key, "value", None) if above is not None else None
    if path is None or not isinstance(key, Tensor):
        return own
    word = str(getattr(path.key, "value", path.key))
    return word if shared else f"{names.get(id(key), 'parameter')}.{word}"


def _unique(base: str, taken: Mapping[str, ModelState]) -> str:
    name, count = base, 1
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name


def after(run: ExportTrace, held: list[ModelState]) -> list[Node]:
    """The nodes of the states at the end of a run."""
    return [run.after.get(h.node, h.node) for h in held]
