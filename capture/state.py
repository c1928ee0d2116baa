"""Everything a run could read: the objects reachable from its arguments, closures and globals.

The walk notes how each object was reached and what it held, so that after the run one can say which
values it was recorded with, where each tensor came from, and what was changed.
"""

from __future__ import annotations

import builtins
import enum
import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..eager.errors import is_ours
from ..eager.tensor import Tensor
from .numbers import plain
from .paths import Path

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, type(Ellipsis), slice, range)
FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodWrapperType,
         types.CodeType, np.ufunc, enum.Enum)  # told apart by identity
SETS = (set, frozenset, deque, bytearray)  # compared as a whole, their elements are not followed
_ROOT = __name__.partition(".")[0]
LARGE = 4096  # containers longer than this are not followed


class State:
    """Objects by identity, with the path each was first reached by and what it held then."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # every path walked, and its value
        self.paths: dict[int, Path] = {}  # id of an object -> its first path
        self.aliases: list[tuple[Path, Path]] = []  # a further path to an object, and its first
        self.held: dict[Path, Any] = {}  # a copy of what a changeable object held
        self.edges: dict[Path, Any] = {}  # where the gradients of each tensor went then
        self.large: list[Path] = []
        self.absent: dict[Path, set[str]] = {}  # global names that code mentions and nothing has
        self._keep: list[Any] = []  # ids stay taken while a recording runs

    def walk(self, path: Path, value: Any) -> None:
        """Notes `value` and everything that is reachable from it."""
        queue = deque([(path, value)])
        while queue:
            path, value = queue.popleft()
            value = plain(value)  # a symbol that stands here while the function is recorded
            if path in self.values:
                continue
            self.values[path] = value
            if is_plain(value):
                continue
            first = self.paths.get(id(value))
            if first is not None:
                self.aliases.append((path, first))
                continue
            self.paths[id(value)] = path
            self._keep.append(value)
            queue.extend(self._parts(path, value))

    def walk_globals(self, names: tuple[str, ...], scope: dict[str, Any]) -> None:
        """Notes the globals among `names`, and those that are not there; our own never change."""
        if str(scope.get("__name__")).partition(".")[0] == _ROOT:
            return
        path = Path("globals", id(scope))
        self.values[path] = scope
        held, absent = self.held.setdefault(path, {}), self.absent.setdefault(path, set())
        for name in names:
            if name in scope:
                if name not in held and name not in absent:
                    held[name] = plain(scope[name])
                self.walk(path.item(name), scope[name])
            elif not hasattr(builtins, name):
                absent.add(name)

    def _parts(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        kind = type(value)
        if isinstance(value, Tensor):
            self.held[path] = (value.data, value._grad)
            self.edges[path] = value.edge
            yield path.attr("_grad"), value._grad
        elif kind in (list, tuple) or isinstance(value, tuple):
            yield from self._elements(path, value, enumerate(value))
        elif isinstance(value, dict):
            yield from self._elements(path, value, value.items())
        elif kind is types.FunctionType:
            yield from self._of_function(path, value)
        elif kind in _LINKS:
            for name in _LINKS[kind]:
                yield path.attr(name), getattr(value, name)
        elif isinstance(value, SETS):
            self.held[path] = type(value)(value)
        elif not isinstance(value, (*FIXED, np.ndarray, np.generic)):
            yield from self._attributes(path, value)

    def _of_function(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        self.held[path] = contents = tuple(map(plain, cells(value)))
        for i, content in enumerate(contents):
            if content is not EMPTY:
                yield path.cell(i, value.__code__.co_freevars[i]), content
        if not is_ours(value.__code__):
            yield path.attr("__defaults__"), value.__defaults__
            yield path.attr("__kwdefaults__"), value.__kwdefaults__

    def _elements(self, path: Path, value: Any, items: Any) -> Iterator[tuple[Path, Any]]:
        if len(value) > LARGE:
            self.large.append(path)
            return
        pairs = [(key, plain(element)) for key, element in items]
        if not isinstance(value, tuple):
            self.held[path] = pairs
        for key, element in pairs:
            yield path.item(key), element

    def _attributes(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        found = {name: plain(v) for name, v in attributes(value).items()}
        self.held[path] = found
        for name, element in found.items():
            yield path.attr(name), element
        for name, element in class_values(type(value)).items():
            if name not in found:
                yield path.attr(name), element
        for cls in type(value).__mro__:
            yield from _functions(cls)

    def changes(self) -> Iterator[tuple[Path, Any, Any]]:
        """(path, what it held, what it holds now) for every object that is no longer as it was."""
        for path, before in list(self.held.items()):
            value = self.values[path]
            if isinstance(value, Tensor):
                now: Any = (value.data, value._grad)
                same = now[0] is before[0] and now[1] is before[1]
            elif path.kind == "globals":
                now = {n: value[n] for n in (*before, *self.absent[path]) if n in value}
                same = now.keys() == before.keys() and all(now[n] is before[n] for n in now)
            elif isinstance(value, types.FunctionType):
                now = cells(value)
                same = all(a is b for a, b in zip(now, before))
            elif isinstance(value, SETS):
                now, same = value, len(value) == len(before) and value == before
            elif isinstance(value, (list, dict)):
                now = list(value.items() if isinstance(value, dict) else enumerate(value))
                same = len(now) == len(before) and all(
                    a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(now, before))
            else:
                now = attributes(value)
                same = now.keys() == before.keys() and all(now[k] is before[k] for k in now)
            if not same:
                yield path, before, now


_LINKS: dict[type, tuple[str, ...]] = {  # objects that stand for others, and how to get to those
    types.MethodType: ("__self__", "__func__"), property: ("fget",),
    functools.partial: ("func", "args", "keywords"),
}
EMPTY = object()  # the contents of a closure cell that nothing was assigned to


def is_plain(value: Any) -> bool:
    """Whether a value is all that can be told of it: numbers, texts and the like."""
    return type(value) in PLAIN or isinstance(value, np.dtype)


def cells(function: Any) -> tuple[Any, ...]:
    """What the closure cells of a function hold."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(EMPTY)
    return tuple(found)


def _functions(cls: type) -> Iterator[tuple[Path, Any]]:
    """The functions and properties that a class defines, our own classes left out."""
    for name, value in cls.__dict__.items():
        plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        plain = plain.fget if isinstance(plain, property) else plain
        if isinstance(plain, types.FunctionType) and not is_ours(plain.__code__):
            path = Path("class", cls).attr(name)
            yield path, value if isinstance(value, property) else getattr(cls, name)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes an object has of its own: its dictionary and its slots, or only those that its
    class names as `__captured__`."""
    only = getattr(type(value), "__captured__", None)
    if only is not None:
        return {name: getattr(value, name) for name in only}
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
    if hasattr(cls, "__captured__"):
        return found
    for c in cls.__mro__:
        if c.__module__ == "builtins":
            continue
        for name, value in c.__dict__.items():
            if not name.startswith("__") and isinstance(value, (*PLAIN, Tensor, list, dict, tuple)):
                found.setdefault(name, value)
    return found
