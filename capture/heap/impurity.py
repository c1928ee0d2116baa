"""Builtin functions whose result or effect a replay would not repeat: time, files, output, ids."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

from .bytecode import instructions

_ANOTHER = "returns a different value on each call"
_WRITES = "writes output on each call"
# Modules of C code all of whose functions read or change the world outside.
_OUTSIDE = {"time", "random", "_random", "posix", "nt", "_socket", "_io", "io", "secrets", "select",
            "_uuid", "_posixsubprocess", "_winapi", "mmap", "_ssl", "_sqlite3", "_queue", "signal",
            "atexit", "_contextvars", "fcntl", "msvcrt", "_multiprocessing"}
_HARMLESS = {"flush", "isatty", "fspath", "getpid", "cpu_count", "get_terminal_size"}
_OUTPUT = {"print", "write", "writelines"}
# Functions of other modules, by name.
_FUNCTIONS = {
    "builtins": {"print": _WRITES, "input": _ANOTHER},
    "_warnings": {"warn": "warns on each call", "warn_explicit": "warns on each call"},
    "datetime": dict.fromkeys(("now", "utcnow", "today"), _ANOTHER),
    "_thread": dict.fromkeys(("start_new_thread", "start_joinable_thread"), "starts a thread"),
    "numpy": {"fromfile": _ANOTHER},
    "numpy._core.multiarray": {"fromfile": _ANOTHER},
}
# What only code of the user's must not ask: libraries do, and their result does not depend on it.
_OF_USERS = {
    "builtins": {"id": _ANOTHER, "hash": "may return a different value on each call",
                 "globals": "reads globals by computed names",
                 "breakpoint": "stops in a debugger"},
    "posix": {"getpid": _ANOTHER}, "nt": {"getpid": _ANOTHER},
    "_thread": {"get_ident": _ANOTHER, "get_native_id": _ANOTHER},
    "sys": {"_getframe": "inspects the call stack", "getrefcount": _ANOTHER},
}


def impure(function: Any, by_user: bool) -> str:
    """Why a replay cannot do what a builtin function does, in words; empty where it can."""
    module, name = _module(function), function.__name__
    if by_user and name in _OF_USERS.get(module, ()):
        return f"{name}() {_OF_USERS[module][name]}"
    if name in _FUNCTIONS.get(module, ()):
        shown = name if module == "builtins" else f"{module.lstrip('_')}.{name}"
        return f"{shown}() {_FUNCTIONS[module][name]}"
    if module in _OUTSIDE and name not in _HARMLESS:
        return f"{name}() {_WRITES}" if name in _OUTPUT else f"{module}.{name}() {_ANOTHER}"
    return ""


def _module(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    cls = owner if isinstance(owner, type) else type(owner)
    return str(getattr(function, "__module__", None) or cls.__module__)


def passed_on(code: types.CodeType, scope: Mapping[str, Any]) -> str:
    """Why not, for an impure function that a code object hands to others instead of calling it:
    `map(random.random, ...)` calls it where no hook sees it."""
    for name, further, called in _loads(code):
        value, steps = scope.get(name), 0
        while isinstance(value, (types.ModuleType, type)) and steps < len(further):
            value = getattr(value, further[steps], None)
            steps += 1
        if isinstance(value, types.BuiltinFunctionType) and not called[steps]:
            why = impure(value, False)
            if why:
                return why
    return ""


@functools.lru_cache(maxsize=4096)
def _loads(code: types.CodeType) -> tuple[tuple[str, list[str], list[bool]], ...]:
    """The globals that code loads: each name, the attributes taken from it one after the other,
    and whether what is loaded is called: the global itself, its first attribute and so on."""
    found = instructions(code)
    loads = []
    for first, instruction in enumerate(found):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            last = first
            while last + 1 < len(found) and found[last + 1].opname in _ATTRIBUTES:
                last += 1
            loads.append((instruction.argval, [i.argval for i in found[first + 1:last + 1]],
                          [_is_called(found, first, at) for at in range(first, last + 1)]))
    return tuple(loads)


_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def _is_called(found: Sequence[dis.Instruction], first: int, last: int) -> bool:
    """Whether what is loaded there is called: compilers mark that in several ways."""
    before, after = found[max(first - 1, 0)].opname, found[min(last + 1, len(found) - 1)].opname
    return found[last].opname == "LOAD_METHOD" or "NULL" in found[last].argrepr or \
        "PUSH_NULL" in (before, after) or after == "CALL_FUNCTION"
