"""What a run changed outside of itself, found by comparing, and how a replay does the same.

A replay computes all new values from the old state first and assigns them after, so that an error
on the way leaves everything as it was.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple

from ..eager.tape import Leaf
from ..eager.tensor import Tensor
from .numbers import Number
from .paths import Path
from .recorder import Recorder
from .state import SETS
from .template import Make, Outputs


class Effect(NamedTuple):
    """An assignment: target object by path, how to assign, how to make the value."""

    target: Path
    assign: Callable[[Any, Any], None]
    value: Make
    node: int | None = None  # for a tensor's new array: which output it is


def find_effects(recorder: Recorder, outputs: Outputs) -> list[Effect]:
    """The effects of the run that `recorder` noted; refuses what a replay could not do exactly."""
    effects: list[Effect] = []
    for path, before, now in recorder.state.changes():
        value = recorder.state.values[path]
        recorder.changed_paths.append(path)
        if path.kind == "globals":
            effects.extend(_global_effects(recorder, path, before, now, outputs))
        elif isinstance(value, types.FunctionType):
            effects.extend(_cell_effects(recorder, path, before, now, outputs))
        elif isinstance(value, SETS):
            recorder.refuse(f"a {type(value).__name__} changes ({path})")
        elif isinstance(value, Tensor):
            effects.extend(_tensor_effects(path, value, before, now, outputs))
        elif isinstance(value, (list, dict)):
            effects.extend(_container_effects(recorder, path, before, now, value, outputs))
        else:
            effects.extend(_attribute_effects(recorder, path, before, now, outputs))
    return effects


def _tensor_effects(path: Path, tensor: Tensor, before: Any, now: Any, outputs: Outputs) -> Any:
    if now[0] is not before[0]:
        i = outputs.node(tensor)
        yield Effect(path, _set_array, _array(i), i)
    if now[1] is not before[1]:
        yield Effect(path, _set_grad, outputs.template(now[1]))


def changes_of_tape(recorder: Recorder, outputs: Outputs) -> list[Effect]:
    """The effects on where gradients of tensors from outside go."""
    effects = []
    for path, before in recorder.state.edges.items():
        tensor = recorder.state.values[path]
        if tensor.edge is before:
            continue
        if tensor.edge is None:
            effects.append(Effect(path, _set_edge, lambda tensors, read: None))
        elif isinstance(tensor.edge, Leaf):
            effects.append(Effect(path, _make_leaf, lambda tensors, read: None))
        else:
            effects.append(Effect(path, _set_edge, _edge(outputs.tensor(tensor))))
    return effects


def _edge(i: int) -> Make:
    return lambda tensors, read: tensors[i].edge


def _set_edge(tensor: Any, edge: Any) -> None:
    tensor.edge = edge


def _make_leaf(tensor: Any, value: Any) -> None:
    tensor.edge = Leaf(tensor)


def _array(i: int) -> Make:
    return lambda tensors, read: i  # the replay puts the array of output i here


def _set_array(tensor: Any, array: Any) -> None:
    tensor.data = array


def _set_grad(tensor: Any, value: Any) -> None:
    tensor._grad = value


def _global_effects(recorder: Recorder, path: Path, before: Any, now: Any, outputs: Outputs) -> Any:
    for name, value in now.items():
        if name not in before or before[name] is not value:
            _refuse_number(recorder, f"global {name}", before.get(name), value)
            yield Effect(path, _item_setter(name), outputs.template(value))
    if before.keys() - now.keys():
        recorder.refuse("a global is deleted")


def _cell_effects(recorder: Recorder, path: Path, before: Any, now: Any, outputs: Outputs) -> Any:
    names = recorder.state.values[path].__code__.co_freevars
    for i, (old, value) in enumerate(zip(before, now)):
        if old is not value:
            _refuse_number(recorder, f"closure variable {names[i]}", old, value)
            yield Effect(path, _cell_setter(i), outputs.template(value))


def _attribute_effects(
    recorder: Recorder, path: Path, before: Any, now: Any, outputs: Outputs
) -> Any:
    for name, value in now.items():
        if name not in before or before[name] is not value:
            if name not in before:
                recorder.created.append((path, name))
            _refuse_number(recorder, f"{path}.{name}", before.get(name), value)
            yield Effect(path, _setter(name), outputs.template(value))
    for name in before.keys() - now.keys():
        yield Effect(path, _deleter(name), outputs.template(None))


def _container_effects(
    recorder: Recorder, path: Path, before: Any, now: Any, value: Any, outputs: Outputs
) -> Any:
    old, new = dict(before), dict(now)
    if isinstance(value, list) and len(old) != len(new):
        recorder.refuse(f"the length of a list changes ({path})")
    for key, element in new.items():
        if key not in old or old[key] is not element:
            _refuse_number(recorder, f"{path}[{key!r}]", old.get(key), element)
            yield Effect(path, _item_setter(key), outputs.template(element))
    for key in old.keys() - new.keys():
        yield Effect(path, _item_deleter(key), outputs.template(None))


def _refuse_number(recorder: Recorder, what: str, before: Any, now: Any) -> None:
    """A number that changes on each call would be another constant each time: not followed yet."""
    if isinstance(now, (int, float, complex)) and not isinstance(now, bool) and \
            type(now) is not Number and not isinstance(before, (int, float)):
        recorder.refuse(f"{what} is a Python number that changes from call to call; "
                        "keep it in a tensor to have it compiled")


def _setter(name: str) -> Callable[[Any, Any], None]:
    return lambda target, value: setattr(target, name, value)


def _deleter(name: str) -> Callable[[Any, Any], None]:
    return lambda target, value: delattr(target, name)


def _cell_setter(index: int) -> Callable[[Any, Any], None]:
    def assign(target: Any, value: Any) -> None:
        target.__closure__[index].cell_contents = value

    return assign


def _item_setter(key: Any) -> Callable[[Any, Any], None]:
    def assign(target: Any, value: Any) -> None:
        target[key] = value

    return assign


def _item_deleter(key: Any) -> Callable[[Any, Any], None]:
    return lambda target, value: target.pop(key)
