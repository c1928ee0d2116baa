"""Hands timed spans of compiled calls to watchers, such as a profile.

A span is an interval of a thread's time. A call is a span. It contains the spans of tracing, code
generation and program runs. A span without an outer span goes to the watchers when it ends.
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

on = False  # True if there is a watcher in any thread: calls then avoid the fast path
_WATCHERS: list[Watcher] = []
_LOCK = held_while_forking(threading.Lock())
_OUTERMOST = ("call", "backward")  # other outermost spans are not reported


class _ThreadSpans(threading.local):
    """The unfinished spans of a thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[Span] = []


_STATE = _ThreadSpans()


class Span:
    """An interval of time, from `began` to `ended`.

    `kind` names the activity. `about` is an object with details. `parts` holds the begin and end of
    each step, if there are steps.
    """

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
        del _STATE.open[self._depth:]  # Ctrl-C may have left inner spans unfinished
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
    """A context that is timed as a span if there is a watcher."""
    return Span(kind, name, line, about) if on else contextlib.nullcontext()


def watch(watcher: Watcher) -> None:
    """Passes every span that ends to `watcher`, until `unwatch`."""
    with _LOCK:
        _WATCHERS.append(watcher)
        _update_on()


def unwatch(watcher: Watcher) -> None:
    """Removes a watcher that `watch` added."""
    with _LOCK:
        _WATCHERS[:] = [w for w in _WATCHERS if w != watcher]
        _update_on()


def _update_on() -> None:
    global on
    on = bool(_WATCHERS)


@in_child
def _forget_watchers() -> None:
    """Removes the watchers in a forked process. They belong to the parent."""
    _WATCHERS.clear()
    _STATE.open.clear()
    _update_on()
