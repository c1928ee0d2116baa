"""`compile`: a function that records its runs and replays them."""

from __future__ import annotations

import copy
import functools
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..eager import interpreter
from ..eager.errors import CaptureError, CodegenError
from ..eager.forking import in_child
from ..eager.settings import settings
from .recording import Backend, Recording, record
from .text import to_text

ATTEMPTS = 4  # refusals after which a call that fits no recording is not recorded any more
_SHOWN = 12  # conditions that `explain` lists
LIMIT = 64  # recordings kept per function; the least used one makes room


class CaptureWarning(UserWarning):
    """A compiled function runs eagerly, for the reason given."""


@dataclass
class Stats:
    """Counts of a compiled function's calls."""

    recordings: int = 0
    replays: int = 0
    fallbacks: int = 0
    compile_seconds: float = 0.0


_ALL: weakref.WeakSet[Compiled] = weakref.WeakSet()


@in_child
def _unlock() -> None:
    """A function that another thread was recording is free in a forked process."""
    for function in _ALL:
        function._lock = threading.RLock()


class Compiled:
    """A function that is recorded on its first call and replayed while its guards hold."""

    __name__: str
    __qualname__: str

    __captured__ = ("original",)  # what a recording of a caller depends on

    def __init__(self, fn: Callable[..., Any], backend: Backend, fullgraph: bool = False) -> None:
        functools.update_wrapper(self, fn)
        self.original, self.backend, self.fullgraph = fn, backend, fullgraph
        self.recordings: list[Recording] = []
        self.refusals: dict[str, int] = {}
        self.misses: list[str] = []
        self.stats = Stats()
        self._lock = threading.RLock()
        _ALL.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(copy.deepcopy(self.original, memo), self.backend, self.fullgraph)

    def __reduce__(self) -> Any:
        module = sys.modules.get(self.__module__)
        if getattr(module, self.__qualname__, None) is self:
            return self.__qualname__  # a decorated function: pickled by its name
        return Compiled, (self.original, self.backend, self.fullgraph)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if interpreter.STATE.active is not None or not settings.compile:
            return self.original(*args, **kwargs)
        for recording in self.recordings:
            if recording.fits(args, kwargs):
                return self._replay(recording, args, kwargs)
        with self._lock:  # another thread may have recorded the same call by now
            found = next((r for r in self.recordings if r.fits(args, kwargs)), None)
            if found is None:
                return self._record(args, kwargs)
        return self._replay(found, args, kwargs)

    def _replay(self, recording: Recording, args: Any, kwargs: Any) -> Any:
        if recording.executable is None and not self._compiles(recording):
            return self._eager(args, kwargs)
        self.stats.replays += 1
        return recording.replay(args, kwargs)

    def _compiles(self, recording: Recording) -> bool:
        """Makes a recording's code; False where none can be made, which is said once."""
        with self._lock:
            start = time.perf_counter()
            try:
                recording.executable = recording.executable or self.backend(recording.graph)
            except CodegenError as error:
                self.recordings.remove(recording)
                self._refuse(error.message)
                return False
            finally:
                self.stats.compile_seconds += time.perf_counter() - start
        return True

    def _record(self, args: Any, kwargs: Any) -> Any:
        if sum(self.refusals.values()) >= ATTEMPTS:
            return self._eager(args, kwargs)
        if sys.getprofile() is not None:
            self._warn("a profiler is running, and recording needs its place")
            return self._eager(args, kwargs)
        self._note_miss(args, kwargs)
        run = record(self.original, args, kwargs)
        if run.recording is None:
            self.stats.fallbacks += 1
            self._refuse(run.refusal)
            return run.result
        self.stats.recordings += 1
        if len(self.recordings) >= LIMIT:
            self.recordings.remove(min(self.recordings, key=lambda r: r.uses))
        self.recordings.insert(0, run.recording)
        return run.result

    def _eager(self, args: Any, kwargs: Any) -> Any:
        self.stats.fallbacks += 1
        return self.original(*args, **kwargs)

    def _note_miss(self, args: Any, kwargs: Any) -> None:
        if self.recordings:
            why = self.recordings[0].missed(args, kwargs)
            self.misses.append(f"no longer: {why}")
            if settings.debug >= 1:
                print(f"fusewire: {self.__name__} records again, no longer: {why}", file=sys.stderr)

    def _refuse(self, why: str) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1
        if self.fullgraph:
            raise CaptureError(f"{self.__name__} cannot be recorded whole: {why}")
        if self.refusals[why] == 1:
            self._warn(why)

    def _warn(self, why: str) -> None:
        warnings.warn(f"{self.__name__} runs eagerly: {why}", CaptureWarning, stacklevel=5)

    # ---- insight

    def kernels(self) -> list[dict[str, Any]]:
        """A row per kernel of every compiled recording: name, line, seconds, bytes, flops."""
        return [row for r in self.recordings if r.executable for row in r.executable.rows()]

    def graph(self) -> str:
        """The newest recording as text, each line with the user's line it came from."""
        return to_text(self.recordings[0].graph, sites=True) if self.recordings else ""

    def code(self) -> str:
        """The generated code of the newest compiled recording."""
        return next((r.executable.code for r in self.recordings if r.executable), "")

    def explain(self) -> str:
        """What was recorded, when it is valid, why it recorded again, and its kernels, in words."""
        s = self.stats
        lines = [f"{self.__name__}: {len(self.recordings)} recording(s), {s.replays} replays, "
                 f"{s.fallbacks} eager calls, {s.compile_seconds:.2f} s compiling"]
        lines += [f"  runs eagerly: {why}" for why in self.refusals]
        lines += [f"  recorded again, {why}" for why in self.misses]
        for number, r in enumerate(self.recordings, 1):
            lines.append(f"recording {number}, replayed {r.uses} times, is valid while")
            lines += [f"  {g.says}" for g in r.guards[:_SHOWN]]
            more = len(r.guards) - _SHOWN
            lines += [f"  and {more} more conditions"] if more > 0 else []
            lines += r.executable.explain().splitlines() if r.executable else ["  not compiled yet"]
        return "\n".join(lines)

    def clear(self) -> None:
        """Forgets all recordings, refusals and counts."""
        self.recordings.clear()
        self.refusals.clear()
        self.misses.clear()
        self.stats = Stats()
