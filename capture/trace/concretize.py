"""Replaces symbols by plain numbers in all objects that a traced run has changed or returned."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ...eager.core.tape import Entry, Leaf  # the tracer settles the tape
from ...eager.core.tensor import Tensor, is_bare
from ..heap.access_path import Members
from ..heap.introspection import EMPTY, attributes, cells, own_members
from ..heap.snapshot import HeapSnapshot
from ..heap.value_kinds import FIXED
from ..scalars.symbolic_scalar import SYMBOLS, plain_value

Assign = Callable[[Any], None]


def concretize(state: HeapSnapshot, result: Any, actual: Mapping[int, Tensor]) -> Any:
    """Returns `result` with plain numbers for symbols, and with the `actual` tensors in place of
    those with these ids. Replaces them in changed objects, too."""
    seen = dict[int, Any].fromkeys(state.paths)  # older objects are among the changes
    seen.update(actual)
    for path, before, now in [*state.changes(), *state.changed_fields()]:
        _concretize_contents(state.values[path], seen, _ids(now) - _ids(before))
    return _concrete(result, seen)


def _concrete(value: Any, seen: dict[int, Any]) -> Any:
    plain = plain_value(value)
    if plain is not value:
        return plain
    if is_bare(value):
        return value if seen.get(id(value)) is None else seen[id(value)]
    if isinstance(value, tuple):
        parts = [_concrete(v, seen) for v in value]
        same = all(a is b for a, b in zip(parts, value))
        return value if same else tuple.__new__(type(value), parts)
    if id(value) not in seen and not isinstance(value, (Tensor, Entry, Leaf, *FIXED)):
        seen[id(value)] = value
        _concretize_contents(value, seen)
    return value


def _is_symbolic(key: Any) -> bool:
    return type(key) in SYMBOLS or (isinstance(key, tuple) and any(map(_is_symbolic, key)))


def _ids(contents: Any) -> set[int]:
    """The ids of the values in a copy of an object's contents."""
    if isinstance(contents, dict):
        return set(map(id, contents.values()))
    if isinstance(contents, list):
        return {id(element) for _, element in contents}
    return set(map(id, contents))


def _concretize_contents(value: Any, seen: dict[int, Any],
                         new: Collection[int] | None = None) -> None:
    """Replaces symbols in an object; `new`: the ids of the values that may hold symbols."""
    if isinstance(value, dict) and any(map(_is_symbolic, value)):
        items = list(value.items())
        value.clear()
        value.update((_concrete(k, seen), v) for k, v in items)
    if isinstance(value, set) and any(map(_is_symbolic, value)):
        numbers = [v for v in value if _is_symbolic(v)]
        value.difference_update(numbers)
        value.update(_concrete(v, seen) for v in numbers)
    for old, assign in list(_slots(value)):
        if new is None or id(old) in new:
            plain = _concrete(old, seen)
            if plain is not old:
                assign(plain)


def _slots(value: Any) -> Iterator[tuple[Any, Assign]]:
    """The values that an object holds, each with a function that assigns another."""
    if isinstance(value, Members):
        for name, held in vars(value.owner).items():
            yield held, _setter(setattr, value.owner, name)
    elif isinstance(value, type):
        for name, held in own_members(value).items():
            yield held, _setter(setattr, value, name)
    elif isinstance(value, (list, deque)):
        for i, held in enumerate(value):
            yield held, _setter(type(value).__setitem__, value, i)
    elif isinstance(value, dict):
        for key, held in value.items():
            yield held, _setter(dict.__setitem__, value, key)
    if isinstance(value, types.FunctionType):
        for cell, held in zip(value.__closure__ or (), cells(value)):
            if held is not EMPTY:
                yield held, _setter(setattr, cell, "cell_contents")
    for name, held in attributes(value).items():
        yield held, _setter(object.__setattr__, value, name)


def _setter(function: Callable[..., None], owner: Any, key: Any) -> Assign:
    return lambda new: function(owner, key, new)
