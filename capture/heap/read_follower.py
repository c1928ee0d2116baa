"""Follows what running code reads: the accesses in its bytecode, applied to the objects at hand.

When a function is called for the first time, its globals, parameters and closure variables are
known, and so are the objects that each access of its bytecode leads to. A call of a Python function
whose code the hook will report is followed into that function. All other uses expose an object.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ...eager.nn.base.module import Module
from .access_analysis import (
    ALL_ATTRIBUTES,
    ELEMENTS,
    ESCAPES,
    MEMBERS,
    OPERAND,
    RETURNED,
    TRUTH,
    Access,
    CallSite,
    CodeAccesses,
    accesses_of,
    key_of,
)
from .access_path import Path
from .code_tracker import followed, is_python
from .introspection import EMPTY, is_users, member_of, of_instance
from .snapshot import (
    FIXED,
    INDIRECTIONS,
    MAX_FOLLOWED_ELEMENTS,
    MODULE_DICTIONARIES,
    SEQUENCES,
    SETS,
    HeapSnapshot,
    ignore,
    is_plain,
    object_keys,
)

_ROOT = __name__.partition(".")[0]
_CONTAINERS = (list, tuple, dict)
_MAX_KEYS_OF_ARGUMENT = 64  # a smaller dictionary is guarded by all its keys, as a signature is
_TYPE_TESTS = (isinstance, issubclass, callable, type, id)
_ADDING = {list: ("append",), dict: ()}  # methods that read no element
_OPAQUE_OBJECTS = (Tensor, np.ndarray, np.generic, types.BuiltinFunctionType,
                   types.MethodWrapperType, types.CodeType, np.ufunc)


class Located(NamedTuple):
    """A value and its path. `receiver`: the object of which it is a method."""

    path: Path
    value: Any
    receiver: Located | None = None


class _SiteState:
    """What is known of a call in the code: functions that it calls, and arguments."""

    def __init__(self, result: Access) -> None:
        self.result, self.makes_object = result, False  # an object that did not exist before
        self.callees: list[_Binding] = []
        self.arguments: dict[Any, list[Located]] = {}
        self.attribute: str | None = None  # that `getattr` or `hasattr` reads
        self.takes_length = False
        self.is_resolved = self.is_opaque = False


class _Activation:
    """The calls of a function: the values of its parameters, and where its results go."""

    def __init__(self, code: types.CodeType) -> None:
        self.code, self.found = code, accesses_of(code)
        self.entered = self.settled = False
        self.is_open = False  # code without analysis may call it, or use its results
        self.pending: list[tuple[Access, Located]] = []
        self.sites: dict[CallSite, _SiteState] = {}
        self.results: list[tuple[_Activation, Access]] = []  # accesses of the result, by callers
        self.returned: list[Located] = []
        self.functions: set[Path] = set()

    def end(self) -> None:
        """Releases all objects."""
        self.pending, self.returned, self.results = [], [], []
        self.sites.clear()

    def site(self, site: CallSite) -> _SiteState:
        if site not in self.sites:
            self.sites[site] = _SiteState(site.result)
        return self.sites[site]


class _Binding(NamedTuple):
    """A function that a call leads to. `shift`: the number of parameters before the arguments."""

    activation: _Activation
    shift: int


class ReadFollower:
    """Notes in a snapshot what code reads that is about to run."""

    def __init__(self, state: HeapSnapshot) -> None:
        self.state = state
        self._activations: dict[tuple[int, int], _Activation] = {}
        self._by_code: dict[int, list[_Activation]] = {}
        self._followed: set[tuple[Any, ...]] = set()
        self._todo: deque[tuple[_Activation, Access, Located]] = deque()
        self._exposures = 0
        self._exposed_codes: set[int] = set()  # ids of code that unknown code may call
        self._stored_names: set[str] = set()
        self._sites_by_name: dict[str, list[tuple[_Activation, _SiteState]]] = {}
        self._alive: list[Any] = []  # scopes, so that no id is used twice
        state.on_exposed_function = self._expose_function

    # ---- events

    def begin(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes the function that is traced, and its arguments."""
        caller, site = _Activation(_NO_CODE), CallSite()
        places = {**{i: Path("args").item(i) for i in range(len(args))},
                  **{k: Path("kwargs").item(k) for k in kwargs}}
        for place, value in (*enumerate(args), *kwargs.items()):
            self._pass(caller, site, place, Located(self.state.note(places[place], value), value))
        self.state.note(Path("function"), fn)
        self._call(caller, site, Located(Path("function"), fn))
        self._drain()
        self._settle(caller)

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
        self._follow_globals(activation, found, scope)
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
        self.state.on_exposed_function = ignore
        for activation in self._activations.values():
            activation.end()
        for table in (self._activations, self._by_code, self._sites_by_name, self._alive):
            table.clear()  # type: ignore[attr-defined]

    def _expose_function(self, function: types.FunctionType) -> None:
        """Notes that code without analysis may call a function: its results are exposed."""
        self._exposed_codes.add(id(function.__code__))
        self._alive.append(function.__code__)
        for activation in self._by_code.get(id(function.__code__), ()):
            self._open(activation)
            for path, value, _ in activation.returned:
                self.state.walk(path, value)

    def _open(self, activation: _Activation) -> None:
        """Notes that parameters may hold any exposed object."""
        activation.is_open = True
        if activation.entered and any(access.lists_attributes() for (kind, _), access in
                                      activation.found.roots.items() if kind in ("local", "free")):
            self.state.read_any_name()

    def _activation(self, code: types.CodeType, scope: dict[str, Any]) -> _Activation:
        key = id(code), id(scope)
        if key not in self._activations:
            self._activations[key] = _Activation(code)
            self._by_code.setdefault(id(code), []).append(self._activations[key])
            self._activations[key].is_open = id(code) in self._exposed_codes
            self._alive += [code, scope]
        return self._activations[key]

    def _note_stored_names(self, names: set[str]) -> None:
        """Notes names that code assigns: calls of functions by these names may call others."""
        for name in names - self._stored_names:
            self._stored_names.add(name)
            for activation, site in self._sites_by_name.get(name, ()):
                self._make_opaque(activation, site)

    # ---- roots

    def _follow_globals(self, activation: _Activation, found: CodeAccesses,
                        scope: dict[str, Any]) -> None:
        module, state = str(scope.get("__name__")), self.state
        if module.partition(".")[0] == _ROOT and not is_users(module):
            return self._follow_builtins(activation, found, scope)  # our own globals never change
        path = Path("globals", id(scope))
        for name in found.stored_globals:
            state.hold_variable(path, name, scope)
            state.stored.append((path, path.item(name)))
        loaded = [(n, access) for (kind, n), access in found.roots.items() if kind == "global"]
        for name, access in loaded:
            if state.hold_variable(path, name, scope):
                self._todo.append((activation, access, Located(path.item(name), scope[name])))
        state.values.setdefault(path, scope)
        if is_users(module):
            held = state.held.get(path, {})
            state.missing.setdefault(path, set()).update(n for n, _ in loaded if n not in held)
        self._follow_builtins(activation, found, scope)
        return None

    def _follow_builtins(self, activation: _Activation, found: CodeAccesses,
                         scope: dict[str, Any]) -> None:
        for (kind, name), access in found.roots.items():
            if kind == "global" and name not in scope and hasattr(builtins, name):
                for site in access.calls:
                    self._call_builtin(activation, site, getattr(builtins, name))

    def _follow_import(self, activation: _Activation, access: Access, name: str,
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

    def _follow(self, activation: _Activation, access: Access, located: Located) -> None:
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
        if ESCAPES in uses or (located.receiver is not None and _is_used_whole(access)):
            self._expose(located)
        elif OPERAND in uses and kind is not dict:
            self._expose(located)
        elif uses & {TRUTH, MEMBERS} and not isinstance(value, Tensor):
            if kind in _CONTAINERS and uses.isdisjoint({MEMBERS}):
                state.counted.add(located.path)
            elif kind is dict:
                state.hold_elements(located.path)
            elif TRUTH not in uses or _has_truth(kind):
                self._expose(located)
        if ELEMENTS in uses and kind is list:
            state.hold_elements(located.path)

    def _expose(self, located: Located) -> None:
        self._exposures += 1
        self.state.walk(located.path, located.value)
        if located.receiver is not None:
            self._expose(located.receiver)

    def _return(self, activation: _Activation, located: Located) -> None:
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
            position = key + len(value) if cls is list and type(key) is int and key < 0 else key
            if cls is dict:
                state.hold_item(path, key)
                state.stored.append((path, path.item(key)))
            elif cls is list and type(key) is int and 0 <= position < len(value):
                state.counted.add(path)
                state.hold_item(path, position)
                state.stored.append((path, path.item(position)))
            elif not isinstance(value, Tensor):
                self._expose(located)
        elif isinstance(value, types.ModuleType):
            if is_users(value.__name__):
                variables = state.hold_module_variable(value, key)
                state.stored.append((variables, variables.item(key)))
        elif isinstance(value, type):
            state.hold_class(value)
            state.stored.append((Path("class", value), Path("class", value).attr(key)))
        elif cls is types.FunctionType:
            state.hold_fields(path)
            state.stored.append((path, path.attr(key)))
        elif not isinstance(value, Tensor):
            if cls.__setattr__ is object.__setattr__ and not hasattr(
                    type(_lookup(cls, key)[1]), "__set__") and not hasattr(cls, "__captured__") \
                    and not isinstance(value, (*SEQUENCES, *SETS, dict, *_OPAQUE_OBJECTS)):
                state.hold_attributes(path)
                state.stored.append((path, path.attr(key)))
            else:
                self._expose(located)

    def _step(self, activation: _Activation, child: Access, kind: str, key: Any,
              located: Located) -> None:
        before = self._exposures
        self._follow_step(activation, child, kind, key, located)
        if self._exposures > before and child.lists_attributes():
            self.state.read_any_name()  # of a part that is not known

    def _follow_step(self, activation: _Activation, child: Access, kind: str, key: Any,
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
        elif type(value) not in _CONTAINERS or kind == "member":
            self._expose(located)
        elif kind == "item":
            self._item(activation, child, key, located)
        else:
            self._elements(activation, child, kind, located)

    def _item(self, activation: _Activation, child: Access, key: Any, located: Located) -> None:
        path, value = located.path, located.value
        if type(value) is dict:
            if path.is_argument and len(value) <= _MAX_KEYS_OF_ARGUMENT:
                self.state.hold_elements(path)
            self.state.test_key(path, key)
            exists = key in value
        else:
            if not isinstance(key, int):
                return
            key = int(key) + (len(value) if key < 0 else 0)
            exists = 0 <= key < len(value)
            self.state.counted.add(path)
            if exists:
                self.state.hold_item(path, key)
        if exists:
            self._todo.append((activation, child, Located(path.item(key), value[key])))

    def _elements(self, activation: _Activation, child: Access, kind: str,
                  located: Located) -> None:
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

    # ---- attributes

    def _attribute(self, activation: _Activation, child: Access, name: str,
                   located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        kind = type(value)
        if kind in _CONTAINERS:
            self._method_of_container(activation, child, name, located)
        elif isinstance(value, types.ModuleType):
            if is_users(value.__name__):
                self._variable(activation, child, value, name)
            else:
                self._library_variable(activation, child, value, name, located)
        elif isinstance(value, type):
            self._class_attribute(activation, child, name, located)
        elif kind is types.FunctionType:
            fields = state.hold_fields(path)
            if name in fields:
                self._todo.append((activation, child, Located(path.attr(name), fields[name])))
            elif name.startswith("__"):
                self._expose(located)
        elif isinstance(value, (*SEQUENCES, *SETS, dict)):
            self._expose(located)
        elif isinstance(value, (*_OPAQUE_OBJECTS, *FIXED)):
            return
        elif _is_looked_up_plainly(kind) and not name.startswith("__") \
                and kind not in INDIRECTIONS:
            self._instance_attribute(activation, child, name, located)
        else:
            self._expose(located)

    def _follow_module(self, activation: _Activation, access: Access,
                       module: types.ModuleType) -> None:
        if ESCAPES in access.uses:
            self.state.walk(Path("class", module), module)
        for (kind, name), child in access.steps.items():
            if kind == "attr" and is_users(module.__name__):
                self._variable(activation, child, module, name)
        for kind, name in access.stored:
            if kind == "attr" and is_users(module.__name__):
                path = self.state.hold_module_variable(module, name)
                self.state.stored.append((path, path.item(name)))

    def _variable(self, activation: _Activation, child: Access, module: types.ModuleType,
                  name: str) -> None:
        variables = vars(module)
        path = self.state.hold_module_variable(module, name)
        if name in variables:
            self._todo.append((activation, child, Located(path.item(name), variables[name])))
        elif "__getattr__" in variables:
            self.state.walk(path.item("__getattr__"), variables["__getattr__"])

    def _library_variable(self, activation: _Activation, child: Access, module: types.ModuleType,
                          name: str, located: Located) -> None:
        """Follows the environment. Functions of libraries are no state; those of ours are called
        with arguments."""
        if module.__name__ == "os" and name == "environ":
            self.state.walk(located.path.attr(name), getattr(module, name))
        value = vars(module).get(name)
        for site in child.calls:
            if isinstance(value, types.BuiltinFunctionType):
                self._call_builtin(activation, site, value)

    def _class_attribute(self, activation: _Activation, child: Access, name: str,
                         located: Located) -> None:
        cls = located.value
        self.state.hold_class(cls)
        owner, member = _lookup(cls, name)
        if owner is None or name.startswith("__") or type(cls).__getattribute__ is not \
                type.__getattribute__ or is_users(type(cls).__module__):
            self._expose(located)
            return
        plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        receiver = located if isinstance(member, classmethod) else None
        for path, value in member_of(cls, owner, name, member):
            function = plain if isinstance(value, types.MethodType) else value
            self._method(activation, child, Located(path, value), function, receiver)

    def _instance_attribute(self, activation: _Activation, child: Access, name: str,
                            located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        fields, cls = state.hold_attributes(path), type(value)
        owner, member = _lookup(cls, name)
        if isinstance(member, property):
            self._property(activation, child, name, located, owner, member)
        elif name in fields:
            self._todo.append((activation, child, Located(path.attr(name), fields[name])))
        elif owner is not None:
            self._inherited(activation, child, name, located, owner, member)
        elif not self._registered(activation, child, name, located) and hasattr(
                cls, "__getattr__") and cls.__getattr__ is not Module.__getattr__:
            self._expose(located)

    def _property(self, activation: _Activation, child: Access, name: str, located: Located,
                  owner: Any, member: property) -> None:
        cls = type(located.value)
        if type(member) is not property or not _is_followed(member.fget):
            self._expose(located)
            return
        at, noted = Path("class", cls).attr(name), False
        for at, _ in member_of(cls, owner, name, member):
            self.state.note(at, member)
            noted = True
        function = Located(at.attr("fget"), member.fget)
        self._connect(activation, child, self._bind(function, located, noted))

    def _inherited(self, activation: _Activation, child: Access, name: str, located: Located,
                   owner: Any, member: Any) -> None:
        """Follows an attribute that a class defines for its instances."""
        path, cls = located.path, type(located.value)
        plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if isinstance(plain, types.FunctionType):
            receiver: Located | None = located
            if isinstance(member, staticmethod):
                receiver = None
            elif isinstance(member, classmethod):
                receiver = Located(self.state.note(Path("class", cls), cls), cls)
            known = list(member_of(cls, owner, name, member))
            for at, function in known:
                self._method(activation, child, Located(at, function), plain, receiver)
            if not known:
                self._call_library(activation, child, plain, receiver, cls)
        elif hasattr(type(member), "__get__"):
            self._expose(located)
            for at, element in member_of(cls, owner, name, member):
                self.state.walk(at, element)
        elif name in of_instance(cls):
            self._todo.append((activation, child, Located(path.attr(name), member)))

    def _method(self, activation: _Activation, child: Access, located: Located, function: Any,
                receiver: Located | None) -> None:
        """Follows a function in a class, as code reads it: it may be a bound method."""
        path, value, _ = located
        if isinstance(value, types.MethodType):
            path = self.state.note(path, value).attr("__func__")
        self._todo.append((activation, child, Located(path, function, receiver)))

    def _call_library(self, activation: _Activation, child: Access, function: Any,
                      receiver: Located | None, cls: type) -> None:
        """Follows a method of a library's class, which no guard needs to cover."""
        if _is_followed(function) and not _is_used_whole(child):
            path = Path("class", cls).attr(function.__name__)
            for site in child.calls:
                state = activation.site(site)
                self._resolve(activation, site, state,
                              self._bind(Located(path, function), receiver, noted=False))
        elif receiver is not None:
            self._expose(receiver)

    def _registered(self, activation: _Activation, child: Access, name: str,
                    located: Located) -> bool:
        """Follows a parameter, buffer or module that is registered under a name."""
        if not isinstance(located.value, Module):
            return False
        for table_name in MODULE_DICTIONARIES:
            table = vars(located.value).get(table_name)
            if type(table) is dict and name in table:
                path = self.state.note(located.path.attr(table_name), table)
                self.state.hold_item(path, name)
                self._todo.append((activation, child, Located(path.item(name), table[name])))
                return True
        return False

    # ---- calls

    def _call(self, activation: _Activation, site: CallSite, located: Located) -> None:
        """Notes a value that code calls."""
        path, value, receiver = located
        state = activation.site(site)
        if isinstance(path.key, str) and path.key in self._stored_names:
            self._make_opaque(activation, state)
        if isinstance(path.key, str):
            self._sites_by_name.setdefault(path.key, []).append((activation, state))
        if isinstance(value, types.MethodType) and receiver is None:
            self.state.note(path.attr("__func__"), value.__func__)
            own = Located(path.attr("__self__"), value.__self__)
            self.state.note(*own[:2])
            located = Located(path.attr("__func__"), value.__func__, own)
            path, value, receiver = located
        if isinstance(value, types.BuiltinFunctionType):
            self._expose(located)  # the object of which it is a method
            self._call_builtin(activation, site, value)
            return
        binding = self._binding(located)
        if binding is None:
            state.makes_object = isinstance(value, type) and type(value) is type \
                and getattr(value, "__new__", None) is object.__new__
            self._expose(located)
            self._make_opaque(activation, state)
        else:
            self._resolve(activation, site, state, binding)

    def _binding(self, located: Located) -> _Binding | None:
        """The function that a call of a value leads to; None if it cannot be followed."""
        path, value, receiver = located
        if isinstance(value, types.FunctionType):
            return self._bind(located, receiver) if _is_followed(value) else None
        if isinstance(value, type) or receiver is not None or hasattr(type(value), "__captured__"):
            return None
        cls = type(value)
        if cls.__call__ is Module.__call__ and self._has_no_hooks(located):
            return self._forward(located)
        owner, function = _lookup(cls, "__call__")
        if not _is_looked_up_plainly(cls) or not _is_followed(function):
            return None
        self.state.hold_attributes(path)
        known = list(member_of(cls, owner, "__call__", function))
        at = known[0][0] if known else Path("class", cls).attr("__call__")
        return self._bind(Located(at, function), Located(path, value), noted=bool(known))

    def _has_no_hooks(self, located: Located) -> bool:
        """True if a call of a module only calls its `forward`; notes that it has no hooks."""
        fields, at = self.state.hold_attributes(located.path), located.path.attr("_hooks")
        hooks = fields.get("_hooks", Module._hooks)
        if hooks is None:
            self.state.note(at, None)
        return hooks is None

    def _forward(self, located: Located) -> _Binding | None:
        path, value, _ = located
        fields, cls = self.state.hold_attributes(path), type(value)
        if "forward" in fields:
            return self._binding(Located(self.state.note(path.attr("forward"), fields["forward"]),
                                         fields["forward"]))
        owner, function = _lookup(cls, "forward")
        if not _is_looked_up_plainly(cls) or not _is_followed(function):
            return None
        known = list(member_of(cls, owner, "forward", function))
        at = known[0][0] if known else Path("class", cls).attr("forward")
        return self._bind(Located(at, function), located, noted=bool(known))

    def _bind(self, function: Located, receiver: Located | None, noted: bool = True) -> _Binding:
        """Passes a function's receiver, defaults and closure variables to its code."""
        value = function.value
        path = self.state.note(*function[:2]) if noted else function.path
        activation = self._activation(value.__code__, value.__globals__)
        shift = int(receiver is not None)
        names = value.__code__.co_varnames
        if receiver is not None:
            self._parameter(activation, 0, receiver)
        if path not in activation.functions:
            activation.functions.add(path)
            if noted:
                self._note_function(activation, path, value, names)
        return _Binding(activation, shift)

    def _note_function(self, activation: _Activation, path: Path, function: Any,
                       names: tuple[str, ...]) -> None:
        for i, content in enumerate(self.state.hold_cells(path)):
            name = function.__code__.co_freevars[i]
            access = activation.found.roots.get(("free", name))
            if name in activation.found.stored_names:
                self.state.stored.append((path, path.cell(i, name)))
            if access is not None and content is not EMPTY:
                self._give(activation, access, Located(path.cell(i, name), content))
        defaults = function.__defaults__ or ()
        first = function.__code__.co_argcount - len(defaults)
        at = path.attr("__defaults__")
        for i, value in enumerate(defaults):
            self._parameter(activation, first + i, Located(at.item(i), value))
        at = path.attr("__kwdefaults__")
        for name, value in (function.__kwdefaults__ or {}).items():
            self._parameter(activation, name, Located(at.item(name), value))

    def _parameter(self, activation: _Activation, place: Any, located: Located) -> None:
        """Passes a value to a parameter, by its position or name."""
        code = activation.code
        if isinstance(place, int):
            known = code.co_varnames[:code.co_argcount]
            name = known[place] if place < len(known) else None
        else:
            name = place
        access = activation.found.roots.get(("local", name)) if name is not None else None
        if access is None:  # it is an element of `*args` or `**kwargs`
            self._expose(located)
        else:
            self._give(activation, access, located)

    def _give(self, activation: _Activation, access: Access, located: Located) -> None:
        self.state.note(*located[:2])
        if activation.entered:
            self._todo.append((activation, access, located))
        else:
            activation.pending.append((access, located))

    def _resolve(self, activation: _Activation, site: CallSite, state: _SiteState,
                 binding: _Binding) -> None:
        state.is_resolved = True
        if site.spread:
            self._make_opaque(activation, state)
        self._connect(activation, site.result, binding)
        if binding not in state.callees:
            state.callees.append(binding)
            for place, arguments in state.arguments.items():
                for argument in arguments:
                    self._pass_to(binding, place, argument)

    def _connect(self, activation: _Activation, result: Access, binding: _Binding) -> None:
        """Follows the results of a function in its caller."""
        target = activation, result
        if target not in binding.activation.results:
            binding.activation.results.append(target)
            for located in binding.activation.returned:
                self._todo.append((activation, result, located))

    def _pass(self, activation: _Activation, site: CallSite, place: Any,
              located: Located) -> None:
        """Notes an argument of a call."""
        state = activation.site(site)
        state.arguments.setdefault(place, []).append(located)
        if state.is_opaque or (activation.settled and not state.is_resolved):
            self._expose(located)
        for binding in state.callees:
            self._pass_to(binding, place, located)
        if state.attribute is not None:
            self._read_attribute(activation, site, state.attribute, place, located)
        if state.takes_length:
            self._use_length(located)

    def _pass_to(self, binding: _Binding, place: Any, located: Located) -> None:
        shifted = place + binding.shift if isinstance(place, int) else place
        self._parameter(binding.activation, shifted, located)

    def _call_builtin(self, activation: _Activation, site: CallSite, function: Any) -> None:
        """Notes a call of a builtin: a few of them read little of their arguments."""
        state = activation.site(site)
        arguments = [(p, a) for p, passed in state.arguments.items() for a in passed]
        if site.spread:
            self._make_opaque(activation, state)
        elif function in _TYPE_TESTS:
            state.is_resolved = True
        elif function is len:
            state.takes_length = state.is_resolved = True
            for _, argument in arguments:
                self._use_length(argument)
        elif function in (getattr, hasattr) and _is_name(site.constants.get(1)):
            state.attribute, state.is_resolved = site.constants[1], True
            for place, argument in arguments:
                self._read_attribute(activation, site, state.attribute, place, argument)
        else:
            self._make_opaque(activation, state)

    def _use_length(self, located: Located) -> None:
        if type(located.value) in _CONTAINERS:
            self.state.counted.add(located.path)
        else:
            self._expose(located)

    def _read_attribute(self, activation: _Activation, site: CallSite, name: str, place: Any,
                        located: Located) -> None:
        """Follows an attribute that `getattr` reads; the default escapes."""
        if place == 0 and not is_plain(located.value):
            self._attribute(activation, site.result, name, located)
        else:
            self._expose(located)

    def _method_of_container(self, activation: _Activation, child: Access, name: str,
                             located: Located) -> None:
        kind = type(located.value)
        for site in child.calls:
            if kind is dict and name == "get" and type(site.constants.get(0)) is str:
                self._item(activation, site.result, site.constants[0], located)
                self._make_opaque(activation, activation.site(site))  # its default
            elif name in _ADDING.get(kind, ()):
                self.state.hold_elements(located.path)
                self._make_opaque(activation, activation.site(site))
            else:
                self._expose(located)
                self._make_opaque(activation, activation.site(site))
        if not child.calls or _is_used_whole(child):
            self._expose(located)

    def _make_opaque(self, activation: _Activation, state: _SiteState) -> None:
        """Exposes the arguments of a call, now and later."""
        if state.result.lists_attributes() and not state.is_opaque and not state.makes_object:
            self.state.read_any_name()
        state.is_opaque = state.is_resolved = True
        for arguments in state.arguments.values():
            for argument in arguments:
                self._expose(argument)

    def _settle(self, activation: _Activation) -> None:
        """Exposes the arguments of calls of unknown functions."""
        activation.settled = True
        for state in list(activation.sites.values()):
            if not state.is_resolved:
                self._make_opaque(activation, state)
        self._drain()


def _is_used_whole(access: Access) -> bool:
    """True if code does more with a method than calling it."""
    return bool(access.uses or access.steps or access.arguments or access.stored)


def _is_followed(function: Any) -> bool:
    """True if the hook reports calls of a function, and its accesses are analyzed."""
    if not isinstance(function, types.FunctionType):
        return False
    name, file = str(function.__globals__.get("__name__")), function.__code__.co_filename
    return followed(function.__code__) and not is_python(file) \
        and not name.startswith("namedtuple_") \
        and not (file.startswith("<") and name.partition(".")[0] == _ROOT)


def _is_looked_up_plainly(cls: type) -> bool:
    """True if attributes are looked up in the object and its class, as usual."""
    return cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, "__captured__")


def _lookup(cls: type, name: str) -> tuple[Any, Any]:
    """The class that defines an attribute, and the attribute; (None, None) if there is none."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner, owner.__dict__[name]
    return None, None


def _is_name(value: Any) -> bool:
    return type(value) is str and not value.startswith("__")


def _has_truth(cls: type) -> bool:
    return hasattr(cls, "__bool__") or hasattr(cls, "__len__")


def _no_code() -> None:
    pass


_NO_CODE = _no_code.__code__
