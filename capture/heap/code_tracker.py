"""What code ran: a profile hook that notes every Python function called while recording.

From the code objects follow the names that a run can have read: guards cover those names and no
others. Calls whose results come from outside the program (time, random, files) are noted as well.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Set
from typing import Any, Protocol

import numpy as np

from ...eager.arrays import devices
from ...eager.errors import CodegenError, is_our_file, is_ours
from .bytecode import names_of, reads_by_name
from .impurity import impure, passed_on
from .introspection import is_users

_STDLIB = sysconfig.get_path("stdlib")
_PACKAGES = os.path.join(_STDLIB, "site-packages")
_ROOT = __name__.partition(".")[0]
_NUMPY = os.path.dirname(np.__file__)
# our own code that is like the user's: it keeps state
_FOLLOWED = ("/amp/", "/nn/", "/optim/", "/utils/")


class Observer(Protocol):
    """A faster `sys.setprofile`: tells of what runs, but for what is known already."""

    def start(self) -> None:
        """From now on, in this thread; `sys.setprofile(None)` ends it."""

    def tell_all(self, all: bool) -> None:
        """Whether it tells of everything from now on."""

    def know(self, code: types.CodeType, calls_of_c: bool = False) -> None:
        """Nothing is told any more of calls of this code, or of calls of C functions from it."""


observer: Callable[[Callable[[Any, str, Any], None]], Observer] | None = None  # of an upper layer
_RUNNING = threading.local()

# Whether it pays to note nothing in the engine: before 3.12 all code runs slower that is watched,
# from then on Python changes all of it whenever watching begins or ends.
PAUSES = sys.version_info < (3, 12)


class CodeTracker:
    """Notes the names that running code can read, and calls `entered` at each code's first call."""

    def __init__(self, entered: Callable[[types.CodeType, dict[str, Any]], None],
                 outside: Callable[[str], None]) -> None:
        self.names: set[str] = set()
        self.any_attribute = False  # whether attributes may have been read whose names nobody saw
        self._seen: dict[int, types.CodeType] = {}  # by id: code is slow to hash
        self._entered, self._outside = entered, outside
        # The garbage collector's callbacks can run at any place: they are no part of the function.
        callbacks = [getattr(c, "__code__", None) for c in gc.callbacks]
        self._collecting = {id(code): code for code in callbacks if code is not None}
        self._beside: Any = None  # the frame of such a callback while it runs
        self._observer: Observer | None = None
        self._away = 0  # contexts in which it notes nothing, one inside of another
        self._passed: dict[int, types.CodeType] = {}  # whose calls of C functions do not matter

    @property
    def seen(self) -> Set[types.CodeType]:
        """The code of all Python functions that were called."""
        return set(self._seen.values())

    def start(self) -> None:
        """From now on it notes what runs."""
        _RUNNING.hook = self
        with contextlib.suppress(CodegenError):  # no memory to make it in: Python's own is slower
            self._observer = None if observer is None else observer(self._event)
        self._go_on()

    def stop(self) -> None:
        """Nothing any more."""
        sys.setprofile(None)
        _RUNNING.hook = self._observer = None

    def __enter__(self) -> None:
        """A context in which it notes nothing."""
        self._away += 1
        sys.setprofile(None)

    def __exit__(self, *error: object) -> None:
        self._away -= 1
        if not self._away:
            self._go_on()

    def _go_on(self) -> None:
        if self._observer is None:
            sys.setprofile(self._event)
        else:
            self._observer.start()

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if self._beside is not None:
            if event == "return" and frame is self._beside:
                self._set_beside(None)
        elif event == "c_call":
            if not _WATCHED[code.co_filename] or _is_helper(frame):
                self._pass(code)
            elif isinstance(arg, types.BuiltinFunctionType):
                self._called(frame, arg)
        elif event == "call":
            if id(code) not in self._seen:
                self._met(frame, code)
            if self._observer is not None and id(code) in self._seen:
                self._observer.know(code)

    def _pass(self, code: types.CodeType) -> None:
        """What C functions this code calls does not matter."""
        if self._observer is not None:
            self._passed[id(code)] = code  # nothing else may come to lie in its place
            self._observer.know(code, True)

    def _set_beside(self, frame: Any) -> None:
        self._beside = frame
        if self._observer is not None:
            self._observer.tell_all(frame is not None)

    def _met(self, frame: Any, code: types.CodeType) -> None:
        """A function is called that was not called before, or one of the garbage collector's."""
        if id(code) in self._collecting:
            self._set_beside(frame)
        elif not _is_our_errand(frame):
            self._seen[id(code)] = code
            if followed(code) and not _is_helper(frame):
                self.enter(code, frame.f_globals)

    def _called(self, frame: Any, function: Any) -> None:
        if followed(frame.f_code):
            why = impure(function, is_users(frame.f_globals.get("__name__")))
        else:  # NumPy reads files too
            why = impure(function, False) if function.__module__ in ("_io", "io") and \
                not is_ours(frame.f_code) else ""
        if why:
            self._outside(why)

    def enter(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """Notes the names of a code object and of those defined inside it."""
        self.names.update(names_of(code))
        if not is_ours(code) and reads_by_name(code):
            self.any_attribute = True
        self._check(code, names)
        self._entered(code, names)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self.enter(inner, names)

    def _check(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """What calls do not show: NumPy's random numbers, functions that builtins call."""
        for name in code.co_names:
            if is_numpy_random(names.get(name), code.co_names):
                self._outside("NumPy's random numbers differ on each call; use fw.rand")
        if is_users(names.get("__name__")):
            why = passed_on(code, names)
            if why:
                self._outside(why)


def unobserved() -> contextlib.AbstractContextManager[Any]:
    """A context in which what runs is no part of a recorded function."""
    hook: CodeTracker | None = getattr(_RUNNING, "hook", None)
    return contextlib.nullcontext() if hook is None else hook


def observing() -> bool:
    """Whether a function is being recorded in this thread."""
    return getattr(_RUNNING, "hook", None) is not None


def is_numpy_random(value: Any, names: tuple[str, ...]) -> bool:
    """Whether a global is NumPy's random module or a function of it, or NumPy beside the name."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "numpy.random" or (value.__name__ == "numpy" and "random" in names)
    if not isinstance(value, types.BuiltinFunctionType):
        return type(value).__module__.startswith("numpy.random")
    return type(value.__self__).__module__.startswith("numpy.random")


def _is_our_errand(frame: Any) -> bool:
    """Whether code of Python's library runs for our engine, not for the function."""
    if str(frame.f_globals.get("__name__")).startswith("namedtuple_"):
        return True  # its own code; those of the function have nothing that could change
    if not is_python(frame.f_code.co_filename):
        return False
    while frame is not None and is_python(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and is_ours(frame.f_code) and not followed(frame.f_code)


def is_python(filename: str) -> bool:
    """Whether a file belongs to Python's standard library."""
    return filename.startswith(("<frozen", _STDLIB)) and not filename.startswith(_PACKAGES)


def followed(code: types.CodeType) -> bool:
    """Whether code can hold state that a recording depends on: everything but our engine."""
    return _is_followed(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_followed(filename: str) -> bool:
    name = filename.replace("\\", "/")
    if is_our_file(filename):
        return any(part in name for part in _FOLLOWED)
    return not name.startswith((_NUMPY, *devices.folders))


class _Watched(dict[str, bool]):
    """Whether calls of C code matter that code of a file makes; asked for each of them."""

    def __missing__(self, filename: str) -> bool:
        found = self[filename] = _is_followed(filename) or not is_our_file(filename)
        return found


_WATCHED = _Watched()


def _is_helper(frame: Any) -> bool:
    """Whether code without a file of its own (a dataclass's methods) belongs to our engine."""
    generated = frame.f_code.co_filename.startswith("<")
    return generated and str(frame.f_globals.get("__name__")).partition(".")[0] == _ROOT
