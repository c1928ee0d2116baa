"""Collects requests in batches: while one batch runs, the next one gathers."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .base import tracing
from .base.data_types import Array
from .base.failures import TIMEOUT, UNAVAILABLE, RequestError, failure_of
from .base.statistics import Statistics
from .base.tracing import Link
from .model import Model

_SWEEP_SECONDS = 0.5  # between looks for requests whose time is over

Outcome = list[Array] | RequestError


@dataclass(eq=False)
class Pending:
    """A request that waits for its outputs.

    Args:
        arrays: the inputs.
        rows: their first size.
        deadline: the time of `time.monotonic` after which nobody wants the outputs.
        future: of the outputs. It is cancelled when the client leaves.
        link: of the request's span.
    """

    arrays: Sequence[Array]
    rows: int
    deadline: float
    future: asyncio.Future[list[Array]]
    link: Link = None
    since: int = field(default_factory=time.monotonic_ns)


class Batcher:
    """The queue of a model, and the thread that runs it.

    All methods are called by the thread of the event loop.

    Args:
        model: a loaded model.
        statistics: counts what runs.
    """

    def __init__(self, model: Model, statistics: Statistics) -> None:
        self.model, self.statistics = model, statistics
        self._waiting: dict[Any, deque[Pending]] = {}  # by shapes, in the order of arrival
        self._rows = 0  # that wait
        self._running: list[Pending] = []  # the batch that the thread computes
        self._is_closed = self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[list[Pending] | None] = queue.SimpleQueue()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run_batches, name="fusewire model",
                                        daemon=True)
        self._thread.start()

    def submit(self, arrays: Sequence[Array], timeout: float | None = None, link: Link = None
               ) -> asyncio.Future[list[Array]]:
        """The future outputs of a request. Cancel it when nobody wants them any more.

        Args:
            arrays: the inputs, in their order, dtypes and contents checked.
            timeout: seconds that the request may wait. Default that of the model.
            link: of the request's span. Default None.

        Raises:
            RequestError: shapes do not fit, the queue is full, or the model is unloaded.
        """
        rows = self.model.check(arrays)
        if self._is_closed:
            raise RequestError(UNAVAILABLE, "the model is being unloaded")
        if self._rows + rows > self.model.queue:
            raise RequestError(UNAVAILABLE, f"{self._rows} rows wait, of {self.model.queue} at "
                               "most; try again later")
        wait = self.model.timeout if timeout is None else min(timeout, self.model.timeout)
        request = Pending(arrays, rows, time.monotonic() + wait, self._loop.create_future(),
                          link)
        key = tuple(array.shape[1:] for array in arrays) if self.model.buckets else id(request)
        self._waiting.setdefault(key, deque()).append(request)
        self._rows += rows
        if self._idle.is_set():
            self._idle.clear()
            self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        self._schedule()
        return request.future

    async def drain(self) -> None:
        """Refuses new requests, waits for those that were taken, and ends the thread."""
        self._is_closed = True
        await self._idle.wait()
        self._work.put(None)

    # ---- in the event loop

    def _schedule(self) -> None:
        """Starts a batch soon: behind all requests that have arrived already."""
        if not self._is_scheduled and not self._running:
            self._is_scheduled = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        """Starts the batch of the request that has waited longest, unless it may wait longer."""
        self._is_scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop()
        if self._running or not self._waiting:
            self._note_idle()
            return
        key = min(self._waiting, key=lambda key: self._waiting[key][0].since)
        requests = self._waiting[key]
        delay = self.model.delay - (time.monotonic_ns() - requests[0].since) / 1e9
        if delay > 0 and sum(request.rows for request in requests) < self.model.max_batch:
            self._timer = self._loop.call_later(delay, self._start)
            return
        self._running = self._taken(requests)
        if not requests:
            del self._waiting[key]
        self._work.put(self._running)

    def _note_idle(self) -> None:
        if not self._running and not self._waiting:
            self._idle.set()

    def _sweep(self) -> None:
        """Answers requests whose time is over while the model computes, or hangs."""
        self._drop()
        limit = time.monotonic() - self.model.timeout
        for request in self._running:
            if request.deadline < limit and not request.future.done():
                request.future.set_exception(RequestError(
                    TIMEOUT, f"the model did not answer in {2 * self.model.timeout} s"))
        self._note_idle()
        if not self._idle.is_set():
            self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _taken(self, requests: deque[Pending]) -> list[Pending]:
        """Takes the requests of one batch from their queue."""
        batch = [requests.popleft()]
        rows = batch[0].rows
        while requests and rows + requests[0].rows <= self.model.max_batch:
            batch.append(requests.popleft())
            rows += batch[-1].rows
        self._rows -= rows
        now = time.monotonic_ns()
        self.statistics.queue.add(sum(now - request.since for request in batch), len(batch))
        return batch

    def _drop(self) -> None:
        """Drops requests whose clients have left or whose time is over."""
        now = time.monotonic()
        for key, requests in list(self._waiting.items()):
            if all(not r.future.done() and r.deadline > now for r in requests):
                continue
            kept: deque[Pending] = deque()
            for request in requests:
                if not request.future.done() and request.deadline > now:
                    kept.append(request)
                    continue
                self._rows -= request.rows
                if not request.future.done():
                    request.future.set_exception(RequestError(
                        TIMEOUT, "the request waited longer than its timeout allows"))
            if kept:
                self._waiting[key] = kept
            else:
                del self._waiting[key]

    def _finish(self, batch: list[Pending], outcomes: list[Outcome], input_ns: int,
                infer_ns: int) -> None:
        self._running = []
        rows = sum(request.rows for request in batch)
        self.statistics.add_batch(rows, len(batch), input_ns, infer_ns)
        for request, outcome in zip(batch, outcomes):
            if request.future.done():
                continue
            if isinstance(outcome, RequestError):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)
        if self._waiting:
            self._schedule()
        else:
            self._note_idle()

    # ---- in the model's thread

    def _run_batches(self) -> None:
        while (batch := self._work.get()) is not None:
            begin = time.time_ns()
            start = middle = time.perf_counter_ns()
            try:
                arrays = self._joined(batch)
                middle = time.perf_counter_ns()
                outcomes = self._outcomes(batch, arrays)
            except Exception as error:  # such as too little memory
                outcomes = [failure_of(error)] * len(batch)
            end = time.perf_counter_ns()
            tracing.record("batch", begin, begin + end - start, [r.link for r in batch], {
                "fusewire.rows": sum(r.rows for r in batch), "fusewire.requests": len(batch)})
            self._loop.call_soon_threadsafe(self._finish, batch, outcomes, middle - start,
                                            end - middle)

    def _joined(self, batch: Sequence[Pending]) -> list[Array]:
        """The inputs of a batch, with copies of the last row up to the size of a bucket."""
        if not self.model.buckets:
            return [array.copy() for array in batch[0].arrays]
        rows = sum(request.rows for request in batch)
        size = self.model.bucket(rows)
        joined = []
        for parts in zip(*(request.arrays for request in batch)):
            array = np.empty((size, *parts[0].shape[1:]), parts[0].dtype)
            np.concatenate(parts, out=array[:rows])
            array[rows:] = array[rows - 1]
            joined.append(array)
        return joined

    def _outcomes(self, batch: Sequence[Pending], arrays: list[Array]) -> list[Outcome]:
        """The outputs or the error of each request. If a batch fails, each one runs alone."""
        try:
            outputs = self.model.run(arrays)
        except Exception as error:
            if len(batch) == 1:
                return [failure_of(error)]
            return [self._outcomes([request], self._joined([request]))[0] for request in batch]
        if not self.model.buckets:
            return [outputs]
        ends = np.cumsum([request.rows for request in batch])
        return [[output[end - request.rows:end] for output in outputs]
                for request, end in zip(batch, ends)]
