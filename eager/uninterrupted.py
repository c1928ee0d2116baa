"""Delays signals until a section of code has ended.

Ctrl-C in the middle of a change of several objects, or of native code that writes over arrays,
would leave them inconsistent. Python runs handlers in the main thread, between any two
instructions. So there a section replaces every handler that could raise; other threads need
nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes ten times as long
import signal
import sys
import threading
from types import CodeType, FrameType
from typing import Any

_SIGNALS = tuple([int(getattr(signal, name)) for name in (
    "SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
    if hasattr(signal, name)])


class Uninterrupted:
    """A context that delays signals until its end.

    While `open` is true, signals are handled at once. A handler that raises closes the section, so
    that the code that restores a consistent state is not interrupted.
    """

    __slots__ = ("_came", "_code", "_handlers", "_open")

    def __init__(self) -> None:
        self._open = False
        self._handlers: dict[int, Any] = {}  # original handlers by signal
        self._came: list[int] = []  # signals to handle later
        self._code: CodeType | None = None

    def __enter__(self) -> Uninterrupted:
        if threading.get_ident() == threading.main_thread().ident:
            self._code = sys._getframe(1).f_code
            try:
                self._stand_in()
            except BaseException:  # from a handler that was not replaced yet
                self._step_back()
                raise
        return self

    def __exit__(self, *error: Any) -> None:
        if self._handlers:
            handlers = dict(self._handlers)
            self._step_back()
            self._handle(handlers)

    @property
    def open(self) -> bool:
        """True if signals are handled at once."""
        return self._open

    @open.setter
    def open(self, value: bool) -> None:
        if value:
            self.listen()
        self._open = value

    def listen(self) -> None:
        """Handles the signals so far; call it where the state is consistent."""
        self._handle(self._handlers)

    def _stand_in(self) -> None:
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _signal.signal(number, self._handler)

    def _step_back(self) -> None:
        """Restores every handler, that of Ctrl-C last, since it may run at once."""
        while self._handlers:
            number = next(reversed(self._handlers))
            if _signal.getsignal(number) == self._handler:  # else the code within has set its own
                _signal.signal(number, self._handlers[number])
            del self._handlers[number]

    def _handle(self, handlers: dict[int, Any]) -> None:
        while self._came:
            number = self._came.pop(0)
            handlers[number](number, sys._getframe(2))

    def _handler(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal in the place of the original handler."""
        left, was_open = self._is_left(frame), self._open
        if not left and not was_open:
            if number not in self._came:
                self._came.append(number)
            return
        self._open, handler = False, self._handlers[number]
        if left:
            self._step_back()
        handler(number, frame)
        self._open = was_open

    def _is_left(self, frame: FrameType | None) -> bool:
        """True if the code that entered the section is gone.

        An error at the start of `__exit__`, for example from a debugger, leaves the handlers
        replaced.
        """
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        return frame is None
