"""Runs a worker, in a thread or a process: it reads batches until it is told to stop."""

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
from .fetch import END, LoopLeft, Reader, ReadJob
from .worker_error import Failure

# Number of the pass, number of the batch, indices of its samples, seed of its random numbers.
Task = tuple[int, int, Any, int]
BATCH, FAILED, ENDED = range(3)  # kinds of replies


@dataclass(frozen=True)
class Generators:
    """Generators of random numbers of one worker: Python's, fusewire's and NumPy's."""

    random_generator: random.Random
    generator: Generator
    numpy_generator: np.random.Generator


@dataclass(frozen=True)
class WorkerInfo:
    """Describes the worker of a DataLoader in which the code runs.

    Attributes:
        id: number of the worker, from 0.
        num_workers: number of workers.
        seed: seed of this worker in this pass.
        dataset: the data set that this worker reads; its own copy for an IterableDataset.
        rng: generators of random numbers of this worker.
        worker_method: "multiprocessing" or "thread".

    Example:
        >>> import fusewire as fw
        >>> class Shared(fw.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         info = fw.utils.data.get_worker_info()
        ...         return iter(range(info.id, 4, info.num_workers))
        >>> sorted(x.item() for x in fw.utils.data.DataLoader(Shared(), num_workers=2))
        [0, 1, 2, 3]
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Generators | None = None
    worker_method: str | None = "multiprocessing"  # or "thread"


class _Here(threading.local):
    """The worker of this thread; in a worker process all threads belong to that worker."""

    info: WorkerInfo | None = None


_HERE = _Here()


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo of the worker, thread or process, in which the code runs; None outside.

    An IterableDataset uses it to read its share only:
    `itertools.islice(samples, info.id, None, info.num_workers)`.

    Example:
        >>> import fusewire as fw
        >>> print(fw.utils.data.get_worker_info())
        None
    """
    return _HERE.info


def _prepare(job: ReadJob, number: int, process: bool) -> None:
    """Seeds the random numbers of this worker, sets its info, and calls the user's init function.

    `random` and `numpy.random` have one state per process, so only processes seed them. A thread
    has its own generators in `get_worker_info().rng`, and fusewire draws from its generator there.
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


def _reseed(seed: int, process: bool) -> None:
    """Starts the random numbers of a batch anew, so that they do not depend on its worker, nor on
    the batches that the worker read before: a resumed pass draws the same ones."""
    info = get_worker_info()
    assert info is not None and info.rng is not None
    info.rng.random_generator.seed(seed)
    info.rng.generator.manual_seed(seed)
    info.rng.numpy_generator.bit_generator.state = np.random.PCG64(seed).state
    if process:
        random.seed(seed)
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))
        default_generator.manual_seed(seed)


def _leave_the_parents_state() -> None:
    """Resets the state that a forked process inherits: traces, no_grad, profile hooks.

    Workers share the processors, so they use one thread each.
    """
    fork_safety.alone = False
    sys.setprofile(None)
    interpreter.STATE.active = None
    MODE.enabled, MODE.inference = True, False


def serve(job: ReadJob, number: int, receive: Callable[[], Task | None],
          reply: Callable[[int, int, int, Any], None], stop: list[bool], process: bool) -> None:
    """Runs worker `number`: replies to each task, until it receives None or `stop` is not empty."""
    reader: Reader | None = None
    at, failure = None, None
    what = f"DataLoader worker {number} ({f'process {os.getpid()}' if process else 'thread'})"
    try:
        _prepare(job, number, process)
    except BaseException as error:
        failure = Failure.of(error, f"{what}, before its first batch")
    while (task := receive()) is not None and not stop:
        now, batch, indices, seed = task
        try:
            if failure is None:
                if at != now:
                    reader, at = job.reader(stop), now
                if not job.iterable and job.init_fn is None:
                    _reseed(seed, process)
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
    """Describes the samples that a worker is reading."""
    if indices is None:
        return f"reading batch number {batch}"
    if not isinstance(indices, (list, tuple)):
        return f"reading sample {indices}"
    shown = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
    which = "" if reader is None or reader.failed is None else f"sample {reader.failed} of "
    return f"reading {which}the batch [{shown}]"
