"""Finds the line of user code that runs now."""

from __future__ import annotations

import sys
from typing import Any

from ...eager.errors import is_our_file
from .code_tracker import is_python


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
