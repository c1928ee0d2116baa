"""Follows calls in bytecode: arguments into the functions that receive them, and results back.

A call of a Python function whose code the hook will report is followed into that function. Other
calls expose their arguments.
"""

from __future__ import annotations

import types
from collections import deque
from typing import Any

from ...eager.nn.base.module import Module
from ..heap.access_path import Path
from ..heap.introspection import lookup, member_of
from ..heap.snapshot import HeapSnapshot
from ..heap.value_kinds import is_plain
from .accesses import Access, CallSite
from .activation import (
    CONTAINERS,
    Activation,
    Binding,
    Located,
    SiteState,
    is_followed,
    is_looked_up_plainly,
    is_used_whole,
)

_TYPE_TESTS = (isinstance, issubclass, callable, id)
_ADDING: dict[type, tuple[str, ...]] = {list: ("append",)}  # methods that read no element


class CallReads:
    """Follows the calls of activations."""

    def __init__(self, state: HeapSnapshot) -> None:
        self.state = state
        self._activations: dict[tuple[int, int], Activation] = {}
        self._by_code: dict[int, list[Activation]] = {}
        self._followed: set[tuple[Any, ...]] = set()
        self._todo: deque[tuple[Activation, Access, Located]] = deque()
        self._exposures = 0
        self._exposed_codes: set[int] = set()  # ids of code that unknown code may call
        self._stored_names: set[str] = set()
        self._sites_by_name: dict[str, list[tuple[Activation, SiteState]]] = {}
        self._alive: list[Any] = []  # scopes, so that no id is used twice
        state.on_exposed_function = self._expose_function

    def _expose_function(self, function: Any) -> None:
        """Notes that code without analysis may call a function."""
        raise NotImplementedError

    def _replace_code(self, function: types.FunctionType) -> None:
        """Lets a function that is about to be called run the code that a trace needs."""
        raise NotImplementedError

    def _attribute(self, activation: Activation, child: Access, name: str,
                   located: Located) -> None:
        """Follows an attribute."""
        raise NotImplementedError

    def _item(self, activation: Activation, child: Access, key: Any, located: Located) -> None:
        """Follows an item with a constant key."""
        raise NotImplementedError

    def _drain(self) -> None:
        """Follows all accesses that are waiting."""
        raise NotImplementedError

    def _expose(self, located: Located) -> None:
        self._exposures += 1
        self.state.walk(located.path, located.value)
        if located.receiver is not None:
            self._expose(located.receiver)

    def _activation(self, code: types.CodeType, scope: dict[str, Any]) -> Activation:
        key = id(code), id(scope)
        if key not in self._activations:
            self._activations[key] = Activation(code)
            self._by_code.setdefault(id(code), []).append(self._activations[key])
            self._activations[key].is_open = id(code) in self._exposed_codes
            self._alive += [code, scope]
        return self._activations[key]

    def _call(self, activation: Activation, site: CallSite, located: Located) -> None:
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
            makes = getattr(value, "__new__", None) is object.__new__
            state.makes_object = type(value) is type and makes
            self._expose(located)
            self._make_opaque(activation, state)
        else:
            self._resolve(activation, site, state, binding)

    def _binding(self, located: Located) -> Binding | None:
        """The function that a call of a value leads to; None if it cannot be followed."""
        path, value, receiver = located
        if isinstance(value, types.FunctionType):
            return self._bind(located, receiver) if is_followed(value) else None
        if isinstance(value, type) or receiver is not None or hasattr(type(value), "__captured__"):
            return None
        cls = type(value)
        if cls.__call__ is Module.__call__ and self._has_no_hooks(located):
            return self._forward(located)
        owner, function = lookup(cls, "__call__")
        if not is_looked_up_plainly(cls) or not is_followed(function):
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

    def _forward(self, located: Located) -> Binding | None:
        path, value, _ = located
        fields, cls = self.state.hold_attributes(path), type(value)
        if "forward" in fields:
            at = self.state.note(path.attr("forward"), fields["forward"])
            return self._binding(Located(at, fields["forward"]))
        owner, function = lookup(cls, "forward")
        if not is_looked_up_plainly(cls) or not is_followed(function) \
                or self.state.is_assigned(cls, "forward"):
            return None
        known = list(member_of(cls, owner, "forward", function))
        at = known[0][0] if known else Path("class", cls).attr("forward")
        return self._bind(Located(at, function), located, noted=bool(known))

    def _bind(self, function: Located, receiver: Located | None, noted: bool = True) -> Binding:
        """Passes a function's receiver, defaults and closure variables to its code."""
        value = function.value
        path = self.state.note(*function[:2]) if noted else function.path
        activation = self._activation(value.__code__, value.__globals__)
        self._replace_code(value)
        shift = int(receiver is not None)
        if receiver is not None:
            self._parameter(activation, 0, receiver)
        if path not in activation.functions:
            activation.functions.add(path)
            if noted:
                self._note_function(activation, path, value)
        return Binding(activation, shift)

    def _note_function(self, activation: Activation, path: Path, function: Any) -> None:
        self.state.stored += [(path, path.cell(i, name))
                              for i, name in enumerate(function.__code__.co_freevars)
                              if name in activation.found.stored_names]
        for name, cell, content in self.state.closure(path):
            access = activation.found.roots.get(("free", name))
            if access is not None:
                self._give(activation, access, Located(cell, content))
        defaults = function.__defaults__ or ()
        first = function.__code__.co_argcount - len(defaults)
        at = path.attr("__defaults__")
        for i, value in enumerate(defaults):
            self._parameter(activation, first + i, Located(at.item(i), value))
        at = path.attr("__kwdefaults__")
        for name, value in (function.__kwdefaults__ or {}).items():
            self._parameter(activation, name, Located(at.item(name), value))

    def _parameter(self, activation: Activation, place: Any, located: Located) -> None:
        """Passes a value to a parameter, by its position or name."""
        code = activation.code
        if isinstance(place, int):
            known = code.co_varnames[: code.co_argcount]
            name = known[place] if place < len(known) else None
        else:
            name = place
        access = activation.found.roots.get(("local", name)) if name is not None else None
        if access is None:  # it is an element of `*args` or `**kwargs`
            self._expose(located)
        else:
            self._give(activation, access, located)

    def _give(self, activation: Activation, access: Access, located: Located) -> None:
        self.state.note(*located[:2])
        if activation.entered:
            self._todo.append((activation, access, located))
        else:
            activation.pending.append((access, located))

    def _resolve(self, activation: Activation, site: CallSite, state: SiteState,
                 binding: Binding) -> None:
        state.is_resolved = True
        if site.spread:
            self._make_opaque(activation, state)
        self._connect(activation, site.result, binding)
        if binding not in state.callees:
            state.callees.append(binding)
            for place, arguments in state.arguments.items():
                for argument in arguments:
                    self._pass_to(binding, place, argument)

    def _connect(self, activation: Activation, result: Access, binding: Binding) -> None:
        """Follows the results of a function in its caller."""
        target = activation, result
        if target not in binding.activation.results:
            binding.activation.results.append(target)
            for located in binding.activation.returned:
                self._todo.append((activation, result, located))

    def _pass(self, activation: Activation, site: CallSite, place: Any, located: Located) -> None:
        """Notes an argument of a call."""
        state = activation.site(site)
        state.arguments.setdefault(place, []).append(located)
        if state.is_opaque or (activation.settled and not state.is_resolved):
            self._expose(located)
        for binding in state.callees:
            self._pass_to(binding, place, located)
        if state.attribute is not None:
            self._read_attribute(activation, site, state.attribute, place, located)
        if state.takes_type:
            self._use_type(activation, site, located)
        if state.takes_length:
            self._use_length(located)

    def _pass_to(self, binding: Binding, place: Any, located: Located) -> None:
        shifted = place + binding.shift if isinstance(place, int) else place
        self._parameter(binding.activation, shifted, located)

    def _call_builtin(self, activation: Activation, site: CallSite, function: Any) -> None:
        """Notes a call of a builtin: a few of them read little of their arguments."""
        state = activation.site(site)
        arguments = [(p, a) for p, passed in state.arguments.items() for a in passed]
        if site.spread:
            self._make_opaque(activation, state)
        elif function in _TYPE_TESTS:
            state.is_resolved = True
        elif function is type:
            state.takes_type = state.is_resolved = True
            for _, argument in arguments:
                self._use_type(activation, site, argument)
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

    def _use_type(self, activation: Activation, site: CallSite, located: Located) -> None:
        """Follows the class that `type` returns. With three arguments it makes a class."""
        if set(activation.site(site).arguments) - {0} or site.constants:
            self._expose(located)
        cls = type(located.value)
        self._todo.append((activation, site.result, Located(Path("class", cls), cls)))

    def _use_length(self, located: Located) -> None:
        if type(located.value) in CONTAINERS:
            self.state.counted.add(located.path)
        else:
            self._expose(located)

    def _read_attribute(self, activation: Activation, site: CallSite, name: str, place: Any,
                        located: Located) -> None:
        """Follows an attribute that `getattr` reads; the default escapes."""
        if place == 0 and not is_plain(located.value):
            self._attribute(activation, site.result, name, located)
        else:
            self._expose(located)

    def _method_of_container(self, activation: Activation, child: Access, name: str,
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
        if not child.calls or is_used_whole(child):
            self._expose(located)

    def _make_opaque(self, activation: Activation, state: SiteState) -> None:
        """Exposes the arguments of a call, now and later."""
        if state.result.lists_attributes() and not state.is_opaque and not state.makes_object:
            self.state.read_any_name()
        state.is_opaque = state.is_resolved = True
        for arguments in state.arguments.values():
            for argument in arguments:
                self._expose(argument)

    def _settle(self, activation: Activation) -> None:
        """Exposes the arguments of calls of unknown functions."""
        activation.settled = True
        for state in list(activation.sites.values()):
            if not state.is_resolved:
                self._make_opaque(activation, state)
        self._drain()


def _is_name(value: Any) -> bool:
    return type(value) is str and not value.startswith("__")
