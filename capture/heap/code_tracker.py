"""Tracks executed code: a profile hook notes every Python function called during a trace.

The code objects determine what the run may have read.
The hook also reports calls with results from outside the program (time, random, files).
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
from ...eager.fork_safety import around_forks
from ...eager.upper_layer import UPPER
from . import profile_function
from .impurity import why_impure, why_passed_function_is_impure
from .introspection import is_users

_STDLIB = sysconfig.get_path("stdlib")
_PACKAGES = os.path.join(_STDLIB, "site-packages")
_IMPORT_SYSTEM = "<frozen importlib"  # of file names of the code that imports modules
_ROOT = __name__.partition(".")[0]
_NUMPY = os.path.dirname(np.__file__)
# fusewire's own code that keeps state, as user code may
_FOLLOWED = ("/amp/", "/distributions/", "/nn/", "/optim/", "/utils/")


class Observer(Protocol):
    """A faster `sys.setprofile`, which does not report calls of ignored code."""

    def start(self) -> None:
        """Starts in this thread; `sys.setprofile(None)` stops it."""

    def report_all(self, all: bool) -> None:
        """Reports ignored code, too, while `all` is true."""

    def ignore(self, code: types.CodeType, calls_of_c: bool = False) -> None:
        """Stops reports of calls of this code, or of its calls of C functions."""


_RUNNING = threading.local()

# True if pausing inside the engine is worth it: before 3.12 a profile hook slows all code down;
# from 3.12 on Python rewrites all code whenever a hook starts or stops.
PAUSES = sys.version_info < (3, 12)


class CodeTracker:
    """Calls `entered` at each code's first call.

    It calls `outside` with a reason for each call whose result comes from outside the program, and
    `imports` instead if the call belongs to the import of a module.
    """

    def __init__(self, entered: Callable[[types.CodeType, dict[str, Any]], None],
                 outside: Callable[[str], None], imports: Callable[[], None] = lambda: None
                 ) -> None:
        self._seen: dict[int, types.CodeType] = {}  # by id: code is slow to hash
        self._entered, self._outside, self._imports = entered, outside, imports
        # The garbage collector's callbacks can run at any point: they are no part of the function.
        callbacks = [getattr(c, "__code__", None) for c in gc.callbacks]
        self._gc_callbacks = {id(code): code for code in callbacks if code is not None}
        self._gc_frame: Any = None  # of such a callback while it runs
        self._observer: Observer | None = None
        self._pauses = 0  # nested contexts that pause it
        self._ignored_callers: dict[int, types.CodeType] = {}  # by id

    @property
    def seen(self) -> Set[types.CodeType]:
        """The code of all Python functions that were called."""
        return set(self._seen.values())

    def start(self) -> None:
        """Starts tracking in this thread."""
        _RUNNING.hook = self
        with contextlib.suppress(CodegenError):  # no memory: use Python's slower hook
            self._observer = UPPER.observer(self._event) if UPPER.observer else None
        self._resume()

    def stop(self) -> None:
        """Stops tracking."""
        profile_function.remove()
        _RUNNING.hook = self._observer = None

    def __enter__(self) -> None:
        """Pauses tracking."""
        self._pauses += 1
        profile_function.remove()

    def __exit__(self, *error: object) -> None:
        self._pauses -= 1
        if not self._pauses and _RUNNING.hook is self:
            self._resume()

    def _resume(self) -> None:
        if self._observer is None:
            is_set = profile_function.install(sys.setprofile, self._event)
        else:
            is_set = profile_function.install(self._observer.start)
        if not is_set:
            self._outside("other threads set profile functions at the same time")

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if self._gc_frame is not None:
            if event == "return" and frame is self._gc_frame:
                self._set_gc_frame(None)
        elif event == "c_call":
            if not _WATCHED[code.co_filename] or _is_helper(frame):
                self._ignore_c_calls(code)
            elif isinstance(arg, types.BuiltinFunctionType):
                self._c_call(frame, arg)
        elif event == "call":
            if id(code) not in self._seen:
                self._first_call(frame, code)
            if self._observer is not None and id(code) in self._seen:
                self._observer.ignore(code)

    def _ignore_c_calls(self, code: types.CodeType) -> None:
        """Ignores the C functions that this code calls."""
        if self._observer is not None:
            self._ignored_callers[id(code)] = code  # alive, so that no other code gets its id
            self._observer.ignore(code, True)

    def _set_gc_frame(self, frame: Any) -> None:
        self._gc_frame = frame
        if self._observer is not None:
            self._observer.report_all(frame is not None)

    def _first_call(self, frame: Any, code: types.CodeType) -> None:
        """Notes the first call of a function, or a call of a garbage collector's callback."""
        if id(code) in self._gc_callbacks:
            self._set_gc_frame(frame)
        elif not _runs_for_engine(frame):
            self._seen[id(code)] = code
            if followed(code) and not _is_helper(frame):
                self.enter(code, frame.f_globals)

    def _c_call(self, frame: Any, function: Any) -> None:
        if followed(frame.f_code):
            why = why_impure(function, is_users(frame.f_globals.get("__name__")))
        else:  # NumPy reads files too
            why = why_impure(function, False) if function.__module__ in ("_io", "io") and \
                not is_ours(frame.f_code) else ""
        if why and _is_importing(frame):
            self._imports()
        elif why:
            self._outside(why)

    def enter(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """Reports a code object and those defined inside it."""
        self._check(code, names)
        self._entered(code, names)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self.enter(inner, names)

    def _check(self, code: types.CodeType, names: dict[str, Any]) -> None:
        """Reports impure code that no call shows: NumPy's random numbers, functions that builtins
        call."""
        for name in code.co_names:
            if is_numpy_random(names.get(name), code.co_names):
                self._outside("NumPy's random numbers differ on each call; use fw.rand")
        if is_users(names.get("__name__")):
            why = why_passed_function_is_impure(code, names)
            if why:
                self._outside(why)


def unobserved() -> contextlib.AbstractContextManager[Any]:
    """A context whose code does not count as part of a traced function."""
    return _running() or contextlib.nullcontext()


def observing() -> bool:
    """True if a function is being traced in this thread."""
    return _running() is not None


def _running() -> CodeTracker | None:
    """The tracker of this thread."""
    return getattr(_RUNNING, "hook", None)


def _stop_in_child() -> None:
    """Ends the tracking of a function that forks: what a new process runs is no part of it."""
    hook = _running()
    if hook is not None:
        hook.stop()


# Tracking pauses before a fork: handlers in the child that run before ours, such as that of
# `random`, would wait forever for locks that are held while forking.
around_forks(lambda: unobserved().__enter__(), lambda: unobserved().__exit__(None, None, None),
             _stop_in_child)


def is_numpy_random(value: Any, names: tuple[str, ...]) -> bool:
    """True if a global is NumPy's random module or one of its functions, or NumPy in code that
    names `random`."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "numpy.random" or (value.__name__ == "numpy" and "random" in names)
    if not isinstance(value, types.BuiltinFunctionType):
        return type(value).__module__.startswith("numpy.random")
    return type(value.__self__).__module__.startswith("numpy.random")


def _runs_for_engine(frame: Any) -> bool:
    """True if code of the standard library runs for the engine, not for the user's function."""
    if str(frame.f_globals.get("__name__")).startswith("namedtuple_"):
        return True  # named tuples of user code hold no state either
    if not is_python(frame.f_code.co_filename):
        return False
    while frame is not None and is_python(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and is_ours(frame.f_code) and not followed(frame.f_code)


def is_python(filename: str) -> bool:
    """True if a file belongs to Python's standard library."""
    return filename.startswith(("<frozen", _STDLIB)) and not filename.startswith(_PACKAGES)


def followed(code: types.CodeType) -> bool:
    """True if code may hold state that a trace depends on: all code except the engine's."""
    return _is_followed(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_followed(filename: str) -> bool:
    name = filename.replace("\\", "/")
    if is_our_file(filename):
        return any(part in name for part in _FOLLOWED)
    return not name.startswith((_NUMPY, *devices.library_folders()))


class _WatchedFiles(dict[str, bool]):
    """By file name: True if the file's calls of C functions matter. A cache, as each call reads
    it."""

    def __missing__(self, filename: str) -> bool:
        watched = self[filename] = _is_followed(filename) or not is_our_file(filename)
        return watched


_WATCHED = _WatchedFiles()


def _is_importing(frame: Any) -> bool:
    """True if a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
            return True
        frame = frame.f_back
    return False


def _is_helper(frame: Any) -> bool:
    """True if generated code, such as a dataclass's methods, belongs to the engine."""
    generated = frame.f_code.co_filename.startswith("<")
    return generated and str(frame.f_globals.get("__name__")).partition(".")[0] == _ROOT
