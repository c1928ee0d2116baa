"""The line of the user's code that runs now."""

from __future__ import annotations

import sys
from typing import Any

from ...eager.errors import is_our_file
from .code_tracker import is_python


class _Passed(dict[str, bool]):
    """Whether a file is ours or Python's, and no place to show; asked for each op."""

    def __missing__(self, filename: str) -> bool:
        found = self[filename] = is_our_file(filename) or is_python(filename)
        return found


_PASSED = _Passed()


def user_site() -> str:
    """`file.py:line` of the innermost frame that is the user's, or an empty text."""
    frame: Any = sys._getframe(1)
    while frame is not None and _PASSED[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return ""
    name = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{frame.f_lineno}"
