"""Puts stand-ins in place of functions with effects while calls are traced.

`print`, the functions of logging, `warnings.warn` and the functions that read clocks are replaced
where Python finds them: in their modules, in the class of loggers, and in the globals of code that
imports them by name. `sys.stdout` and `sys.stderr` are replaced, too. A stand-in passes a call to
the recorder of its thread. In threads without one it calls the function itself.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...eager.fork_safety import held_while_forking
from ..heap.access_path import Members, Path
from ..heap.code_tracker import followed
from ..heap.introspection import dictionary
from ..heap.value_kinds import LRU_CACHE
from ..scalars.stand_in import StandIn


class EffectRecorder(Protocol):
    """The part of a tracer that notes calls of intercepted functions."""

    def intercepted(self, function: InterceptedFunction, args: tuple[Any, ...],
                    kwargs: dict[str, Any], frame: Any) -> Any:
        """Performs a call that `frame` makes, and notes it. Returns its result."""

    def refuse(self, why: str) -> None:
        """Marks the run as one that cannot be replayed."""


class _Recorders(threading.local):
    """The recorder of each thread."""

    current: EffectRecorder | None = None


RECORDERS = _Recorders()


class InterceptedFunction(StandIn):
    """Stands in place of a function. `rule` tells the recorder what a call means."""

    def __init__(self, value: Any, rule: Any, takes_messages: bool) -> None:
        self.value, self.rule, self.takes_messages = value, rule, takes_messages
        self.__name__ = str(getattr(value, "__name__", value))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder, frame = RECORDERS.current, sys._getframe(1)
        if recorder is None or not followed(frame.f_code):
            return self.value(*args, **kwargs)
        return recorder.intercepted(self, args, kwargs, frame)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        is_method = instance is not None and isinstance(self.value, types.FunctionType)
        return types.MethodType(self, instance) if is_method else self

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "value"), name)

    def __repr__(self) -> str:
        return repr(self.value)


class CachedCall:
    """The rule of a function with a cache of results."""


class InterceptedCache(InterceptedFunction):
    """Stands in place of a function with `functools.lru_cache`."""

    def __getattr__(self, name: str) -> Any:
        recorder = RECORDERS.current
        if recorder is not None and name.startswith("cache_"):
            recorder.refuse(f"{name}() reads or changes a cache of results")
        return super().__getattr__(name)


class InterceptedStream(StandIn):
    """Stands in place of `sys.stdout` or `sys.stderr`. `methods`: those that write."""

    stream_name: str  # in `sys`
    methods: Mapping[str, InterceptedFunction]

    def __init__(self, value: Any, name: str, methods: Mapping[str, InterceptedFunction]) -> None:
        self.__dict__.update(value=value, stream_name=name, methods=methods)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        method = self.methods.get(name)
        return getattr(self.value, name) if method is None else method

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.value, name, value)

    def __iter__(self) -> Any:
        return iter(self.value)

    def __enter__(self) -> Any:
        return self.value.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self.value.__exit__(*error)


_LOCK = held_while_forking(threading.Lock())


class _Replaced:
    """One replaced variable: its owner, which may be a dictionary or a cell, and the traces that
    need it replaced. Both methods may run a second time, after an interruption."""

    def __init__(self, owner: Any, name: str, original: Any, stand_in: StandIn) -> None:
        self.owner, self.name, self.original, self.stand_in = owner, name, original, stand_in
        self.users: set[Interception] = set()

    def install(self, user: Interception) -> None:
        self.users.add(user)
        if _read(self.owner, self.name) is self.original:  # other code may have set it meanwhile
            self._set(self.stand_in)

    def remove(self, user: Interception) -> None:
        self.users.discard(user)
        if not self.users and _read(self.owner, self.name) is self.stand_in:
            self._set(self.original)

    def _set(self, value: Any) -> None:
        if isinstance(self.owner, dict):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


_REPLACED: dict[tuple[int, str], _Replaced] = {}  # by id of the owner, and name


def _read(owner: Any, name: str) -> Any:
    if isinstance(owner, types.CellType):
        return owner.cell_contents
    return owner.get(name) if isinstance(owner, dict) else vars(owner).get(name)


class Interception:
    """The variables that one trace has replaced.

    `rules`: by function, what a call means, and whether it takes messages. `made`: makes the
    stand-in of an output stream.
    """

    def __init__(self, owners: Callable[[], list[tuple[Any, str]]],
                 rules: Mapping[int, tuple[Any, Any, bool]],
                 made: Callable[[Any, str], InterceptedStream]) -> None:
        self._owners, self._rules, self._made = owners, rules, made
        self._installed: dict[tuple[int, str], _Replaced] = {}
        self._outer: EffectRecorder | None = None  # of a trace that runs a handler which is traced

    def install(self, recorder: EffectRecorder) -> None:
        """Replaces the functions and the output streams."""
        self._outer, RECORDERS.current = RECORDERS.current, recorder
        for owner, name in self._owners():
            self._replace(owner, name)
        for name in ("stdout", "stderr"):
            self._replace(sys, name)

    def remove(self) -> None:
        """Puts everything back."""
        RECORDERS.current = self._outer
        with _LOCK:
            for key, replaced in self._installed.items():
                replaced.remove(self)
                if not replaced.users and _REPLACED.get(key) is replaced:
                    del _REPLACED[key]

    def enter(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Replaces functions that code which is about to run has imported by name."""
        for name in code.co_names:
            value = scope.get(name)
            if type(value) in _FUNCTIONS and id(value) in self._rules:
                self._replace(scope, name)

    def replace_at(self, path: Path, values: Mapping[Path, Any]) -> None:
        """Replaces the cached function at a path, if that is a variable or an attribute."""
        if path.parent is None:
            return
        owner: Any = values.get(path.parent)
        if path.kind == "cell":
            self._replace(owner.__closure__[path.key], "cell_contents")
        elif path.kind == "item" and (isinstance(owner, Members) or path.parent.kind == "globals"):
            self._replace(vars(owner.owner) if isinstance(owner, Members) else owner,
                          path.key.value)
        elif path.kind == "attr" and path.key in (dictionary(owner) or {}):
            self._replace(dictionary(owner), path.key)

    def _replace(self, owner: Any, name: str) -> None:
        key = id(owner), name
        if key in self._installed:
            return
        with _LOCK:
            replaced = _REPLACED.get(key)
            if replaced is None:
                value = _read(owner, name)
                stand_in = self._stand_in(value, name)
                if stand_in is None:
                    return
                replaced = _REPLACED[key] = _Replaced(owner, name, value, stand_in)
            self._installed[key] = replaced
            replaced.install(self)

    def _stand_in(self, value: Any, name: str) -> StandIn | None:
        rule = self._rules.get(id(value))
        if rule is not None:
            return InterceptedFunction(*rule)
        if type(value) is LRU_CACHE:
            return InterceptedCache(value, CachedCall(), False)
        is_stream = hasattr(type(value), "write") and not issubclass(type(value), StandIn)
        return self._made(value, name) if is_stream else None


_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType)
