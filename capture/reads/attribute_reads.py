"""Follows attributes in bytecode to the objects that they lead to, without running user code."""

from __future__ import annotations

import sys
import types
from typing import Any

from ...eager.nn.base.module import Module
from ..heap.access_path import Members, Path
from ..heap.introspection import is_users, lookup, member_of, of_instance
from ..heap.value_kinds import FIXED, INDIRECTIONS, MODULE_DICTIONARIES, SEQUENCES, SETS
from ..scalars.stand_in import StandIn
from .accesses import ESCAPES, Access
from .activation import (
    CONTAINERS,
    OPAQUE_OBJECTS,
    Activation,
    Located,
    is_followed,
    is_looked_up_plainly,
    is_used_whole,
)
from .call_reads import CallReads


class AttributeReads(CallReads):
    """Follows the attributes of instances, classes and modules."""

    def _attribute(self, activation: Activation, child: Access, name: str,
                   located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        kind = type(value)
        if kind in CONTAINERS:
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
        elif isinstance(value, (*OPAQUE_OBJECTS, *FIXED)):
            return
        elif is_looked_up_plainly(kind) and not name.startswith("__") and kind not in INDIRECTIONS:
            self._instance_attribute(activation, child, name, located)
        else:
            self._expose(located)

    def _follow_module(self, activation: Activation, access: Access,
                       module: types.ModuleType) -> None:
        if ESCAPES in access.uses:
            self.state.walk(Path("class", module), module)
        for (kind, name), child in access.steps.items():
            if kind == "attr" and is_users(module.__name__):
                self._variable(activation, child, module, name)
        for kind, name in access.stored:
            if kind == "attr":
                self._store_variable(module, name)

    def _variable(self, activation: Activation, child: Access, module: types.ModuleType,
                  name: str) -> None:
        for located in self.state.module_variable(module, name):
            self._todo.append((activation, child, Located(*located)))
        if name not in vars(module) and "__getattr__" in vars(module):
            for path, value in self.state.module_variable(module, "__getattr__"):
                self.state.walk(path, value)

    def _store_variable(self, module: types.ModuleType, name: str) -> None:
        """Notes the value of a variable of a module before code assigns it."""
        if is_users(module.__name__):
            self.state.module_variable(module, name)
            path = Path("class", Members(module))
            self.state.stored.append((path, path.item(name)))

    def _library_variable(self, activation: Activation, child: Access, module: types.ModuleType,
                          name: str, located: Located) -> None:
        """Follows the environment. Functions of libraries are no state; those of ours are called
        with arguments."""
        if module.__name__ == "os" and name == "environ":
            self.state.walk(located.path.attr(name), getattr(module, name))
        value = vars(module).get(name)
        if value is sys.modules and all(kind == "item" for kind, _ in child.steps):
            path = Path("class", Members(module)).item(name)
            self._todo.append((activation, child, Located(path, value)))
        for site in child.calls:
            if isinstance(value, types.BuiltinFunctionType):
                self._call_builtin(activation, site, value)

    def _class_attribute(self, activation: Activation, child: Access, name: str,
                         located: Located) -> None:
        cls = located.value
        self.state.hold_class(cls)
        owner, member = lookup(cls, name)
        if owner is None or name.startswith("__") or is_users(type(cls).__module__) \
                or lookup(type(cls), "__getattribute__")[0] is not type:
            self._expose(located)
            return
        if self.state.is_assigned(cls, name):
            return
        plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        receiver = located if isinstance(member, classmethod) else None
        for path, value in member_of(cls, owner, name, member):
            function = plain if isinstance(value, types.MethodType) else value
            self._method(activation, child, Located(path, value), function, receiver)

    def _instance_attribute(self, activation: Activation, child: Access, name: str,
                            located: Located) -> None:
        path, value, state = located.path, located.value, self.state
        fields, cls = state.hold_attributes(path), type(value)
        owner, member = lookup(cls, name)
        if isinstance(member, property) and not state.is_assigned(cls, name):
            self._property(activation, child, name, located, owner, member)
        elif name in fields:
            self._todo.append((activation, child, Located(path.attr(name), fields[name])))
        elif owner is not None:
            if not state.is_assigned(cls, name):
                self._inherited(activation, child, name, located, owner, member)
        elif not self._registered(activation, child, name, located) \
                and getattr(cls, "__getattr__", Module.__getattr__) is not Module.__getattr__:
            self._expose(located)

    def _property(self, activation: Activation, child: Access, name: str, located: Located,
                  owner: Any, member: property) -> None:
        cls = type(located.value)
        if type(member) is not property or not is_followed(member.fget):
            self._expose(located)
            return
        at, noted = Path("class", cls).attr(name), False
        for at, _ in member_of(cls, owner, name, member):
            self.state.note(at, member)
            noted = True
        function = Located(at.attr("fget"), member.fget)
        self._connect(activation, child, self._bind(function, located, noted))

    def _inherited(self, activation: Activation, child: Access, name: str, located: Located,
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
        elif issubclass(type(member), StandIn):  # a method whose effect a replay repeats
            for site in child.calls:
                self._make_opaque(activation, activation.site(site))
        elif hasattr(type(member), "__get__"):
            self._expose(located)
            for at, element in member_of(cls, owner, name, member):
                self.state.walk(at, element)
        elif name in of_instance(cls):
            self._todo.append((activation, child, Located(path.attr(name), member)))

    def _method(self, activation: Activation, child: Access, located: Located, function: Any,
                receiver: Located | None) -> None:
        """Follows a function in a class, as code reads it: it may be a bound method."""
        path, value, _ = located
        if isinstance(value, types.MethodType):
            path = self.state.note(path, value).attr("__func__")
        self._todo.append((activation, child, Located(path, function, receiver)))

    def _call_library(self, activation: Activation, child: Access, function: Any,
                      receiver: Located | None, cls: type) -> None:
        """Follows a method of a library's class, which no guard needs to cover."""
        if is_followed(function) and not is_used_whole(child):
            path = Path("class", cls).attr(function.__name__)
            for site in child.calls:
                binding = self._bind(Located(path, function), receiver, noted=False)
                self._resolve(activation, site, activation.site(site), binding)
        elif receiver is not None:
            self._expose(receiver)

    def _registered(self, activation: Activation, child: Access, name: str,
                    located: Located) -> bool:
        """Follows a parameter, buffer or module that is registered under a name."""
        if not isinstance(located.value, Module):
            return False
        for table_name in MODULE_DICTIONARIES:
            table = vars(located.value).get(table_name)
            if type(table) is dict and name in table:
                path = self.state.note(located.path.attr(table_name), table)
                for item in self.state.item(path, name):
                    self._todo.append((activation, child, Located(*item)))
                return True
        return False
