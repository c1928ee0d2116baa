"""Everything a run could read: the objects reachable from its arguments, closures and globals.

The walk notes how each object was reached and what it held, so that after the run one can say which
values it was recorded with, where each tensor came from, and what was changed.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..eager.tensor import Tensor
from .paths import Path

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, type(Ellipsis), slice, range)
FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodWrapperType,
         types.CodeType, np.ufunc)
LARGE = 4096  # containers longer than this are not followed


class State:
    """Objects by identity, with the path each was first reached by and what it held then."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # every path walked, and its value
        self.paths: dict[int, Path] = {}  # id of an object -> its first path
        self.aliases: list[tuple[Path, Path]] = []  # a further path to an object, and its first
        self.held: dict[Path, Any] = {}  # a copy of what a changeable object held
        self.large: list[Path] = []
        self._keep: list[Any] = []  # ids stay taken while a recording runs

    def walk(self, path: Path, value: Any) -> None:
        """Notes `value` and everything that is reachable from it."""
        queue = deque([(path, value)])
        while queue:
            path, value = queue.popleft()
            if path in self.values:
                continue
            self.values[path] = value
            if type(value) in PLAIN:
                continue
            first = self.paths.get(id(value))
            if first is not None:
                self.aliases.append((path, first))
                continue
            self.paths[id(value)] = path
            self._keep.append(value)
            queue.extend(self._parts(path, value))

    def _parts(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        kind = type(value)
        if isinstance(value, Tensor):
            self.held[path] = (value.data, value._grad)
            yield path.attr("_grad"), value._grad
        elif kind in (list, tuple) or isinstance(value, tuple):
            yield from self._elements(path, value, enumerate(value))
        elif isinstance(value, dict):
            yield from self._elements(path, value, value.items())
        elif kind is types.FunctionType:
            for i, cell in enumerate(value.__closure__ or ()):
                if _filled(cell):
                    yield path.cell(i), cell.cell_contents
        elif kind is types.MethodType:
            yield path.attr("__self__"), value.__self__
            yield path.attr("__func__"), value.__func__
        elif not isinstance(value, (*FIXED, np.ndarray, np.generic)):
            yield from self._attributes(path, value)

    def _elements(self, path: Path, value: Any, items: Any) -> Iterator[tuple[Path, Any]]:
        if len(value) > LARGE:
            self.large.append(path)
            return
        pairs = list(items)
        if not isinstance(value, tuple):
            self.held[path] = pairs
        for key, element in pairs:
            yield path.item(key), element

    def _attributes(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        found = attributes(value)
        self.held[path] = found
        for name, element in found.items():
            yield path.attr(name), element
        for name, element in class_values(type(value)).items():
            if name not in found:
                yield path.attr(name), element

    def changes(self) -> Iterator[tuple[Path, Any, Any]]:
        """(path, what it held, what it holds now) for every object that is no longer as it was."""
        for path, before in list(self.held.items()):
            value = self.values[path]
            if isinstance(value, Tensor):
                now: Any = (value.data, value._grad)
                same = now[0] is before[0] and now[1] is before[1]
            elif isinstance(value, (list, dict)):
                now = list(value.items() if isinstance(value, dict) else enumerate(value))
                same = len(now) == len(before) and all(
                    a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(now, before))
            else:
                now = attributes(value)
                same = now.keys() == before.keys() and all(now[k] is before[k] for k in now)
            if not same:
                yield path, before, now


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def attributes(value: Any) -> dict[str, Any]:
    """The attributes an object has of its own: its dictionary and its slots."""
    found = dict(getattr(value, "__dict__", None) or {})
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and isinstance(cls.__dict__.get(name),
                                                        types.MemberDescriptorType):
                try:
                    found[name] = cls.__dict__[name].__get__(value)
                except AttributeError:
                    continue
    return found


def class_values(cls: type) -> dict[str, Any]:
    """Plain values and tensors that a class gives its instances, nearest class first."""
    found: dict[str, Any] = {}
    for c in cls.__mro__:
        if c.__module__ == "builtins":
            continue
        for name, value in c.__dict__.items():
            if not name.startswith("__") and isinstance(value, (*PLAIN, Tensor, list, dict, tuple)):
                found.setdefault(name, value)
    return found
