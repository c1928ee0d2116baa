"""Follows what running code reads: the accesses in its bytecode, applied to the objects at hand.

When a function is called for the first time, its globals, parameters and closure variables are
known, and so are the objects that each access of its bytecode leads to. All uses that are not
analyzed expose an object.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ...eager.nn.base.module import Module
from ..heap.access_path import Path
from ..heap.code_tracker import followed
from ..heap.introspection import is_users, lookup
from ..heap.replaced_code import ReplacedCode, part_of
from ..heap.snapshot import MAX_FOLLOWED_ELEMENTS, HeapSnapshot, ignore
from ..heap.value_kinds import MODULE_DICTIONARIES, SEQUENCES, SETS, is_plain, object_keys
from .accesses import (
    ALL_ATTRIBUTES,
    ELEMENTS,
    ESCAPES,
    MEMBERS,
    OPERAND,
    RETURNED,
    TRUTH,
    Access,
    CallSite,
    key_of,
)
from .activation import CONTAINERS, OPAQUE_OBJECTS, Activation, Located, has_truth, is_used_whole
from .attribute_reads import AttributeReads

_ROOT = __name__.partition(".")[0]
_MAX_KEYS_OF_ARGUMENT = 64  # a smaller dictionary is guarded by all its keys, as a signature is


class ReadFollower(AttributeReads):
    """Notes in a snapshot what code reads that is about to run."""

    # ---- events

    def __init__(self, state: HeapSnapshot,
                 code_for: Callable[[types.FunctionType], types.CodeType]) -> None:
        """code_for: the code to run for a function while the call is traced."""
        super().__init__(state)
        self._replaced = ReplacedCode(code_for)

    def begin(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes the function that is traced, and its arguments."""
        caller, site = Activation(_NO_CODE), CallSite()
        passed: list[tuple[Any, Path, Any]] = [
            *((i, Path("args").item(i), value) for i, value in enumerate(args)),
            *((name, Path("kwargs").item(name), value) for name, value in kwargs.items()),
        ]
        for place, path, value in passed:
            self._pass(caller, site, place, Located(self.state.note(path, value), value))
        self.state.note(Path("function"), fn)
        self._call(caller, site, Located(Path("function"), fn))
        function = getattr(fn, "__func__", fn)
        if type(function) is types.FunctionType:
            self._replace_code(function)
        self._drain()
        self._settle(caller)

    def _replace_code(self, function: types.FunctionType) -> None:
        if not is_ours(function.__code__) and followed(function.__code__):
            code = part_of(function, "__code__")
            self._note_copied_code(code, self._replaced.replace(function), function.__globals__)

    def _note_copied_code(self, code: types.CodeType, copy: types.CodeType, scope: dict[str, Any]
                          ) -> None:
        """Notes that changed code, with changed comprehensions, runs in place of `code`."""
        if copy is code:
            return
        activation = self._activation(code, scope)
        self._activations[id(copy), id(scope)] = activation
        self._by_code.setdefault(id(copy), []).append(activation)
        for inner, inner_copy in zip(code.co_consts, copy.co_consts):
            if isinstance(inner, types.CodeType):
                self._note_copied_code(inner, inner_copy, scope)

    def enter(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Notes code that is about to run for the first time."""
        activation = self._activation(code, scope)
        self.state.begin_code(code, activation.found.lists_attributes and not is_ours(code))
        if activation.entered:
            return
        activation.entered = True
        found = activation.found
        self._note_stored_names(found.stored_names)
        if not activation.functions or activation.is_open:  # called by code without analysis
            self._open(activation)
        self._follow_globals(activation, scope)
        for (kind, name), access in found.roots.items():
            if kind == "import":
                self._follow_import(activation, access, name, scope)
        for access, located in activation.pending:
            self._todo.append((activation, access, located))
        activation.pending = []
        self._drain()
        self._settle(activation)

    def end(self) -> None:
        """Releases all objects, when the run has ended."""
        self._replaced.restore()
        self.state.on_exposed_function = ignore
        for activation in self._activations.values():
            activation.end()
        self._activations.clear()
        self._by_code.clear()
        self._sites_by_name.clear()
        self._alive.clear()

    def _expose_function(self, function: types.FunctionType) -> None:
        """Notes that code without analysis may call a function: its results are exposed."""
        self._replace_code(function)
        self._exposed_codes.add(id(function.__code__))
        self._alive.append(function.__code__)
        for activation in self._by_code.get(id(function.__code__), ()):
            self._open(activation)
            for path, value, _ in activation.returned:
                self.state.walk(path, value)

    def _open(self, activation: Activation) -> None:
        """Notes that parameters may hold any exposed object."""
        activation.is_open = True
        passed = [access for (kind, _), access in activation.found.roots.items()
                  if kind in ("local", "free")]
        if activation.entered and not is_ours(activation.code) \
                and any(access.lists_attributes() for access in passed):
            self.state.read_any_name()

    def _note_stored_names(self, names: set[str]) -> None:
        """Notes names that code assigns: calls of functions by these names may call others."""
        for name in names - self._stored_names:
            self._stored_names.add(name)
            for activation, site in self._sites_by_name.get(name, ()):
                self._make_opaque(activation, site)

    # ---- roots

    def _follow_globals(self, activation: Activation, scope: dict[str, Any]) -> None:
        found = activation.found
        module, state = str(scope.get("__name__")), self.state
        if module.partition(".")[0] == _ROOT and not is_users(module):
            return self._follow_builtins(activation, scope)  # our own globals never change
        path = Path("globals", id(scope))
        for name in found.stored_globals:
            state.variable(path, name, scope)
            state.stored.append((path, path.item(name)))
        loaded = [(n, access) for (kind, n), access in found.roots.items() if kind == "global"]
        for name, access in loaded:
            for variable in state.variable(path, name, scope):
                self._todo.append((activation, access, Located(*variable)))
        state.values.setdefault(path, scope)
        if is_users(module):
            held = state.held.get(path, {})
            state.missing.setdefault(path, set()).update(n for n, _ in loaded if n not in held)
        self._follow_builtins(activation, scope)
        return None

    def _follow_builtins(self, activation: Activation, scope: dict[str, Any]) -> None:
        for (kind, name), access in activation.found.roots.items():
            if kind == "global" and name not in scope and hasattr(builtins, name):
                for site in access.calls:
                    self._call_builtin(activation, site, getattr(builtins, name))

    def _follow_import(self, activation: Activation, access: Access, name: str,
                       scope: dict[str, Any]) -> None:
        if name.startswith("."):
            name = importlib.util.resolve_name(name, str(scope.get("__package__") or ""))
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType):
            self._follow_module(activation, access, module)

    # ---- accesses

    def _drain(self) -> None:
        while self._todo:
            activation, access, located = self._todo.popleft()
            self._follow(activation, access, located)

    def _follow(self, activation: Activation, access: Access, located: Located) -> None:
        """Notes a value and what the code does with it."""
        path = self.state.note(located.path, located.value)
        value = self.state.values[path]
        if is_plain(value):
            return
        located = Located(path, value, located.receiver)
        receiver = located.receiver
        key = id(activation), id(access), path, receiver and receiver.path
        if key in self._followed:
            return
        self._followed.add(key)
        self._use(access, located)
        if RETURNED in access.uses:
            self._return(activation, located)
        for place in access.stored:
            self._store(place[0], key_of(place), located)
        for place, child in list(access.steps.items()):
            self._step(activation, child, place[0], key_of(place), located)
        for site in access.calls:
            self._call(activation, site, located)
        for site, argument in access.arguments:
            self._pass(activation, site, argument, located)

    def _use(self, access: Access, located: Located) -> None:
        uses, value, state = access.uses, located.value, self.state
        kind = type(value)
        if ALL_ATTRIBUTES in uses:
            state.walk_attributes(located.path, value)
        if ESCAPES in uses or (located.receiver is not None and is_used_whole(access)):
            self._expose(located)
        elif OPERAND in uses and kind is not dict:
            self._expose(located)
        elif uses & {TRUTH, MEMBERS} and not isinstance(value, Tensor):
            if kind in CONTAINERS and uses.isdisjoint({MEMBERS}):
                state.counted.add(located.path)
            elif kind is dict:
                state.hold_elements(located.path)
            elif TRUTH not in uses or has_truth(kind):
                self._expose(located)
        if ELEMENTS in uses and kind is list:
            state.hold_elements(located.path)

    def _return(self, activation: Activation, located: Located) -> None:
        activation.returned.append(located)
        if activation.is_open:
            self._expose(located)
        for caller, result in activation.results:
            self._todo.append((caller, result, located))

    def _store(self, kind: str, key: Any, located: Located) -> None:
        """Notes the value of an attribute or item before code assigns it."""
        path, value, state = located.path, located.value, self.state
        cls = type(value)
        if kind == "item":
            self._store_item(key, located)
        elif isinstance(value, types.ModuleType):
            self._store_variable(value, key)
        elif isinstance(value, type):
            state.hold_class(value)
            state.stored.append((Path("class", value), Path("class", value).attr(key)))
        elif cls is types.FunctionType:
            state.hold_cells(path)
            state.hold_fields(path)
            state.stored.append((path, path.attr(key)))
        elif not isinstance(value, Tensor):
            setter = lookup(cls, "__setattr__")[0]
            if setter is Module:
                self._store_in_module(key, located)
            elif setter is object and not hasattr(type(lookup(cls, key)[1]), "__set__") \
                    and not hasattr(cls, "__captured__") and not isinstance(
                        value, (*SEQUENCES, *SETS, dict, *OPAQUE_OBJECTS)):
                state.hold_attributes(path)
                state.stored.append((path, path.attr(key)))
            else:
                self._expose(located)

    def _store_item(self, key: Any, located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        if type(value) is list and type(key) is int:
            state.counted.add(path)
            key = key + len(value) if key < 0 else key
        if type(value) is dict or (
                type(value) is list and type(key) is int and 0 <= key < len(value)):
            state.hold_item(path, key)
            state.stored.append((path, path.item(key)))
        elif not isinstance(value, Tensor):
            self._expose(located)

    def _store_in_module(self, name: str, located: Located) -> None:
        """Notes what a module's `__setattr__` may change: an attribute, or a registered one."""
        path, state = located.path, self.state
        fields = state.hold_attributes(path)
        state.stored.append((path, path.attr(name)))
        for table_name in MODULE_DICTIONARIES:
            if type(fields.get(table_name)) is dict:
                table = state.note(path.attr(table_name), fields[table_name])
                state.hold_item(table, name)
                state.stored.append((table, table.item(name)))
        names = "_non_persistent_buffers_set"
        if names in fields:
            state.walk(path.attr(names), fields[names])

    def _step(self, activation: Activation, child: Access, kind: str, key: Any,
              located: Located) -> None:
        before = self._exposures
        self._follow_step(activation, child, kind, key, located)
        if self._exposures > before and child.lists_attributes():
            self.state.read_any_name()  # of a part that is not known

    def _follow_step(self, activation: Activation, child: Access, kind: str, key: Any,
                     located: Located) -> None:
        value = located.value
        if kind == "attr":
            self._attribute(activation, child, key, located)
        elif isinstance(value, Tensor) or isinstance(value, (np.ndarray, np.generic)):
            return
        elif kind == "member" and type(value) is dict:
            self.state.test_key(located.path, key)
        elif kind == "each" and isinstance(value, SETS):
            self.state.walk(located.path, value)
        elif type(value) not in CONTAINERS or kind == "member":
            self._expose(located)
        elif kind == "item":
            self._item(activation, child, key, located)
        else:
            self._elements(activation, child, kind, located)

    def _item(self, activation: Activation, child: Access, key: Any, located: Located) -> None:
        path, value = located.path, located.value
        if type(value) is dict:
            if path.is_argument and len(value) <= _MAX_KEYS_OF_ARGUMENT:
                self.state.hold_elements(path)
            self.state.test_key(path, key)
        else:
            if not isinstance(key, int):
                return
            key = int(key) + (len(value) if key < 0 else 0)
            self.state.counted.add(path)
            if not 0 <= key < len(value):
                return
        for item in self.state.item(path, key):
            self._todo.append((activation, child, Located(*item)))

    def _elements(self, activation: Activation, child: Access, kind: str, located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        pairs = state.hold_elements(path)
        if type(value) is dict and kind == "each":
            for key_path, key in object_keys(value):
                self._todo.append((activation, child, Located(key_path, key)))
            return
        if kind == "key" and type(value) is not dict:  # the key may be a slice
            self._todo.append((activation, child, located))
        if len(pairs) > MAX_FOLLOWED_ELEMENTS:
            state.large.append(path)
            return
        for key, element in pairs:
            self._todo.append((activation, child, Located(path.item(key), element)))
        if type(value) is dict:
            for key_path, key in object_keys(value):
                state.walk(key_path, key)


def _no_code() -> None:
    pass


_NO_CODE = _no_code.__code__
