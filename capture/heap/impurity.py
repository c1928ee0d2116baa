"""Lists builtin functions whose result or effect a replay would not repeat: time, files, ids."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Mapping
from typing import Any

from .bytecode import instructions, is_callee

_DIFFERS = "returns a different value on each call"
_WRITES = "writes output on each call"
# C modules whose functions all read or change the outside world.
_IMPURE_MODULES = {"time", "random", "_random", "posix", "nt", "_socket", "_io", "io", "secrets",
                   "select", "_uuid", "_posixsubprocess", "_winapi", "mmap", "_ssl", "_sqlite3",
                   "_queue", "signal", "atexit", "_contextvars", "fcntl", "msvcrt",
                   "_multiprocessing"}
_PURE_FUNCTIONS = {"flush", "isatty", "fspath", "getpid", "cpu_count", "get_terminal_size",
                   # of os.path, since Python 3.11 to 3.13: they change texts
                   "_path_normpath", "_path_splitroot", "_path_splitroot_ex"}
_WRITERS = {"print", "write", "writelines"}
# Functions of other modules, by name.
_IMPURE_FUNCTIONS = {
    "builtins": {"print": _WRITES, "input": _DIFFERS},
    "_warnings": {"warn": "warns on each call", "warn_explicit": "warns on each call"},
    "datetime": dict.fromkeys(("now", "utcnow", "today"), _DIFFERS),
    "_thread": dict.fromkeys(("start_new_thread", "start_joinable_thread"), "starts a thread"),
    "numpy": {"fromfile": _DIFFERS},
    "numpy._core.multiarray": {"fromfile": _DIFFERS},
}
# Functions that are impure in user code only: results of libraries do not depend on them.
_IMPURE_IN_USER_CODE = {
    "builtins": {"id": _DIFFERS, "hash": "may return a different value on each call",
                 "globals": "reads globals by computed names",
                 "breakpoint": "stops in a debugger"},
    "posix": {"getpid": _DIFFERS}, "nt": {"getpid": _DIFFERS},
    "_thread": {"get_ident": _DIFFERS, "get_native_id": _DIFFERS},
    "sys": {"_getframe": "inspects the call stack", "getrefcount": _DIFFERS},
}


def why_impure(function: Any, by_user: bool) -> str:
    """The reason why a replay cannot repeat a builtin function; empty if it can."""
    module, name = _module(function), function.__name__
    if by_user and name in _IMPURE_IN_USER_CODE.get(module, ()):
        return f"{name}() {_IMPURE_IN_USER_CODE[module][name]}"
    if name in _IMPURE_FUNCTIONS.get(module, ()):
        shown = name if module == "builtins" else f"{module.lstrip('_')}.{name}"
        return f"{shown}() {_IMPURE_FUNCTIONS[module][name]}"
    if module in _IMPURE_MODULES and name not in _PURE_FUNCTIONS:
        return f"{name}() {_WRITES}" if name in _WRITERS else f"{module}.{name}() {_DIFFERS}"
    return ""


def _module(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    cls = owner if isinstance(owner, type) else type(owner)
    return str(getattr(function, "__module__", None) or cls.__module__)


def why_passed_function_is_impure(code: types.CodeType, scope: Mapping[str, Any]) -> str:
    """The reason why code passes an impure function to another one, which may call it unseen by
    the hook, as `map(random.random, ...)` does; empty if it does not."""
    for name, further, called in _loads(code):
        value, steps = scope.get(name), 0
        while isinstance(value, (types.ModuleType, type)) and steps < len(further):
            value = getattr(value, further[steps], None)
            steps += 1
        if isinstance(value, types.BuiltinFunctionType) and not (called and steps == len(further)):
            why = why_impure(value, False)
            if why:
                return why
    return ""


@functools.lru_cache(maxsize=4096)
def _loads(code: types.CodeType) -> tuple[tuple[str, list[str], bool], ...]:
    """The globals that code loads: name, chain of attributes read from it, and True if the code
    calls the value at the end of the chain."""
    code_steps = instructions(code)
    loads = []
    for first, instruction in enumerate(code_steps):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            last = first
            while last + 1 < len(code_steps) and code_steps[last + 1].opname in _ATTRIBUTES:
                last += 1
            loads.append((instruction.argval, [i.argval for i in code_steps[first + 1:last + 1]],
                          _is_called(code, first, last)))
    return tuple(loads)


_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def _is_method(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and "NULL" in step.argrepr)


def _is_called(code: types.CodeType, first: int, last: int) -> bool:
    """True if code calls the value of a chain of attributes, which Python versions mark in
    different ways."""
    code_steps = instructions(code)
    before = code_steps[max(first - 1, 0)].opname
    after = code_steps[min(last + 1, len(code_steps) - 1)].opname
    return _is_method(code_steps[last]) or "NULL" in code_steps[first].argrepr \
        or "PUSH_NULL" in (before, after) or is_callee(code, last)
