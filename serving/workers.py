"""Several server processes that share a port. One that dies is replaced.

Workers are forks of a process that has imported everything and nothing else, so that a new one is
there in a moment.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import fusewire as fw

from .server import Made, Options, Server, listening_socket

_QUICK_DEATHS = 3  # of workers that were never ready, one after the other: then the command fails
_POLL_SECONDS = 0.5
_START_ATTEMPTS = 5


@dataclass
class _Worker:
    """A process, and a pipe that says when it is ready and ends when its parent does."""

    process: Any
    pipe: Connection
    is_ready: bool = False


class Supervisor:
    """Starts worker processes, replaces those that die, and ends them.

    Args:
        make: returns the models, by name, in each worker. It can be pickled.
        options: how each server listens. Ports of 0 become free ones.
        count: the number of workers.
        say: shows a line.
    """

    def __init__(self, make: Callable[[], dict[str, Made]], options: Options, count: int,
                 say: Callable[[str], None]) -> None:
        # Bound sockets that do not listen keep the ports while workers come and go.
        self._http = listening_socket(options.host, options.http, share=True)
        self._grpc = None if options.grpc is None else \
            listening_socket(options.host, options.grpc, share=True)
        self.options = replace(
            options, share_port=True, http=self._http.getsockname()[1],
            grpc=None if self._grpc is None else self._grpc.getsockname()[1])
        self.make, self.count, self.say = make, count, say
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload([__name__])
        self._workers: list[_Worker] = []
        self._quick_deaths, self._is_ending, self._was_ready = 0, False, False

    def run(self) -> None:
        """Serves until SIGTERM or Ctrl-C. SIGHUP makes all workers load their repository again.

        StateError if workers die before they are ready, several times.
        """
        handlers = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._pass}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._workers = [self._start() for _ in range(self.count)]
            while not self._is_ending:
                self._look()
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, *_: Any) -> None:
        self._is_ending = True

    def _pass(self, *_: Any) -> None:
        for worker in self._workers:
            if worker.is_ready:
                _send(worker, signal.SIGHUP)

    def _start(self) -> _Worker:
        for attempt in range(_START_ATTEMPTS):
            here, there = multiprocessing.Pipe()
            process = self._processes.Process(
                target=_work, args=(self.make, self.options, there), name="fusewire worker")
            try:
                process.start()
                return _Worker(process, here)
            except (EOFError, OSError):  # the process to fork died; the next start makes another
                here.close()
                if attempt + 1 == _START_ATTEMPTS:
                    raise
                time.sleep(_POLL_SECONDS)
            finally:
                there.close()
        raise AssertionError("unreachable")

    def _look(self) -> None:
        """Waits for news of the workers: one is ready, or has died."""
        waiting = [w.process.sentinel for w in self._workers] + \
            [w.pipe for w in self._workers if not w.is_ready]
        wait(waiting, _POLL_SECONDS)
        for number, worker in enumerate(self._workers):
            if not worker.is_ready and _is_told(worker.pipe):
                worker.is_ready, self._quick_deaths = True, 0
            elif not worker.process.is_alive() and not self._is_ending:
                self._replace(number, worker)
        if not self._was_ready and all(worker.is_ready for worker in self._workers):
            self._was_ready = True
            self.say(f"ready: {self.count} workers")

    def _replace(self, number: int, worker: _Worker) -> None:
        code = worker.process.exitcode
        self._quick_deaths += not worker.is_ready
        if self._quick_deaths >= _QUICK_DEATHS:
            raise fw.StateError(f"{self._quick_deaths} workers ended before they were ready, the "
                                f"last one with the exit code {code}", "see the errors above; a "
                                "single worker (--workers 1) shows them by itself")
        self.say(f"worker {worker.process.pid} ended with the exit code {code}; another one starts")
        worker.pipe.close()
        self._workers[number] = self._start()

    def _stop(self) -> None:
        """Ends all workers behind the requests that they have taken."""
        for worker in self._workers:
            _send(worker, signal.SIGTERM)
        end = time.monotonic() + self.options.drain_seconds + 60
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        for bound in (self._http, self._grpc):
            if bound is not None:
                bound.close()


def _send(worker: _Worker, number: signal.Signals) -> None:
    """Sends a signal to a worker. One that is not ready has no handlers yet, and ends."""
    if worker.process.is_alive():
        os.kill(worker.process.pid, number)


def _is_told(pipe: Connection) -> bool:
    """True if a worker has said that it is ready."""
    try:
        return pipe.poll() and bool(pipe.recv())
    except (EOFError, OSError):
        return False


def _work(make: Callable[[], dict[str, Made]], options: Options, pipe: Connection) -> None:
    """Runs one worker."""
    fw.manual_seed(secrets.randbits(63))  # a fork has the random state of the others
    server = Server(make(), options)
    server.run(when_ready=lambda: pipe.send(True), parent=pipe)
