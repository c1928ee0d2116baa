"""Restores the state of a function after an interrupted run."""

from __future__ import annotations

import types
from collections import OrderedDict, deque
from typing import Any

from ...eager.core.tensor import Tensor
from ..heap.access_path import Members, Path
from ..heap.introspection import EMPTY
from ..heap.mutations import DeleteAttribute
from ..heap.snapshot import HeapSnapshot
from .side_effects import attribute_setter


def restore(state: HeapSnapshot) -> None:
    """Restores every object to its contents at the start of the run."""
    for path, before, now in list(state.changes()):
        if path in state.items:
            _set_items(state.values[path], dict(before), dict(now))
            continue
        _restore(path, state.values[path], before, now)
    for path, before, now in list(state.changed_fields()):
        _set_attributes(state.values[path], before, now)
    for path, edge in state.edges.items():
        state.values[path].edge = edge


def _restore(path: Path, value: Any, before: Any, now: Any) -> None:
    if isinstance(value, Tensor):
        value._data, value._grad = before
    elif path.kind == "globals" or isinstance(value, Members):
        _set_items(value, before, now)
    elif isinstance(value, types.FunctionType):
        _set_cells(value, before, now)
    elif isinstance(value, (list, deque, dict, set, bytearray)):
        _refill(value, before)
    else:
        _set_attributes(value, before, now)


def _refill(value: Any, before: Any) -> None:
    """Replaces all elements of a container by `before`: (key or position, value) pairs, or the
    elements of a set or bytearray."""
    if isinstance(value, set):
        value.clear()
        value.update(before)
    elif isinstance(value, bytearray):
        value[:] = before
    elif isinstance(value, dict):
        kind = OrderedDict if isinstance(value, OrderedDict) else dict
        kind.clear(value)
        for key, element in before:
            kind.__setitem__(value, key, element)
    else:
        value.clear()
        value.extend([element for _, element in before])


def _set_items(value: Any, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in now.keys() - before.keys():
        del value[name]
    for name, element in before.items():
        if now.get(name, EMPTY) is not element:
            value[name] = element


def _set_cells(function: Any, before: tuple[Any, ...], now: tuple[Any, ...]) -> None:
    for cell, content, current in zip(function.__closure__, before, now):
        if content is EMPTY and current is not EMPTY:
            del cell.cell_contents
        elif content is not current:
            cell.cell_contents = content


def _set_attributes(value: Any, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in now.keys() - before.keys():
        DeleteAttribute(name)(value, None)
    for name, element in before.items():
        if now.get(name, EMPTY) is not element:
            attribute_setter(value, name)(value, element)
