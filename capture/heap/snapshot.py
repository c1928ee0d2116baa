"""Everything a run could read: the objects reachable from its arguments, closures and globals.

The walk notes how each object was reached and what it held, so that after the run one can say which
values it was recorded with, where each tensor came from, and what was changed.
"""

from __future__ import annotations

import enum
import functools
import os
import sys
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator, Set
from typing import Any

import numpy as np

from ...eager.core.lazy import Later
from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ..scalars.symbolic_scalar import plain_value
from .access_path import Known, Members, Path
from .bytecode import globals_of, imports_of, names_of, reads_by_name
from .grad_hook_guards import hooks_of
from .introspection import EMPTY, attributes, cells, is_users, of_class, of_instance, own_members

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, type(Ellipsis), slice, range)
FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodWrapperType,
         types.CodeType, np.ufunc, enum.Enum)  # told apart by identity
SETS = (set, frozenset, bytearray)  # compared as a whole, their elements are not followed
SEQUENCES = (list, tuple, deque)
_ROOT = __name__.partition(".")[0]
LARGE = 4096  # containers longer than this are not followed


class HeapSnapshot:
    """Objects by identity, with the path each was first reached by and what it held then."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # every path walked, and its value
        self.paths: dict[int, Path] = {}  # id of an object -> its first path
        self.aliases: list[tuple[Path, Path]] = []  # a further path to an object, and its first
        self.held: dict[Path, Any] = {}  # a copy of what a changeable object held
        self.fields: dict[Path, dict[str, Any]] = {}  # attributes of functions and containers
        self.edges: dict[Path, Any] = {}  # where the gradients of each tensor went then
        self.hooks: dict[Path, tuple[Any, ...]] = {}  # and which hooks waited there
        self.large: list[Path] = []
        self._later: list[Path] = []  # tensors whose array was still to come
        self.added: set[Path] = set()  # containers that the run added to and did not read
        self.absent: dict[Path, set[str]] = {}  # names that code mentions and nothing has
        self.missing: dict[Path, set[str]] = {}  # those of them that it reads as globals
        self.codes: list[types.CodeType] = []  # what ran
        self.names: set[str] = set()  # all names in it
        self._any_name = False  # whether code may have asked for attributes by other names
        self._classes: set[int] = set()  # ids: what a metaclass has for `hash` is the user's code
        self._open: list[tuple[Path, Any]] = []  # modules met, of which only named parts are walked
        self._keep: list[Any] = []  # ids stay taken while a recording runs

    def walk(self, path: Path, value: Any) -> None:
        """Notes `value` and everything that is reachable from it."""
        queue = deque([(path, value)])
        while queue:
            path, value = queue.popleft()
            value = plain_value(value)  # a symbol that stands here while the function is recorded
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

    def walk_code(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Notes what a code object that is about to run can read: globals, parts of modules."""
        names = names_of(code)
        if is_users(scope.get("__name__")) and reads_by_name(code):
            self._any_name = True
        self.codes.append(code)
        self.walk_globals(code.co_names, scope, globals_of(code))
        for name in imports_of(code):
            if isinstance(sys.modules.get(name), types.ModuleType):
                self._open_module(sys.modules[name])
        new: Set[str] = names - self.names
        self.names |= names
        while new:  # modules may be found in modules
            known = len(self._open)
            for path, module in list(self._open):
                self._of_module(path, module, new)
            new = self.names if len(self._open) > known else set()

    def walk_globals(self, names: tuple[str, ...], scope: dict[str, Any],
                     loaded: Collection[str] = ()) -> None:
        """Notes the globals among `names`, and those that are not there; our own never change.

        `loaded` are those that are read as globals, and not as attributes alone.
        """
        name = str(scope.get("__name__"))
        if name.partition(".")[0] == _ROOT and not is_users(name):
            return
        path = Path("globals", id(scope))
        self.values[path] = scope
        self._scope(path, names, scope)
        if is_users(name):
            held = self.held[path]
            self.missing.setdefault(path, set()).update(n for n in loaded if n not in held)

    def _scope(self, path: Path, names: tuple[str, ...], scope: dict[str, Any]) -> None:
        held, absent = self.held.setdefault(path, {}), self.absent.setdefault(path, set())
        for name in names:
            if name in scope:
                if name not in held and name not in absent:
                    held[name] = plain_value(scope[name])
                self.walk(path.item(name), scope[name])
            else:
                absent.add(name)

    def _open_module(self, module: types.ModuleType) -> None:
        path = Path("class", Members(module))
        if is_users(module.__name__) and path not in self.values:
            self.values[path] = path.key
            self._open.append((path, module))
            self._of_module(path, module, self.names)

    def _of_module(self, path: Path, module: types.ModuleType, names: Set[str]) -> None:
        found = vars(module)
        if self._any_name:
            names = names | {n for n in found if not n.startswith("__")}
        self._scope(path, tuple(names), found)

    def _parts(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        kind = type(value)
        if isinstance(value, Tensor):
            self.held[path] = (value._data, value._grad)
            self.edges[path] = value.edge
            self.hooks[path] = hooks_of(value.edge)
            if isinstance(value._data, Later):
                self._later.append(path)
            yield path.attr("_grad"), value._grad
        elif isinstance(value, SEQUENCES):
            yield from self._elements(path, value, enumerate(value))
        elif isinstance(value, dict):
            yield from self._elements(path, value, value.items())
            yield from _keys(value)
        elif kind is types.FunctionType:
            yield from self._of_function(path, value)
        elif kind in _LINKS:
            for name in _LINKS[kind]:
                yield path.attr(name), getattr(value, name)
        elif isinstance(value, SETS):
            self.held[path] = kind(value)
        elif isinstance(value, types.ModuleType):
            self._open_module(value)
            yield from _values(path, value)
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            if not isinstance(value.__self__, (types.ModuleType, type, type(None))):
                yield path.attr("__self__"), value.__self__
        elif not isinstance(value, (*FIXED, np.ndarray, np.generic)):
            yield from self._attributes(path, value)

    def _of_function(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        self.held[path] = contents = tuple(map(plain_value, cells(value)))
        for i, content in enumerate(contents):
            if content is not EMPTY:
                yield path.cell(i, value.__code__.co_freevars[i]), content
        if not is_ours(value.__code__):
            yield path.attr("__code__"), value.__code__
            yield path.attr("__defaults__"), value.__defaults__
            yield path.attr("__kwdefaults__"), value.__kwdefaults__
            yield from self._fields(path, value)

    def _fields(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        """Attributes beside elements or closure cells."""
        self.fields[path] = found = attributes(value)
        for name, element in found.items():
            yield path.attr(name), element

    def _elements(self, path: Path, value: Any, items: Any) -> Iterator[tuple[Path, Any]]:
        pairs = [(key, plain_value(element)) for key, element in items]
        if not isinstance(value, tuple):
            self.held[path] = pairs
        if len(value) > LARGE:
            self.large.append(path)
            return
        for key, element in pairs:
            yield path.item(key), element
        if type(value) not in (list, dict, tuple, deque, OrderedDict, Counter):
            yield from self._fields(path, value)
            yield from self._of_class(type(value))

    def _attributes(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        found = {name: plain_value(v) for name, v in attributes(value).items()}
        self.held[path] = found
        for name, element in found.items():
            yield path.attr(name), element
        for name, element in of_instance(type(value)).items():
            if name not in found:
                yield path.attr(name), element
        yield from self._of_class(type(value))

    def _of_class(self, cls: type) -> Iterator[tuple[Path, Any]]:
        """What a class holds, and its bases and its own class do."""
        if id(cls) in self._classes:
            return
        self._classes.add(id(cls))
        self.values[Path("class", cls)] = cls
        for c in (*cls.__mro__, type(cls)):
            members = own_members(c)
            if members:
                self.values[Path("class", c)] = c
                self.held[Path("class", c)] = {n: plain_value(v) for n, v in members.items()}
        yield from of_class(cls)
        if is_users(type(cls).__module__):
            yield from self._of_class(type(cls))

    def written(self, path: Path) -> None:
        """What stands at `path` was assigned by the run, even if it looks as it did before."""
        assert path.parent is not None
        held, key = self.held[path.parent], getattr(path.key, "value", path.key)
        if isinstance(held, dict):
            held[key] = EMPTY
        elif isinstance(held, tuple):
            self.held[path.parent] = (*held[:key], EMPTY, *held[key + 1:])
        else:
            self.held[path.parent] = [(k, EMPTY if k == key else v) for k, v in held]

    def comes(self, later: Any, array: Any) -> None:
        """What stood for an array has got it."""
        for path in self._later:
            data, gradient = self.held[path]
            if data is later:
                self.held[path] = array, gradient

    def changes(self) -> Iterator[tuple[Path, Any, Any]]:
        """(path, what it held, what it holds now) for every object that is no longer as it was."""
        for path, before in list(self.held.items()):
            now = self._now(path)
            if not _same(before, now):
                yield path, before, now

    def changed_fields(self) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
        """The same for attributes of functions and of containers."""
        for path, before in list(self.fields.items()):
            now = attributes(self.values[path])
            if not _same(before, now):
                yield path, before, now

    def _now(self, path: Path) -> Any:
        """What an object holds now, in the form of `held`."""
        value = self.values[path]
        if isinstance(value, Tensor):
            return value._data, value._grad
        if path.kind == "globals" or isinstance(value, Members):
            names = (*self.held[path], *self.absent[path])
            return {n: value[n] for n in names if n in value}
        if isinstance(value, type):
            return own_members(value)
        if isinstance(value, types.FunctionType):
            return cells(value)
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, SEQUENCES):
            return list(enumerate(value))
        return value if isinstance(value, SETS) else attributes(value)


def _same(before: Any, now: Any) -> bool:
    """Whether two copies of what an object held are one: by identity of what stands inside."""
    if len(before) != len(now):
        return False
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(now[k] is before[k] for k in now)
    if isinstance(before, SETS):
        return bool(before == now)
    if isinstance(before, list):
        return all(a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(before, now))
    return all(a is b for a, b in zip(before, now))


_LINKS: dict[type, tuple[str, ...]] = {  # objects that stand for others, and how to get to those
    types.MethodType: ("__self__", "__func__"), property: ("fget",),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}


def is_plain(value: Any) -> bool:
    """Whether a value is all that can be told of it: numbers, texts and the like."""
    return type(value) in PLAIN or isinstance(value, (np.dtype, np.number, np.bool_, np.datetime64))


def _keys(value: dict[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """The keys of which there is more to know than that they are the same."""
    for key in value:
        if not (is_plain(key) or isinstance(key, (*FIXED, tuple, frozenset, Tensor))):
            yield Path("class", Known(key)).attr("__self__"), key


def _values(path: Path, module: types.ModuleType) -> Iterator[tuple[Path, Any]]:
    """What changes in the standard library: nothing but the environment."""
    if module is os:
        yield path.attr("environ"), os.environ

