"""Runs other code in place of the code of functions while a call is traced.

Threads share functions, so the code that takes the place must compute the same outside of traces.
Guards are about the original code.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from ...eager.fork_safety import held_while_forking, in_child


class _Replacement(NamedTuple):
    function: types.FunctionType
    original: types.CodeType
    code: types.CodeType
    traces: int  # that need it


_LOCK = held_while_forking(threading.Lock())
_replacements: dict[int, _Replacement] = {}  # by id of the function


class ReplacedCode:
    """The functions whose code one trace replaces."""

    def __init__(self, code_for: Callable[[types.FunctionType], types.CodeType]) -> None:
        """code_for: the code to run for a function; its own code if that does not change."""
        self._code_for = code_for
        self._functions: dict[int, types.FunctionType] = {}

    def replace(self, function: types.FunctionType) -> types.CodeType:
        """The code that runs for a function from now on."""
        with _LOCK:
            known = _replacements.get(id(function))
            if id(function) in self._functions:
                return function.__code__
            original = function.__code__ if known is None else known.original
            code = self._code_for(function) if known is None else known.code
            if code is not original:
                traces = 1 if known is None else known.traces + 1
                self._functions[id(function)] = function
                _replacements[id(function)] = _Replacement(function, original, code, traces)
                function.__code__ = code
            return code

    def restore(self) -> None:
        """Gives the functions their code back, unless another trace needs the other code."""
        with _LOCK:
            while self._functions:
                key, _ = self._functions.popitem()
                left = _replacements.pop(key, None)  # none in a process that was forked since
                if left is not None and left.traces > 1:
                    _replacements[key] = left._replace(traces=left.traces - 1)
                elif left is not None:
                    _give_back(left)


def _give_back(replacement: _Replacement) -> None:
    function: Any = replacement.function
    if function.__code__ is replacement.code:  # else the user has assigned it
        function.__code__ = replacement.original


def _give_all_back() -> None:
    """Gives all functions their code back: other threads, which trace, are not forked."""
    while _replacements:
        _give_back(_replacements.popitem()[1])


in_child(_give_all_back)


def part_of(function: types.FunctionType, name: str) -> Any:
    """An attribute of a function; its own code while other code runs in its place."""
    replacement = _replacements.get(id(function)) if name == "__code__" else None
    value = getattr(function, name)
    return replacement.original if replacement is not None and value is replacement.code else value
