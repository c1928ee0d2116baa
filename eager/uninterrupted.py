"""Sections of code that no signal interrupts: its handler runs when the section has ended.

What changes several objects, or runs native code that writes over arrays of tensors, would be left
half done by Ctrl-C. Python runs handlers in the main thread, between any two of its instructions,
so there a section stands in for every handler that could raise, and other threads need nothing.
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
    """A context that signals do not interrupt.

    While its `open` is true they do: a handler that raises closes the section, so that nothing
    disturbs the code that then puts things in order.
    """

    __slots__ = ("_came", "_code", "_handlers", "_open")

    def __init__(self) -> None:
        self._open = False
        self._handlers: dict[int, Any] = {}  # by signal, those that this one stands in for
        self._came: list[int] = []  # signals to be handled
        self._code: CodeType | None = None

    def __enter__(self) -> Uninterrupted:
        if threading.get_ident() == threading.main_thread().ident:
            self._code = sys._getframe(1).f_code
            try:
                self._stand_in()
            except BaseException:  # of a handler that it did not stand in for so far
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
        """Whether signals are handled when they come."""
        return self._open

    @open.setter
    def open(self, value: bool) -> None:
        if value:
            self.listen()
        self._open = value

    def listen(self) -> None:
        """Handles the signals that came so far, at a place where all is in order."""
        self._handle(self._handlers)

    def _stand_in(self) -> None:
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _signal.signal(number, self._handler)

    def _step_back(self) -> None:
        """Every handler has its place again, that of Ctrl-C last: from then on it may come."""
        while self._handlers:
            number = next(reversed(self._handlers))
            if _signal.getsignal(number) == self._handler:  # else the code within has set another
                _signal.signal(number, self._handlers[number])
            del self._handlers[number]

    def _handle(self, handlers: dict[int, Any]) -> None:
        while self._came:
            number = self._came.pop(0)
            handlers[number](number, sys._getframe(2))

    def _handler(self, number: int, frame: FrameType | None) -> None:
        """Takes the place of others' handlers."""
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
        """Whether the code that entered it is gone: an error that came as `__exit__` began, as a
        debugger may raise, has left the handler where it was."""
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        return frame is None
