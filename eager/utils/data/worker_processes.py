"""Implements a pool of worker processes."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import threading
import time
from collections import deque
from io import BytesIO
from queue import SimpleQueue
from typing import Any

from ...core.tensor import Tensor
from ...errors import ArgumentError, WorkerError
from .fetch import ReadJob
from .shared_memory import SegmentReader, SegmentWriter, new_folder
from .worker import FAILED, Task, serve
from .worker_pool import Reply, WorkerPool

_MAX_PIPE_BYTES = 1 << 15  # larger replies go through shared memory
_JOIN_SECONDS = 0.5  # time for a worker to finish its batch when the loop ends
_EXTRA_LEASES = 4  # replies of a worker that the loop may hold uncopied, beside those read ahead


class ProcessPool(WorkerPool):
    """A pipe to each process carries tasks and small replies; large replies use shared memory."""

    def __init__(self, job: ReadJob, context: Any, ahead: int) -> None:
        super().__init__(job.workers)
        self.folder = new_folder()
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        self.sentinels: list[int] = []
        self.memory = [SegmentReader(f"{self.folder}/{i}", ahead + _EXTRA_LEASES)
                       for i in range(job.workers)]
        self.arrived: deque[Reply] = deque()
        self.heard: set[int] = set()  # the workers that have replied
        self.spawned = context.get_start_method() != "fork"
        try:
            for number in range(job.workers):
                self._start(job, number, context)
        except BaseException as error:
            self.close()
            does_not_pickle = isinstance(
                error, (pickle.PicklingError, TypeError, AttributeError))
            if self.spawned and does_not_pickle:
                raise ArgumentError(
                    "DataLoader: the work of a worker process cannot be sent to it: "
                    f"{error}", "the dataset, collate_fn and worker_init_fn must pickle: define "
                    "them at the top of a module, not inside a function; thread workers need "
                    "no pickling") from error
            raise

    def _start(self, job: ReadJob, number: int, context: Any) -> None:
        ours, theirs = context.Pipe()
        self.pipes.append(ours)
        inherited = [] if self.spawned else list(self.pipes)
        process = context.Process(
            target=_work, args=(job, number, theirs, inherited, f"{self.folder}/{number}"),
            name=f"fusewire-loader-{number}", daemon=True)
        try:
            process.start()
        finally:
            theirs.close()
        self.processes.append(process)
        self.sentinels.append(process.sentinel)

    def send(self, worker: int, task: Task) -> None:
        try:
            self.pipes[worker].send((task, self.memory[worker].returned_segments()))
        except OSError:
            raise self._died(worker) from None

    def receive(self, timeout: float) -> Reply | None:
        from multiprocessing.connection import wait

        if not self.arrived:
            ready = wait([*self.pipes, *self.sentinels], timeout or None)
            if not ready:
                return None
            talking = [i for i, pipe in enumerate(self.pipes) if pipe in ready]
            for worker in talking:  # replies that a process sent before it ended
                self._read(worker)
            if not talking:
                raise self._died(next(i for i, s in enumerate(self.sentinels) if s in ready))
        return self.arrived.popleft()

    def _read(self, worker: int) -> None:
        try:
            data, buffers = pickle.loads(self.pipes[worker].recv_bytes())
        except (EOFError, OSError):
            raise self._died(worker) from None
        if data is None:
            data, *buffers = self.memory[worker].parts(buffers)
        now, batch, kind, value = pickle.loads(data, buffers=buffers)
        self.arrived.append((now, batch, kind, value))
        self.heard.add(worker)

    def _died(self, worker: int) -> WorkerError:
        process = self.processes[worker]
        process.join(_JOIN_SECONDS)
        code = process.exitcode
        how, help = f"exited with code {code}", "something in it ended the process: os._exit, exit"
        if code is None:
            how, help = "closed its pipe", "something in it has closed files that it did not open"
        elif code < 0:
            name = next((s.name for s in signal.Signals if s == -code), "")
            how = f"was killed by signal {-code} ({name}), exit code {code}"
            help = "a crash in native code, or the system: when memory is short, it kills"
        elif self.spawned and code == 1 and worker not in self.heard:
            help = 'a script that starts processes runs its own part under `if __name__ == ' \
                   '"__main__":`, since each of them imports it'
        return WorkerError(f"DataLoader worker {worker} (process {process.pid}) {how}", help)

    def end(self) -> None:
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:  # the process has ended already
                pass
        self._wait_for_ends()
        for process in self.processes:
            process.terminate()
        self._wait_for_ends()
        for process in self.processes:
            process.kill()
            process.join()
        for pipe in self.pipes:
            pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_for_ends(self) -> None:
        latest = time.monotonic() + _JOIN_SECONDS
        for process in self.processes:
            process.join(max(0.0, latest - time.monotonic()))


def _work(job: ReadJob, number: int, pipe: Any, inherited: list[Any], prefix: str) -> None:
    """The main function of a worker process."""
    for other in inherited:  # else this process would hold its siblings' pipes open
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loop handles Ctrl-C and ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tasks: SimpleQueue[Any] = SimpleQueue()
    stop: list[bool] = []
    threading.Thread(target=_listen, args=(pipe, tasks, stop, prefix), daemon=True).start()
    writer = SegmentWriter(prefix)

    def receive() -> Any:
        task, free = tasks.get()
        writer.free += free
        return task

    def reply(now: int, batch: int, kind: int, value: Any) -> None:
        sent = value.sendable() if kind == FAILED else value
        pipe.send_bytes(_packed(writer, (now, batch, kind, sent)))

    serve(job, number, receive, reply, stop, process=True)


def _listen(pipe: Any, tasks: SimpleQueue[Any], stop: list[bool], prefix: str) -> None:
    """Takes tasks off the pipe at once, so that the loop never waits to send one."""
    try:
        while (message := pipe.recv()) is not None:
            tasks.put(message)
        stop.append(True)
        tasks.put((None, []))
        pipe.recv()
    except (EOFError, OSError):  # the loop's process has ended, or has closed the pipe
        shutil.rmtree(os.path.dirname(prefix), ignore_errors=True)
        os._exit(1)


class _Pickler(pickle.Pickler):
    """Pickles tensors as their arrays, whose memory stays outside of the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.edge is None:
            return Tensor, (obj._data,)
        return NotImplemented


def _packed(writer: SegmentWriter, reply: Any) -> bytes:
    """A message (data, buffers), or (None, record) if they are in shared memory."""
    file = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(file, 5, buffer_callback=buffers.append).dump(reply)
    parts = [memoryview(file.getbuffer()), *(b.raw() for b in buffers)]
    record = writer.write(parts) if sum(p.nbytes for p in parts) > _MAX_PIPE_BYTES else None
    if record is None:
        # bytearrays, so that the arrays over them can be written to
        return pickle.dumps((file.getvalue(), list(map(bytearray, parts[1:]))), 5)
    return pickle.dumps((None, record), 5)
