"""Tracks one pass over a loader's data, and reads its batches ahead in workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from ...errors import WorkerError
from .sampler import drawn_seed, resumable, rewind
from .worker import BATCH, FAILED, reading
from .worker_pool import WorkerPool

State = dict[str, Any]
_STRIDE = 1_000_003  # between the seeds of batches; seeds of workers are next to that of the pass


class Epoch:
    """Holds the batches of a pass that are still to be read, or being read."""

    def __init__(self, source: Any, generator: Any, state: State | None) -> None:
        """source: yields the indices of a batch; None if the data set has its own order."""
        self.source = None if source is None else resumable(source)
        self.pending: dict[int, Any] = {}  # sent to workers: number of the batch -> its indices
        self.left: deque[Any] = deque()  # indices that were pending when the state was taken
        self.yielded = self.skipped = 0
        self.drained = self.ended = False  # no indices left, and no batches left
        if state is not None:
            self._resume(state)
        seed = state["seed"] if state else None
        self.seed: int = drawn_seed(generator) if seed is None else seed
        rest = () if self.drained else self.source
        self.numbers = repeat(None) if rest is None else iter(rest)
        self.first = self.yielded  # batches of this pass that came before it was resumed

    def _resume(self, state: State) -> None:
        if self.source is None:  # batches that the loop had are read again and skipped
            self.skipped = state["yielded"]
            return
        self.yielded = state["yielded"]
        self.left.extend(state["pending"])
        self.source.load_state_dict(state["sampler"])
        if state["drained"] or state["ended"]:  # the sampler is at the end of its pass
            rewind(self.source)
        self.drained = state["drained"] and not state["ended"]

    def indices(self) -> Iterator[Any]:
        """The indices of each batch; those of a resumed pass first."""
        while self.left:
            yield self.left.popleft()
        yield from self.numbers
        self.drained = True

    def seed_of(self, number: int) -> int:
        """The seed of the random numbers of a batch, by its place in the whole pass."""
        return self.seed + _STRIDE * (self.first + number)

    def passes(self) -> bool:
        """Counts a batch; True unless the loop got it before the pass was resumed."""
        self.yielded += 1
        return self.yielded > self.skipped

    def state_dict(self) -> State:
        """The rest of the pass; batches read ahead are part of it."""
        coming = (*self.pending.values(), *self.left)
        return {"seed": self.seed, "yielded": max(self.yielded, self.skipped),
                "pending": [] if self.source is None else list(coming),
                "drained": self.drained, "ended": self.ended}


class Prefetcher:
    """Lets every worker read a number of batches ahead."""

    def __init__(self, run: Epoch, pool: WorkerPool, batches_per_worker: int, in_order: bool,
                 timeout: float) -> None:
        pool.passes += 1
        self.run, self.pool, self.now = run, pool, pool.passes
        self.in_order, self.timeout = in_order, timeout
        self.indices = enumerate(run.indices())
        self.workers: dict[int, int] = {}  # number of the batch -> its worker
        self.live = list(range(pool.size))  # workers that have not reached their end
        self.next_live = 0
        self.done: dict[int, tuple[int, Any]] = {}
        for _ in range(batches_per_worker * pool.size):
            self._give(self._next())

    def _next(self) -> int | None:
        """The next worker in rotation; None if all have reached their end."""
        if not self.live:
            return None
        worker = self.live[self.next_live]
        self.next_live = (self.next_live + 1) % len(self.live)
        return worker

    def _give(self, worker: int | None) -> None:
        batch = None if worker is None else next(self.indices, None)
        if batch is not None and worker is not None:
            number, indices = batch
            self.run.pending[number], self.workers[number] = indices, worker
            self.pool.send(worker, (self.now, number, indices, self.run.seed_of(number)))

    def batches(self) -> Iterator[Any]:
        """The batches from the workers, in their order or as they come."""
        run, done = self.run, self.done
        while run.pending:
            number = next(iter(run.pending)) if self.in_order else None
            while (number not in done) if self.in_order else not done:
                self._take()
            number = next(iter(done)) if number is None else number
            reply_kind = done[number][0]
            if reply_kind == FAILED:
                raise done[number][1].error()
            del run.pending[number]
            worker = self.workers.pop(number)
            if reply_kind == BATCH:
                self._give(self._next() if self.in_order else worker)
                if run.passes():
                    yield done.pop(number)[1]
                    continue
            else:
                self._retire(worker)
            del done[number]
        run.ended = True

    def _take(self) -> None:
        reply = self.pool.receive(self.timeout)
        if reply is None:
            number, indices = next(iter(self.run.pending.items()))
            raise WorkerError(
                f"DataLoader: no batch came within timeout={self.timeout} seconds; worker "
                f"{self.workers[number]} is {reading(None, number, indices)}",
                "one sample may be slow: raise timeout, or look at what the worker does")
        now, number, reply_kind, value = reply
        if now == self.now:  # else the reply belongs to an abandoned pass
            self.done[number] = (reply_kind, value)

    def _retire(self, worker: int) -> None:
        """Removes a worker that has reached the end of its data; the others continue."""
        if worker in self.live:
            self.next_live -= self.live.index(worker) < self.next_live
            self.live.remove(worker)
            self.next_live %= max(1, len(self.live))
        self._give(self._next())
