"""Takes snapshots of the objects that a run can reach from its arguments, closures and globals.

The walk notes the access path and the contents of each object. After the run they tell which values
the trace depends on, which path each tensor came from, and which objects have changed.
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

from ...eager.core.lazy import AbstractLazyArray
from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ..scalars.symbolic_scalar import plain_value
from .access_path import KnownObject, Members, Path
from .bytecode import globals_of, imports_of, names_of, reads_by_name
from .grad_hook_guards import hooks_of
from .introspection import EMPTY, attributes, cells, is_users, of_class, of_instance, own_members

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, type(Ellipsis), slice, range)
FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodWrapperType,
         types.CodeType, np.ufunc, enum.Enum)  # compared by identity
SETS = (set, frozenset, bytearray)  # compared as a whole; elements are not followed
SEQUENCES = (list, tuple, deque)
_ROOT = __name__.partition(".")[0]
MAX_FOLLOWED_ELEMENTS = 4096  # containers longer than this are not followed


class HeapSnapshot:
    """The reachable objects by identity, each with its first path and its contents at that time."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # by every visited path
        self.paths: dict[int, Path] = {}  # id of an object -> its first path
        self.aliases: list[tuple[Path, Path]] = []  # (further path to an object, first path)
        self.held: dict[Path, Any] = {}  # copies of the contents of mutable objects
        self.fields: dict[Path, dict[str, Any]] = {}  # attributes of functions and containers
        self.edges: dict[Path, Any] = {}  # the tape edge of each tensor
        self.hooks: dict[Path, tuple[Any, ...]] = {}  # the gradient hooks of each tensor
        self.large: list[Path] = []
        self._lazy: list[Path] = []  # tensors with a lazy array
        self.append_only: set[Path] = set()  # containers that the run added to and did not read
        self.absent: dict[Path, set[str]] = {}  # names in code that are not defined, by scope
        self.missing: dict[Path, set[str]] = {}  # the absent names that code reads as globals
        self.codes: list[types.CodeType] = []  # code that ran
        self.names: set[str] = set()  # all names in that code
        self._any_name = False  # code may have read attributes by other names
        self._classes: set[int] = set()  # ids, since a metaclass may define `__hash__`
        self._modules: list[tuple[Path, Any]] = []  # visited in part: attributes in `names`
        self._alive: list[Any] = []  # so that no id is used twice during the trace

    def walk(self, path: Path, value: Any) -> None:
        """Notes `value` and everything that is reachable from it."""
        queue = deque([(path, value)])
        while queue:
            path, value = queue.popleft()
            value = plain_value(value)  # a symbol stands here during the trace
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
            self._alive.append(value)
            queue.extend(self._walk_parts(path, value))

    def walk_code(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Notes the globals and module attributes that code can read which is about to run."""
        names = names_of(code)
        if is_users(scope.get("__name__")) and reads_by_name(code):
            self._any_name = True
        self.codes.append(code)
        self.walk_globals(code.co_names, scope, globals_of(code))
        for name in imports_of(code):
            if isinstance(sys.modules.get(name), types.ModuleType):
                self._add_module(sys.modules[name])
        new: Set[str] = names - self.names
        self.names |= names
        while new:  # a module may lead to further modules
            count = len(self._modules)
            for path, module in list(self._modules):
                self._walk_module(path, module, new)
            new = self.names if len(self._modules) > count else set()

    def walk_globals(self, names: tuple[str, ...], scope: dict[str, Any],
                     loaded: Collection[str] = ()) -> None:
        """Notes the globals in `names`, defined or not; fusewire's own never change.

        `loaded`: the names that code reads as globals, and not only as attributes.
        """
        name = str(scope.get("__name__"))
        if name.partition(".")[0] == _ROOT and not is_users(name):
            return
        path = Path("globals", id(scope))
        self.values[path] = scope
        self._walk_scope(path, names, scope)
        if is_users(name):
            held = self.held[path]
            self.missing.setdefault(path, set()).update(n for n in loaded if n not in held)

    def _walk_scope(self, path: Path, names: tuple[str, ...], scope: dict[str, Any]) -> None:
        held, absent = self.held.setdefault(path, {}), self.absent.setdefault(path, set())
        for name in names:
            if name in scope:
                if name not in held and name not in absent:
                    held[name] = plain_value(scope[name])
                self.walk(path.item(name), scope[name])
            else:
                absent.add(name)

    def _add_module(self, module: types.ModuleType) -> None:
        path = Path("class", Members(module))
        if is_users(module.__name__) and path not in self.values:
            self.values[path] = path.key
            self._modules.append((path, module))
            self._walk_module(path, module, self.names)

    def _walk_module(self, path: Path, module: types.ModuleType, names: Set[str]) -> None:
        variables = vars(module)
        if self._any_name:
            names = names | {n for n in variables if not n.startswith("__")}
        self._walk_scope(path, tuple(names), variables)

    def _walk_parts(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        kind = type(value)
        if isinstance(value, Tensor):
            self.held[path] = (value._data, value._grad)
            self.edges[path] = value.edge
            self.hooks[path] = hooks_of(value.edge)
            if isinstance(value._data, AbstractLazyArray):
                self._lazy.append(path)
            yield path.attr("_grad"), value._grad
        elif isinstance(value, SEQUENCES):
            yield from self._walk_elements(path, value, enumerate(value))
        elif isinstance(value, dict):
            yield from self._walk_elements(path, value, value.items())
            yield from _keys(value)
        elif kind is types.FunctionType:
            yield from self._walk_function(path, value)
        elif kind in _INDIRECTIONS:
            for name in _INDIRECTIONS[kind]:
                yield path.attr(name), getattr(value, name)
        elif isinstance(value, SETS):
            self.held[path] = kind(value)
        elif isinstance(value, types.ModuleType):
            self._add_module(value)
            yield from _values(path, value)
        elif isinstance(value, type):
            yield from self._walk_class(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            if not isinstance(value.__self__, (types.ModuleType, type, type(None))):
                yield path.attr("__self__"), value.__self__
        elif not isinstance(value, (*FIXED, np.ndarray, np.generic)):
            yield from self._walk_attributes(path, value)

    def _walk_function(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        self.held[path] = contents = tuple(map(plain_value, cells(value)))
        for i, content in enumerate(contents):
            if content is not EMPTY:
                yield path.cell(i, value.__code__.co_freevars[i]), content
        if not is_ours(value.__code__):
            yield path.attr("__code__"), value.__code__
            yield path.attr("__defaults__"), value.__defaults__
            yield path.attr("__kwdefaults__"), value.__kwdefaults__
            yield from self._walk_fields(path, value)

    def _walk_fields(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        """Notes the attributes of a container or function."""
        self.fields[path] = fields = attributes(value)
        for name, element in fields.items():
            yield path.attr(name), element

    def _walk_elements(self, path: Path, value: Any, items: Any) -> Iterator[tuple[Path, Any]]:
        pairs = [(key, plain_value(element)) for key, element in items]
        if not isinstance(value, tuple):
            self.held[path] = pairs
        if len(value) > MAX_FOLLOWED_ELEMENTS:
            self.large.append(path)
            return
        for key, element in pairs:
            yield path.item(key), element
        if type(value) not in (list, dict, tuple, deque, OrderedDict, Counter):
            yield from self._walk_fields(path, value)
            yield from self._walk_class(type(value))

    def _walk_attributes(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        fields = {name: plain_value(v) for name, v in attributes(value).items()}
        self.held[path] = fields
        for name, element in fields.items():
            yield path.attr(name), element
        for name, element in of_instance(type(value)).items():
            if name not in fields:
                yield path.attr(name), element
        yield from self._walk_class(type(value))

    def _walk_class(self, cls: type) -> Iterator[tuple[Path, Any]]:
        """Notes the members of a class, its bases and its metaclass."""
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
            yield from self._walk_class(type(cls))

    def mark_written(self, path: Path) -> None:
        """Marks the value at `path` as assigned by the run, even if it is unchanged."""
        assert path.parent is not None
        held, key = self.held[path.parent], getattr(path.key, "value", path.key)
        if isinstance(held, dict):
            held[key] = EMPTY
        elif isinstance(held, tuple):
            self.held[path.parent] = (*held[:key], EMPTY, *held[key + 1:])
        else:
            self.held[path.parent] = [(k, EMPTY if k == key else v) for k, v in held]

    def resolve(self, lazy_array: Any, array: Any) -> None:
        """Replaces a lazy array by its computed array."""
        for path in self._lazy:
            data, gradient = self.held[path]
            if data is lazy_array:
                self.held[path] = array, gradient

    def changes(self) -> Iterator[tuple[Path, Any, Any]]:
        """(path, old contents, new contents) of every object that has changed."""
        for path, before in list(self.held.items()):
            now = self._current(path)
            if not _same_contents(before, now):
                yield path, before, now

    def changed_fields(self) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
        """(path, old, new) of the changed attributes of functions and containers."""
        for path, before in list(self.fields.items()):
            now = attributes(self.values[path])
            if not _same_contents(before, now):
                yield path, before, now

    def _current(self, path: Path) -> Any:
        """The current contents of an object, in the format of `held`."""
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


def _same_contents(before: Any, now: Any) -> bool:
    """True if two copies of an object's contents hold identical elements."""
    if len(before) != len(now):
        return False
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(now[k] is before[k] for k in now)
    if isinstance(before, SETS):
        return bool(before == now)
    if isinstance(before, list):
        return all(a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(before, now))
    return all(a is b for a, b in zip(before, now))


_INDIRECTIONS: dict[type, tuple[str, ...]] = {  # wrappers, and the attributes to follow
    types.MethodType: ("__self__", "__func__"), property: ("fget",),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}


def is_plain(value: Any) -> bool:
    """True if a value has no further contents: numbers, strings and the like."""
    return type(value) in PLAIN or isinstance(value, (np.dtype, np.number, np.bool_, np.datetime64))


def _keys(value: dict[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """The keys of a dictionary that have contents of their own."""
    for key in value:
        if not (is_plain(key) or isinstance(key, (*FIXED, tuple, frozenset, Tensor))):
            yield Path("class", KnownObject(key)).attr("__self__"), key


def _values(path: Path, module: types.ModuleType) -> Iterator[tuple[Path, Any]]:
    """The mutable state of a standard library module: only the environment, of `os`."""
    if module is os:
        yield path.attr("environ"), os.environ

