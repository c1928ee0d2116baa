"""Turns Ctrl-C into a request that the training loop reads between two steps."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Interrupts:
    """A context in which the first Ctrl-C sets `requested`, and a second one interrupts at once.

    The former handler is put back at the end. Signals reach the main thread only, so the context
    does nothing in another thread.
    """

    def __init__(self) -> None:
        self.requested = False
        self._former: Any = None

    def __enter__(self) -> Interrupts:
        self.requested = False
        if threading.current_thread() is threading.main_thread():
            former = signal.getsignal(signal.SIGINT)
            if callable(former):  # not ignored, and not a handler of another language
                self._former = former
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: Any) -> None:
        self._put_back()

    def _handle(self, number: int, frame: Any) -> None:
        if not self.requested:
            self.requested = True
            return
        former = self._former
        self._put_back()
        former(number, frame)

    def _put_back(self) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)
            self._former = None
