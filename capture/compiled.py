"""`compile`: a function that records its runs and replays them."""

from __future__ import annotations

import functools
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..eager import interpreter
from ..eager.errors import CaptureError
from ..eager.settings import settings
from .recording import Backend, Recording, record

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


class Compiled:
    """A function that is recorded on its first call and replayed while its guards hold."""

    def __init__(self, fn: Callable[..., Any], backend: Backend, fullgraph: bool = False) -> None:
        functools.update_wrapper(self, fn)
        self.original, self.backend, self.fullgraph = fn, backend, fullgraph
        self.recordings: list[Recording] = []
        self.refusals: dict[str, int] = {}
        self.misses: list[str] = []
        self.stats = Stats()
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if interpreter.active is not None or not settings.compile:
            return self.original(*args, **kwargs)
        for recording in self.recordings:
            if recording.fits(args, kwargs):
                return self._replay(recording, args, kwargs)
        with self._lock:
            return self._record(args, kwargs)

    def _replay(self, recording: Recording, args: Any, kwargs: Any) -> Any:
        if recording.executable is None:
            with self._lock:
                self._compile(recording)
        self.stats.replays += 1
        return recording.replay(args, kwargs)

    def _compile(self, recording: Recording) -> None:
        if recording.executable is None:
            start = time.perf_counter()
            recording.executable = self.backend(recording.graph)
            self.stats.compile_seconds += time.perf_counter() - start

    def _record(self, args: Any, kwargs: Any) -> Any:
        if self.refusals or sys.getprofile() is not None:
            return self._eager(args, kwargs)
        self._note_miss(args, kwargs)
        run = record(self.original, args, kwargs)
        if run.recording is None:
            self._refuse(run.refusal)
            return run.result
        self.stats.recordings += 1
        if len(self.recordings) >= LIMIT:
            self.recordings.remove(min(self.recordings, key=lambda r: r.uses))
        self.recordings.insert(0, run.recording)
        return run.result

    def _eager(self, args: Any, kwargs: Any) -> Any:
        if not self.refusals:
            self._refuse("a profiler is running, and recording needs its place")
            self.refusals.clear()
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
        text = f"{self.__name__} runs eagerly: {why}"
        if self.fullgraph:
            raise CaptureError(text)
        if self.refusals[why] == 1:
            warnings.warn(text, CaptureWarning, stacklevel=5)

    def clear(self) -> None:
        """Forgets all recordings, refusals and counts."""
        self.recordings.clear()
        self.refusals.clear()
        self.misses.clear()
        self.stats = Stats()
