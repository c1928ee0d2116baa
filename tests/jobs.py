"""Runs jobs at the same time, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """The results of jobs that run at the same time. Raises the first of their errors."""
    results: list[Any] = [None] * len(jobs)
    ready = threading.Barrier(len(jobs))

    def work(i: int) -> None:
        ready.wait()
        try:
            results[i] = jobs[i]()
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results
