"""Finds the side effects of a run by comparing snapshots, and turns them into assignments.

A replay computes all new values from the old state before it assigns them, so that an error leaves
every object unchanged. Assignments do not run user code: further effects of a property or of
`__setattr__` are changes of their own.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor
from ...eager.core.views import bases_of
from ..heap.access_path import Members, Path
from ..heap.grad_hook_guards import hooks_of
from ..heap.mutations import (
    AddAll,
    DeleteAttribute,
    DeleteItem,
    Extend,
    MakeLeaf,
    Mutation,
    ReplaceAll,
    SetArray,
    SetAttribute,
    SetCell,
    SetEdge,
    SetGradient,
    SetItem,
)
from ..heap.object_recipes import GradEdgeOf, Recipe, SameObject
from ..heap.value_kinds import FIXED, SETS, is_plain
from .output_spec import OutputSpecBuilder
from .tracer import Tracer

_ITEMS = (dict, defaultdict, Counter)  # whose items are set by `d[k] = v` and nothing else
_CONTAINERS = (list, deque, OrderedDict, *_ITEMS)


class SideEffect(NamedTuple):
    """An assignment: the path of the target, the mutation, and the recipe of the value."""

    target: Path
    assign: Mutation
    value: Recipe
    node: int | None = None  # for a tensor's new array: index of the output

    @property
    def part(self) -> Path | None:
        """The path of the attribute or item that is set, or None."""
        return self.assign.part(self.target)

    def __str__(self) -> str:
        return str(self.part or self.target)

    @property
    def changes_tape(self) -> bool:
        """True if it changes the tape edge of a tensor from outside."""
        return isinstance(self.assign, (SetEdge, MakeLeaf))


def find_effects(tracer: Tracer, outputs: OutputSpecBuilder) -> list[SideEffect]:
    """The side effects of a traced run. Refuses the trace if a replay could not repeat them."""
    state, effects = tracer.state, list[SideEffect]()
    for path, before, now in list(state.changes()):
        tracer.changed_paths.append(path)
        effects.extend(_effects(tracer, path, before, now, outputs))
    for function, part in state.changed_functions():
        tracer.refuse(f"{part} of {function} changes")
    for path, was, is_now in list(state.changed_fields()):
        tracer.changed_paths.append(path)
        effects.extend(_attribute_effects(tracer, path, was, is_now, outputs))
    return _without_views(tracer, effects) + list(_gradient_resets(tracer))


def _without_views(tracer: Tracer, effects: list[SideEffect]) -> list[SideEffect]:
    """The effects without new arrays of views whose base gets a new array: it changes its views."""
    values = tracer.state.values
    changed = {id(values[e.target]) for e in effects if isinstance(e.assign, SetArray)}
    return [e for e in effects if not isinstance(e.assign, SetArray) or changed.isdisjoint(
        map(id, bases_of(values[e.target])))]


def _gradient_resets(tracer: Tracer) -> Iterator[SideEffect]:
    """Gradients that the run set to None and that were None: in other calls they may be set."""
    state = tracer.state
    for path, held in state.held.items():
        value = state.values[path]
        if id(value) in tracer.grads_set and isinstance(value, Tensor) \
                and value._grad is None and held[1] is None:
            yield SideEffect(path, SetGradient(), SameObject(None))


def _effects(tracer: Tracer, path: Path, before: Any, now: Any,
             outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    value = tracer.state.values[path]
    if path.kind == "globals" or isinstance(value, Members):
        return _item_effects(tracer, path, before, now, outputs)
    if isinstance(value, types.FunctionType):
        return _cell_effects(tracer, path, before, now, outputs)
    if isinstance(value, Tensor):
        return _tensor_effects(path, value, before, now, outputs)
    if isinstance(value, SETS):
        return _set_effects(tracer, path, before, now, outputs)
    if isinstance(value, (list, dict, deque)):
        return _container_effects(tracer, path, before, now, outputs)
    return _attribute_effects(tracer, path, before, now, outputs)


def _tensor_effects(path: Path, tensor: Tensor, before: Any, now: Any,
                    outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    if now[0] is not before[0]:
        i = outputs.node(tensor)
        yield SideEffect(path, SetArray(), SameObject(i), i)
    if now[1] is not before[1]:
        yield SideEffect(path, SetGradient(), outputs.recipe(now[1]))


def find_tape_effects(tracer: Tracer, outputs: OutputSpecBuilder) -> list[SideEffect]:
    """The changes of tape edges of tensors from outside."""
    effects = []
    for path, before in tracer.state.edges.items():
        tensor = tracer.state.values[path]
        if hooks_of(before) != tracer.state.hooks[path]:
            tracer.refuse(f"a hook on the gradient of {path} is registered or removed")
        if tensor.edge is before:
            continue
        if tensor.edge is None:
            effects.append(SideEffect(path, SetEdge(), SameObject(None)))
        elif isinstance(tensor.edge, Leaf):
            effects.append(SideEffect(path, MakeLeaf(), SameObject(None)))
        else:
            effects.append(SideEffect(path, SetEdge(), GradEdgeOf(outputs.tensor(tensor))))
    return effects


def _item_effects(tracer: Tracer, path: Path, before: dict[Any, Any], now: dict[Any, Any],
                  outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    if not all(_is_stable_key(key) for key in before.keys() ^ now.keys()):
        tracer.refuse(f"an item whose key is an object is added or deleted ({path})")
    for name in before.keys() - now.keys():
        yield SideEffect(path, DeleteItem(name), SameObject(None))
    for name, value in now.items():
        if name not in before or before[name] is not value:
            yield SideEffect(path, SetItem(name), outputs.recipe(value))


def _cell_effects(tracer: Tracer, path: Path, before: Any, now: Any,
                  outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    for i, (old, value) in enumerate(zip(before, now)):
        if old is not value:
            name = tracer.state.values[path].__code__.co_freevars[i]
            yield SideEffect(path, SetCell(i, name), outputs.recipe(value))


def _attribute_effects(tracer: Tracer, path: Path, before: dict[str, Any], now: dict[str, Any],
                       outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    value = tracer.state.values[path]
    for name in before.keys() - now.keys():
        yield SideEffect(path, DeleteAttribute(name), SameObject(None))
    for name, new in now.items():
        if name not in before or before[name] is not new:
            if name not in before:
                tracer.created.append((path, name))
            yield SideEffect(path, attribute_setter(value, name), outputs.recipe(new))


def _set_effects(tracer: Tracer, path: Path, before: Any, now: Any,
                 outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    if isinstance(now, bytearray):
        yield SideEffect(path, ReplaceAll(), outputs.recipe(bytes(now)))
    elif before <= now:
        yield SideEffect(path, AddAll(), outputs.recipe([v for v in now if v not in before]))
    else:
        yield SideEffect(path, ReplaceAll(), outputs.recipe(list(now)))


def _container_effects(tracer: Tracer, path: Path, before: Any, now: Any,
                       outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    value = tracer.state.values[path]
    if type(value) not in _CONTAINERS:
        tracer.refuse(f"{path} changes, and its class {type(value).__name__} may override how "
                      "items are set")
    elif isinstance(value, dict):
        yield from _dict_effects(tracer, path, before, now, outputs)
    elif len(before) == len(now) and isinstance(value, list):
        yield from _item_effects(tracer, path, dict(before), dict(now), outputs)
    elif _begins_with(now, before) and getattr(value, "maxlen", None) is None:
        added = [element for _, element in now[len(before):]]
        yield SideEffect(path, Extend(), outputs.recipe(added))
    else:
        yield SideEffect(path, ReplaceAll(), outputs.recipe([element for _, element in now]))


def _dict_effects(tracer: Tracer, path: Path, before: Any, now: Any,
                  outputs: OutputSpecBuilder) -> Iterator[SideEffect]:
    """One effect for each changed item; one for all items if their order changes."""
    old, new = dict(before), dict(now)
    if list(new) == [k for k in old if k in new] + [k for k in new if k not in old]:
        yield from _item_effects(tracer, path, old, new, outputs)
    else:
        yield SideEffect(path, ReplaceAll(), outputs.recipe(new))


def _is_stable_key(key: Any) -> bool:
    """True if a key is equal in each call."""
    return all(map(_is_stable_key, key)) if type(key) is tuple else \
        is_plain(key) or isinstance(key, FIXED)


def _begins_with(now: Any, before: Any) -> bool:
    return len(now) >= len(before) and all(a[1] is b[1] for a, b in zip(now, before))


def attribute_setter(owner: Any, name: str) -> Mutation:
    """The mutation that sets an attribute without calling a property or `__setattr__`."""
    if isinstance(owner, type):
        return SetAttribute(name)
    member = getattr(type(owner), name, None)
    if isinstance(member, types.MemberDescriptorType) or not hasattr(owner, "__dict__"):
        return SetAttribute(name)
    return SetAttribute(name, hasattr(type(member), "__set__") and name in vars(owner))
