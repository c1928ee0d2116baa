"""What a run changed outside of itself, found by comparing, and how a replay does the same.

A replay computes all new values from the old state first and assigns them after, so that an error
on the way leaves everything as it was. A value is assigned without running code of the user's:
what a property or `__setattr__` did beyond that is among the changes itself.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor
from ..heap.access_path import Members, Path
from ..heap.grad_hook_guards import hooks_of
from ..heap.mutations import (
    AddAll,
    Change,
    DeleteAttribute,
    DeleteItem,
    Extend,
    MakeLeaf,
    ReplaceAll,
    SetArray,
    SetAttribute,
    SetCell,
    SetEdge,
    SetGradient,
    SetItem,
)
from ..heap.object_recipes import EdgeOf, Make, Same
from ..heap.snapshot import FIXED, SETS, is_plain
from .output_spec import Outputs
from .tracer import Tracer

_ITEMS = (dict, defaultdict, Counter)  # whose items are set by `d[k] = v` and nothing else
_CONTAINERS = (list, deque, OrderedDict, *_ITEMS)


class SideEffect(NamedTuple):
    """An assignment: target object by path, how to assign, how to make the value."""

    target: Path
    assign: Change
    value: Make
    node: int | None = None  # for a tensor's new array: which output it is

    @property
    def part(self) -> Path | None:
        """The attribute or item that is set, where it is one."""
        return self.assign.part(self.target)

    def __str__(self) -> str:
        return str(self.part or self.target)

    @property
    def changes_tape(self) -> bool:
        """Whether it changes where the gradient of a tensor from outside goes."""
        return isinstance(self.assign, (SetEdge, MakeLeaf))


def find_effects(recorder: Tracer, outputs: Outputs) -> list[SideEffect]:
    """The effects of the run that `recorder` noted; refuses what a replay could not do exactly."""
    state, effects = recorder.state, list[SideEffect]()
    for path, before, now in list(state.changes()):
        recorder.changed_paths.append(path)
        effects.extend(_effects(recorder, path, before, now, outputs))
    for path, was, is_now in list(state.changed_fields()):
        recorder.changed_paths.append(path)
        effects.extend(_attribute_effects(recorder, path, was, is_now, outputs))
    return effects + list(_gradients_taken(recorder))


def _gradients_taken(recorder: Tracer) -> Iterator[SideEffect]:
    """Gradients that the run set to None where they were None: in other calls they may not be."""
    state = recorder.state
    for path, held in state.held.items():
        value = state.values[path]
        if id(value) in recorder.grads_set and isinstance(value, Tensor) \
                and value._grad is None and held[1] is None:
            yield SideEffect(path, SetGradient(), Same(None))


def _effects(recorder: Tracer, path: Path, before: Any, now: Any,
             outputs: Outputs) -> Iterator[SideEffect]:
    value = recorder.state.values[path]
    if path.kind == "globals" or isinstance(value, Members):
        return _item_effects(recorder, path, before, now, outputs)
    if isinstance(value, types.FunctionType):
        return _cell_effects(recorder, path, before, now, outputs)
    if isinstance(value, Tensor):
        return _tensor_effects(path, value, before, now, outputs)
    if isinstance(value, SETS):
        return _set_effects(recorder, path, before, now, outputs)
    if isinstance(value, (list, dict, deque)):
        return _container_effects(recorder, path, before, now, outputs)
    return _attribute_effects(recorder, path, before, now, outputs)


def _tensor_effects(path: Path, tensor: Tensor, before: Any, now: Any,
                    outputs: Outputs) -> Iterator[SideEffect]:
    if now[0] is not before[0]:
        i = outputs.node(tensor)
        yield SideEffect(path, SetArray(), Same(i), i)
    if now[1] is not before[1]:
        yield SideEffect(path, SetGradient(), outputs.template(now[1]))


def changes_of_tape(recorder: Tracer, outputs: Outputs) -> list[SideEffect]:
    """The effects on where gradients of tensors from outside go."""
    effects = []
    for path, before in recorder.state.edges.items():
        tensor = recorder.state.values[path]
        if hooks_of(before) != recorder.state.hooks[path]:
            recorder.refuse(f"a hook on the gradient of {path} is registered or removed")
        if tensor.edge is before:
            continue
        if tensor.edge is None:
            effects.append(SideEffect(path, SetEdge(), Same(None)))
        elif isinstance(tensor.edge, Leaf):
            effects.append(SideEffect(path, MakeLeaf(), Same(None)))
        else:
            effects.append(SideEffect(path, SetEdge(), EdgeOf(outputs.tensor(tensor))))
    return effects


def _item_effects(recorder: Tracer, path: Path, before: dict[Any, Any], now: dict[Any, Any],
                  outputs: Outputs) -> Iterator[SideEffect]:
    if not all(_is_told(key) for key in before.keys() ^ now.keys()):
        recorder.refuse(f"an item whose key is an object is added or removed ({path})")
    for name in before.keys() - now.keys():
        yield SideEffect(path, DeleteItem(name), Same(None))
    for name, value in now.items():
        if name not in before or before[name] is not value:
            yield SideEffect(path, SetItem(name), outputs.template(value))


def _cell_effects(recorder: Tracer, path: Path, before: Any, now: Any,
                  outputs: Outputs) -> Iterator[SideEffect]:
    for i, (old, value) in enumerate(zip(before, now)):
        if old is not value:
            name = recorder.state.values[path].__code__.co_freevars[i]
            yield SideEffect(path, SetCell(i, name), outputs.template(value))


def _attribute_effects(recorder: Tracer, path: Path, before: dict[str, Any], now: dict[str, Any],
                       outputs: Outputs) -> Iterator[SideEffect]:
    value = recorder.state.values[path]
    for name in before.keys() - now.keys():
        yield SideEffect(path, DeleteAttribute(name), Same(None))
    for name, new in now.items():
        if name not in before or before[name] is not new:
            if name not in before:
                recorder.created.append((path, name))
            yield SideEffect(path, attribute_setter(value, name), outputs.template(new))


def _set_effects(recorder: Tracer, path: Path, before: Any, now: Any,
                 outputs: Outputs) -> Iterator[SideEffect]:
    if isinstance(now, bytearray):
        yield SideEffect(path, ReplaceAll(), outputs.template(bytes(now)))
    elif before <= now:
        yield SideEffect(path, AddAll(), outputs.template([v for v in now if v not in before]))
    else:
        yield SideEffect(path, ReplaceAll(), outputs.template(list(now)))


def _container_effects(recorder: Tracer, path: Path, before: Any, now: Any,
                       outputs: Outputs) -> Iterator[SideEffect]:
    value = recorder.state.values[path]
    if type(value) not in _CONTAINERS:
        recorder.refuse(f"{path} is changed, and its class {type(value).__name__} may define "
                        "its own assignment")
    elif isinstance(value, dict):
        yield from _dict_effects(recorder, path, before, now, outputs)
    elif len(before) == len(now) and isinstance(value, list):
        yield from _item_effects(recorder, path, dict(before), dict(now), outputs)
    elif _begins_with(now, before) and getattr(value, "maxlen", None) is None:
        added = [element for _, element in now[len(before):]]
        yield SideEffect(path, Extend(), outputs.template(added))
    else:
        yield SideEffect(path, ReplaceAll(), outputs.template([element for _, element in now]))


def _dict_effects(recorder: Tracer, path: Path, before: Any, now: Any,
                  outputs: Outputs) -> Iterator[SideEffect]:
    """Items one by one, or all of them where their order changes in another way."""
    old, new = dict(before), dict(now)
    if list(new) == [k for k in old if k in new] + [k for k in new if k not in old]:
        yield from _item_effects(recorder, path, old, new, outputs)
    else:
        yield SideEffect(path, ReplaceAll(), outputs.template(new))


def _is_told(key: Any) -> bool:
    """Whether a key is the same one in each call."""
    return all(map(_is_told, key)) if type(key) is tuple else \
        is_plain(key) or isinstance(key, FIXED)


def _begins_with(now: Any, before: Any) -> bool:
    return len(now) >= len(before) and all(a[1] is b[1] for a, b in zip(now, before))


def attribute_setter(owner: Any, name: str) -> Change:
    """How to set an attribute without asking a property or `__setattr__`."""
    if isinstance(owner, type):
        return SetAttribute(name)
    member = getattr(type(owner), name, None)
    if isinstance(member, types.MemberDescriptorType) or not hasattr(owner, "__dict__"):
        return SetAttribute(name)
    return SetAttribute(name, hasattr(type(member), "__set__") and name in vars(owner))
