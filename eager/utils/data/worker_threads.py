"""Implements a pool of worker threads."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from .fetch import ReadJob
from .worker import Task, serve
from .worker_pool import Reply, WorkerPool

_JOIN_SECONDS = 1.0  # how long the loop waits for threads, which cannot be killed


class ThreadPool(WorkerPool):
    """A queue of tasks for each thread, and one queue of replies."""

    def __init__(self, job: ReadJob) -> None:
        super().__init__(job.workers)
        self.stop: list[bool] = []
        self.replies: SimpleQueue[Reply] = SimpleQueue()
        self.tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(job.workers)]
        # daemons, so that Python can exit while a thread is reading
        self.threads = [threading.Thread(
            target=_work, args=(_own(job), i, self.tasks[i].get, self.replies.put, self.stop),
            name=f"fusewire-loader-{i}", daemon=True) for i in range(job.workers)]
        for thread in self.threads:
            thread.start()

    def send(self, worker: int, task: Task) -> None:
        self.tasks[worker].put(task)

    def receive(self, timeout: float) -> Reply | None:
        try:
            return self.replies.get(timeout=timeout or None)
        except Empty:
            return None

    def end(self) -> None:
        self.stop.append(True)
        for tasks in self.tasks:
            tasks.put(None)
        latest = time.monotonic() + _JOIN_SECONDS
        for thread in self.threads:
            if thread is not threading.current_thread():  # a batch's last reference may die there
                thread.join(max(0.0, latest - time.monotonic()))


def _own(job: ReadJob) -> ReadJob:
    """The job with its own shallow copy of an IterableDataset, which iteration may change."""
    return replace(job, dataset=copy.copy(job.dataset)) if job.iterable else job


def _work(job: ReadJob, number: int, receive: Callable[[], Any],
          send_reply: Callable[[Reply], None], stop: list[bool]) -> None:
    def reply(now: int, batch: int, kind: int, value: Any) -> None:
        send_reply((now, batch, kind, value))

    serve(job, number, receive, reply, stop, process=False)
