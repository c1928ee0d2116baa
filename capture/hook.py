"""What code ran: a profile hook that notes every Python function called while recording.

From the code objects follow the names that a run can have read: guards cover those names and no
others. Calls whose results come from outside the program (time, random, files) are noted as well.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from ..eager.errors import is_ours

_FOLLOWED = ("/nn/", "/optim/", "/utils/")  # our own code that is like the user's: it keeps state
_OUTSIDE = {"time", "random", "_random", "datetime", "posix", "_socket", "_io", "secrets"}
_HARMLESS = {"print", "get_ident", "flush", "isatty", "write", "fspath", "getpid"}


class Hook:
    """Notes the names that running code can read, and calls `entered` at each code's first call."""

    def __init__(self, entered: Callable[[types.CodeType, dict[str, Any]], None],
                 outside: Callable[[str], None]) -> None:
        self.names: set[str] = set()
        self._seen: set[types.CodeType] = set()
        self._entered, self._outside = entered, outside

    def __enter__(self) -> Hook:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code not in self._seen:
                self._seen.add(code)
                if followed(code):
                    self.enter(code, frame.f_globals)
        elif event == "c_call":
            module = getattr(arg, "__module__", None) or type(getattr(arg, "__self__", None)).__module__
            if module in _OUTSIDE and arg.__name__ not in _HARMLESS and followed(frame.f_code):
                self._outside(f"{module}.{arg.__name__}() gives another value on each call")

    def enter(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """Notes the names of a code object and of those defined inside it."""
        self.names.update(code.co_names, code.co_freevars)
        self._entered(code, names)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self.enter(inner, names)


def followed(code: types.CodeType) -> bool:
    """Whether code can hold state that a recording depends on: everything but our engine."""
    name = code.co_filename.replace("\\", "/")
    return not is_ours(code) or any(part in name for part in _FOLLOWED)
