"""What code ran: a profile hook that notes every Python function called while recording.

From the code objects follow the names that a run can have read: guards cover those names and no
others. Calls whose results come from outside the program (time, random, files) are noted as well.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..eager.errors import is_ours

_ROOT = __name__.partition(".")[0]
_NUMPY = os.path.dirname(np.__file__)
# our own code that is like the user's: it keeps state
_FOLLOWED = ("/amp/", "/nn/", "/optim/", "/utils/")
_OUTSIDE = {"time", "random", "_random", "datetime", "posix", "_socket", "_io", "secrets"}
_HARMLESS = {"get_ident", "flush", "isatty", "fspath", "getpid"}
_OUTPUT = {"print", "write", "writelines"}
_BY_NAME = {"getattr", "hasattr", "vars", "dir", "attrgetter", "__dict__"}  # read attributes unseen


class Hook:
    """Notes the names that running code can read, and calls `entered` at each code's first call."""

    def __init__(self, entered: Callable[[types.CodeType, dict[str, Any]], None],
                 outside: Callable[[str], None]) -> None:
        self.names: set[str] = set()
        self.any_attribute = False  # whether attributes may have been read whose names nobody saw
        self._seen: set[types.CodeType] = set()
        self._entered, self._outside = entered, outside
        # The garbage collector's callbacks can run at any place: they are no part of the function.
        self._collecting = {getattr(c, "__code__", None) for c in gc.callbacks}
        self._beside: Any = None  # the frame of such a callback while it runs

    def __enter__(self) -> Hook:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if self._beside is not None:
            if event == "return" and frame is self._beside:
                self._beside = None
        elif event == "call":
            code = frame.f_code
            if code in self._collecting:
                self._beside = frame
            elif code not in self._seen:
                self._seen.add(code)
                if followed(code) and not _is_helper(frame):
                    self.enter(code, frame.f_globals)
        elif event == "c_call":
            owner = type(getattr(arg, "__self__", None))
            module = getattr(arg, "__module__", None) or owner.__module__
            if (module in _OUTSIDE or arg is print) and arg.__name__ not in _HARMLESS \
                    and followed(frame.f_code):
                self._outside(f"{arg.__name__}() writes something on each call"
                              if arg.__name__ in _OUTPUT else
                              f"{module}.{arg.__name__}() gives another value on each call")

    def enter(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """Notes the names of a code object and of those defined inside it."""
        self.names.update(code.co_names, code.co_freevars, (code.co_name,))
        if not is_ours(code) and not _BY_NAME.isdisjoint(code.co_names):
            self.any_attribute = True
        for name in code.co_names:
            if is_numpy_random(names.get(name), code.co_names):
                self._outside("NumPy's random numbers are others on each call; use fw.rand")
        self._entered(code, names)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self.enter(inner, names)


def is_numpy_random(value: Any, names: tuple[str, ...]) -> bool:
    """Whether a global is NumPy's random module or a function of it, or NumPy beside the name."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "numpy.random" or (value.__name__ == "numpy" and "random" in names)
    module = type(getattr(value, "__self__", None)).__module__
    return str(module).startswith("numpy.random") and not isinstance(value, type)


def followed(code: types.CodeType) -> bool:
    """Whether code can hold state that a recording depends on: everything but our engine."""
    name = code.co_filename.replace("\\", "/")
    if is_ours(code):
        return any(part in name for part in _FOLLOWED)
    return not name.startswith(_NUMPY)


def _is_helper(frame: Any) -> bool:
    """Whether code without a file of its own (a dataclass's methods) belongs to our engine."""
    generated = frame.f_code.co_filename.startswith("<")
    return generated and str(frame.f_globals.get("__name__")).partition(".")[0] == _ROOT
