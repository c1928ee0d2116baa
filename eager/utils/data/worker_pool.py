"""Defines the interface of worker pools that the loop uses."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

from .worker import Task

Reply = tuple[int, int, int, Any]  # number of the pass, number of the batch, kind, content


class WorkerPool:
    """`size` workers; each handles its tasks in order, replies come in any order."""

    def __init__(self, size: int) -> None:
        self.size, self.passes, self.closed, self._owner = size, 0, False, os.getpid()
        _LIVE.add(self)

    def send(self, worker: int, task: Task) -> None:
        """Sends a task to a worker."""
        raise NotImplementedError

    def receive(self, timeout: float) -> Reply | None:
        """The next reply, or None after `timeout` seconds (0: never).

        Raises:
            WorkerError: a worker has died.
        """
        raise NotImplementedError

    def end(self) -> None:
        """Ends all workers."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends all workers, once, and only in the process that started them."""
        if not self.closed and self._owner == os.getpid():
            self.closed = True
            self.end()

    __del__ = close


_LIVE: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for pool in list(_LIVE):
        pool.close()
