"""What a worker does, in a thread or in a process: it reads batches until it is told to stop."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import fork_safety, interpreter
from ...core.tape import MODE
from ...ops.random.generator import OWN, Generator, default_generator
from .fetch import END, Job, LoopLeft, Reader
from .worker_error import Failure

Task = tuple[int, int, Any]  # the pass, the number of the batch, the numbers of its samples
BATCH, FAILED, ENDED = range(3)  # what is in a reply


@dataclass(frozen=True)
class Generators:
    """Random numbers of one worker: Python's, fusewire's and NumPy's, from the worker's seed."""

    random_generator: random.Random
    generator: Generator
    numpy_generator: np.random.Generator


@dataclass(frozen=True)
class WorkerInfo:
    """A worker of a DataLoader: `id` counts from 0, `dataset` is the one that this worker reads."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Generators | None = None
    worker_method: str | None = "multiprocessing"  # or "thread"


class _Here(threading.local):
    """The worker that a thread is; in a process of its own, all threads belong to that worker."""

    info: WorkerInfo | None = None


_HERE = _Here()


def get_worker_info() -> WorkerInfo | None:
    """What a DataLoader's worker, thread or process, needs to know about itself; else None.

    An IterableDataset looks here to read its share only:
    `itertools.islice(samples, info.id, None, info.num_workers)`.
    """
    return _HERE.info


def _prepare(job: Job, number: int, process: bool) -> None:
    """Seeds this worker's random numbers, says who it is, and lets the user prepare it.

    The modules `random` and `numpy.random` keep one state for a whole process, so they are seeded
    in processes only; threads have generators of their own in `get_worker_info().rng`, and what
    fusewire draws without a generator comes from theirs.
    """
    seed = job.seed + number
    seed_sequence = np.random.SeedSequence([job.seed, number])
    rng = Generators(random.Random(seed), Generator(seed), np.random.default_rng(seed_sequence))
    method = "multiprocessing" if process else "thread"
    info = WorkerInfo(number, job.workers, seed, job.dataset, rng, method)
    if process:
        _leave_the_parents_state()
        random.seed(seed)
        np.random.seed(seed_sequence.generate_state(4))
        default_generator.manual_seed(seed)
        _Here.info = info
    else:
        OWN.generator = rng.generator
        _HERE.info = info
    if job.init_fn is not None:
        job.init_fn(number)


def _leave_the_parents_state() -> None:
    """A forked process is inside of whatever its parent was doing: recordings, no_grad, ...

    As many workers as there are processors would slow each other down with threads of their own.
    """
    fork_safety.alone = False
    sys.setprofile(None)
    interpreter.STATE.active = None
    MODE.enabled, MODE.inference = True, False


def serve(job: Job, number: int, receive: Callable[[], Task | None],
          reply: Callable[[int, int, int, Any], None], stop: list[bool], process: bool) -> None:
    """Works as worker `number`: a reply to each task, until None is received or `stop` filled."""
    reader: Reader | None = None
    at, failure = None, None
    what = f"DataLoader worker {number} ({f'process {os.getpid()}' if process else 'thread'})"
    try:
        _prepare(job, number, process)
    except BaseException as error:
        failure = Failure.of(error, f"{what}, before its first batch")
    while (task := receive()) is not None and not stop:
        now, batch, indices = task
        try:
            if failure is None:
                if at != now:
                    reader, at = job.reader(stop), now
                _answer(reader, task, reply)
                continue
        except LoopLeft:
            return
        except BaseException as error:
            failure = Failure.of(error, f"{what}, {reading(reader, batch, indices)}")
        reply(now, batch, FAILED, failure)


def _answer(reader: Any, task: Task, reply: Callable[[int, int, int, Any], None]) -> None:
    batch = reader(task[2])
    reply(*task[:2], ENDED if batch is END else BATCH, None if batch is END else batch)


def reading(reader: Reader | None, batch: int, indices: Any) -> str:
    """What a worker was doing: which samples it was reading."""
    if indices is None:
        return f"reading batch number {batch}"
    if not isinstance(indices, (list, tuple)):
        return f"reading sample {indices}"
    shown = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
    which = "" if reader is None or reader.failed is None else f"sample {reader.failed} of "
    return f"reading {which}the batch [{shown}]"
