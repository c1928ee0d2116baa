"""Finds the line of user code that runs now."""

from __future__ import annotations

import sys
from typing import Any

from ...eager.errors import is_our_file
from .code_tracker import is_python
from .introspection import dictionary


class _InternalFiles(dict[str, bool]):
    """By file name: True if a file belongs to fusewire or Python. A cache, as each op reads it."""

    def __missing__(self, filename: str) -> bool:
        internal = self[filename] = is_our_file(filename) or is_python(filename)
        return internal


_INTERNAL_FILES = _InternalFiles()


def user_site() -> str:
    """`file.py:line` of the innermost frame of user code, or an empty string."""
    frame: Any = sys._getframe(1)
    while frame is not None and _INTERNAL_FILES[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return ""
    name = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{frame.f_lineno}"


def name_of(value: Any) -> str:
    """The variable of the innermost frame of user code that holds an object, or an attribute of a
    variable, as in `self.weight`; an empty string if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and _INTERNAL_FILES[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return ""
    place = frame.f_code, frame.f_lasti
    if place not in _NAMES:
        if len(_NAMES) >= _MOST_NAMES:
            _NAMES.clear()
        _NAMES[place] = _name_in(frame.f_locals, value)
    return _NAMES[place]


_NAMES: dict[tuple[Any, int], str] = {}  # by code and instruction, since every read asks
_MOST_NAMES = 4096


def _name_in(variables: dict[str, Any], value: Any) -> str:
    for name, held in variables.items():
        if held is value:
            return name
    for name, held in variables.items():
        for attribute, inner in (dictionary(held) or {}).items():
            if inner is value:
                return f"{name}.{attribute}"
    return ""


def values_of(name: str) -> str:
    """The values of the tensor with a name, as a text."""
    return f"the values of `{name}`" if name else "a tensor's values"
