"""Hands timed spans of compiled calls to watchers, such as a profile.

A span is an interval of a thread's time: a call, and in it a recording, code generation or a
program that runs. A span without an outer span is handed to the watchers when it ends.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ...eager.fork_safety import held_while_forking, in_child

Watcher = Callable[["Span"], None]

on = False  # whether anybody looks on, in any thread: no call goes the short way then
_WATCHERS: list[Watcher] = []
_LOCK = held_while_forking(threading.Lock())
_OUTERMOST = ("call", "backward")  # what eager code runs beside these is not shown


class _State(threading.local):
    """The spans of a thread that have not ended, outermost first."""

    def __init__(self) -> None:
        self.open: list[Span] = []


_STATE = _State()


class Span:
    """A piece of time, from `began` to `ended`. `kind` is what was done, `about` the object that
    knows more of it, `parts` the beginning and end of each step, where there are any."""

    def __init__(self, kind: str, name: str, line: str = "", about: Any = None) -> None:
        self.kind, self.name, self.line, self.about = kind, name, line, about
        self.began = self.ended = 0.0
        self.inner: list[Span] = []
        self.parts: list[tuple[float, float]] = []
        self.thread = threading.current_thread()

    def __enter__(self) -> Span:
        self._depth = len(_STATE.open)
        _STATE.open.append(self)
        self.began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended = time.perf_counter()
        del _STATE.open[self._depth:]  # Ctrl-C may have kept an inner one from ending
        if self._depth:
            _STATE.open[-1].inner.append(self)
        elif self.kind in _OUTERMOST:
            for watcher in list(_WATCHERS):
                watcher(self)

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def span(kind: str, name: str, line: str = "", about: Any = None
         ) -> AbstractContextManager[Span | None]:
    """A context whose time is noted, where anybody looks on."""
    return Span(kind, name, line, about) if on else contextlib.nullcontext()


def watch(watcher: Watcher) -> None:
    """Hands all spans that end from now on to `watcher`, until `unwatch`."""
    with _LOCK:
        _WATCHERS.append(watcher)
        _look()


def unwatch(watcher: Watcher) -> None:
    """The opposite of `watch`."""
    with _LOCK:
        _WATCHERS[:] = [w for w in _WATCHERS if w != watcher]
        _look()


def _look() -> None:
    global on
    on = bool(_WATCHERS)


@in_child
def _nobody() -> None:
    """Watchers stay in the parent process."""
    _WATCHERS.clear()
    _STATE.open.clear()
    _look()
