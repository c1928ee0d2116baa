"""Takes snapshots of the objects that a run may read: access paths, and contents at the start.

After the run they tell which values the trace depends on, which path each tensor came from, and
which objects have changed. Only objects that code may read are visited.
"""

from __future__ import annotations

import os
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ...eager.nn.base.module import Module
from .access_path import Path
from .bytecode import names_of
from .contents import HeapContents
from .introspection import is_users
from .value_kinds import (
    FIXED,
    FUNCTION_PARTS,
    INDIRECTIONS,
    MODULE_DICTIONARIES,
    SEQUENCES,
    SETS,
    is_plain,
    object_keys,
)

_ALWAYS_READ = {*MODULE_DICTIONARIES, "_grad", "__self__", "__func__", "func", "args", "keywords",
                "original", "fget", "environ"}  # attributes that code need not name
_ROOT = __name__.partition(".")[0]
MAX_FOLLOWED_ELEMENTS = 4096  # containers longer than this are not followed


class HeapSnapshot(HeapContents):
    """The contents at the start of the objects that a run may have read, and which of them are
    exposed.

    Parts of an object are followed in one of two ways. `ReadFollower` follows the steps that the
    bytecode takes. An object that reaches code without analysis is *exposed*: all its elements may
    be read, and the attributes whose names occur in code that ran.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exposed: set[Path] = set()
        self.listed: set[Path] = set()  # objects of which code may read any attribute
        self.codes: list[types.CodeType] = []  # code that ran
        self.names: set[str] = set()  # all names in that code
        self.any_name = False  # code may have read attributes by other names
        self.on_exposed_function: Callable[[Any], None] = ignore
        self._pending: dict[str, list[tuple[Path, Any]]] = {}  # attributes of exposed objects
        self._exposed_classes: set[int] = set()
        self._modules: list[types.ModuleType] = []  # exposed ones

    def walk(self, path: Path, value: Any) -> None:
        """Exposes `value` and everything that code can then reach from it."""
        queue = deque([(path, value)])
        while queue:
            path, value = queue.popleft()
            first = self.note(path, value)
            value = self.values[first]
            if first not in self.exposed and not is_plain(value):
                self.exposed.add(first)
                queue.extend(self._walk_parts(first, value))

    def begin_code(self, code: types.CodeType, by_any_name: bool) -> None:
        """Notes code that is about to run, and the attributes of exposed objects that it names."""
        if by_any_name:
            self.read_any_name()
        self.codes.append(code)
        new = names_of(code) - self.names
        self.names |= new
        for module in self._modules:
            self._hold_variables(module, new)
        self._walk_pending(new)

    def read_any_name(self) -> None:
        """Notes that code may read all attributes of exposed objects."""
        if not self.any_name:
            self.any_name = True
            for module in self._modules:
                self._hold_variables(module, ())
            self._walk_pending(list(self._pending))

    def _walk_pending(self, names: Iterable[str]) -> None:
        for name in names:
            for path, value in self._pending.pop(name, ()):
                self.walk(path, value)

    def walk_attributes(self, path: Path, value: Any) -> None:
        """Exposes an object with all its attributes."""
        self.walk(path, value)
        self.listed.add(path)
        if isinstance(value, types.ModuleType):
            if is_users(value.__name__):
                for name in list(vars(value)):
                    if not name.startswith("__"):
                        self._walk_all(self.module_variable(value, name))
        elif isinstance(value, type):
            self._walk_all(self._members(value))
        elif path in self.fields:
            for name, content in self.fields[path].items():
                self.walk(path.attr(name), content)
        elif path in self.held and isinstance(self.held[path], dict):
            inherited = self._inherited(type(value))
            for name, content in {**inherited, **self.held[path]}.items():
                self.walk(path.attr(name), content)

    def _walk_all(self, found: Iterable[tuple[Path, Any]]) -> None:
        for path, value in found:
            self.walk(path, value)

    def _named(self, name: Any, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        """The attribute of an exposed object, now or when code names it."""
        if self.any_name or name in self.names or name in _ALWAYS_READ:
            yield path, value
        else:
            self._pending.setdefault(name, []).append((path, value))

    # ---- parts of exposed objects

    def _walk_parts(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        kind = type(value)
        if isinstance(value, SEQUENCES):
            yield from self._walk_elements(path, value)
        elif isinstance(value, dict):
            yield from self._walk_elements(path, value)
            yield from object_keys(value)
        elif kind is types.FunctionType:
            yield from self._walk_function(path, value)
        elif kind in INDIRECTIONS:
            for name in INDIRECTIONS[kind]:
                yield path.attr(name), getattr(value, name)
        elif isinstance(value, SETS):
            self.held.setdefault(path, kind(value))
        elif isinstance(value, types.ModuleType):
            yield from self._walk_module(path, value)
        elif isinstance(value, type):
            yield from self._walk_class(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            if not isinstance(value.__self__, (types.ModuleType, type, type(None))):
                yield path.attr("__self__"), value.__self__
        elif not isinstance(value, (*FIXED, Tensor, np.ndarray, np.generic)):
            yield from self._walk_attributes(path, value)

    def _walk_module(self, path: Path, module: types.ModuleType) -> Iterator[tuple[Path, Any]]:
        if module is os:  # the mutable state of the standard library
            yield path.attr("environ"), os.environ
        if is_users(module.__name__):
            self._modules.append(module)
            self._hold_variables(module, self.names)
            for name in list(vars(module)):
                if not name.startswith("__") or name in self.names:
                    for variable, value in self.module_variable(module, name):
                        yield from self._named(name, variable, value)

    def _hold_variables(self, module: types.ModuleType, names: Collection[str]) -> None:
        for name in {*names, *vars(module)} if self.any_name else names:
            self.module_variable(module, name)

    def _walk_function(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        self.on_exposed_function(value)
        for _, cell, content in self.closure(path):
            yield cell, content
        if not is_ours(value.__code__):
            yield from ((path.attr(name), self.values[path.attr(name)]) for name in FUNCTION_PARTS)
            yield from self._walk_fields(path)

    def _walk_fields(self, path: Path) -> Iterator[tuple[Path, Any]]:
        """The attributes of a container or function."""
        for name, element in self.hold_fields(path).items():
            yield from self._named(name, path.attr(name), element)

    def _walk_elements(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        pairs = self.hold_elements(path)
        if len(pairs) > MAX_FOLLOWED_ELEMENTS:
            self.large.append(path)
            return
        for key, element in pairs:
            yield path.item(key), element
        if type(value) not in (list, dict, tuple, deque, OrderedDict, Counter):
            yield from self._walk_fields(path)
            yield from self._walk_class(type(value))

    def _walk_attributes(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        fields = self.hold_attributes(path)
        always = _is_read_by_engine(type(value))
        for name, element in fields.items():
            if always:
                yield path.attr(name), element
            else:
                yield from self._named(name, path.attr(name), element)
        for name, element in self._inherited(type(value)).items():
            if name not in fields:
                yield from self._named(name, path.attr(name), element)
        yield from self._walk_class(type(value))

    def _walk_class(self, cls: type) -> Iterator[tuple[Path, Any]]:
        """The members of a class, its bases and its metaclass."""
        if id(cls) in self._exposed_classes:
            return
        self._exposed_classes.add(id(cls))
        self.hold_class(cls)
        for path, value in self._members(cls):
            key = path.key
            yield from self._named(getattr(key, "value", key), path, value)
        for base in (*cls.__mro__[1:], type(cls)):  # `super()` reads overridden members
            if is_users(base.__module__):
                yield from self._walk_class(base)

def ignore(function: Any) -> None:
    """Does nothing."""


def _is_read_by_engine(cls: type) -> bool:
    """True if code that is not followed reads attributes of objects of a class: of generators of
    random numbers and compiled functions, for example."""
    return hasattr(cls, "__captured__") or (
        cls.__module__.partition(".")[0] == _ROOT and not is_users(cls.__module__)
        and not issubclass(cls, Module))
