"""DataLoader: batches of a data set, read ahead by threads or processes where wanted."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from ...arguments import check_at_least, check_choice
from ...core.tensor import Tensor
from ...errors import ArgumentError, StateError
from ...ops.random.generator import Generator
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import END, Job
from .prefetch import Pass, Prefetcher, State
from .sampler import BatchSampler, RandomSampler, SequentialSampler, resumable
from .worker_pool import WorkerPool
from .worker_processes import ProcessPool
from .worker_threads import ThreadPool

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(Generic[_T_co]):
    """Batches of `dataset`, in order; each pass over the loader is one pass over the data.

    batch_size None: samples as they are, not batched. num_workers: how many read ahead (0: batches
    are read when asked for), each of them `prefetch_factor` batches (2).

    **Workers are threads**, which start at once and share the data set and the batches with the
    loop; NumPy, image decoders and files let threads run side by side, Python code does not. For a
    data set whose samples are made by Python code pass multiprocessing_context="fork", "spawn",
    "forkserver" or a context of `multiprocessing`: workers are then processes. Either way
    `get_worker_info()` says which worker one is in, `worker_init_fn(number)` prepares it, and what
    it draws at random follows from the seed of the pass and its number. With an IterableDataset
    each worker goes through a copy of its own (threads: a shallow one) and picks its share.

    An error in a worker is raised by the loop, which then ends, with the worker's own traceback; a
    dead worker, or one that takes more than `timeout` seconds (0: no limit), is a WorkerError.
    Leaving the loop ends the workers, unless `persistent_workers` keeps them for the next pass (a
    thread ends after the sample that it is reading).

    `state_dict()` is the place in the data, in plain numbers and lists, counted in batches that the
    loop was given; after `load_state_dict` the next pass gives the batches that were left.

    pin_memory and pin_memory_device are taken and mean nothing: there is no memory to pin.

    >>> import fusewire as fw
    >>> data = fw.utils.data.TensorDataset(fw.arange(5), fw.arange(5) * 10)
    >>> [y.tolist() for x, y in DataLoader(data, batch_size=2)]
    [[0, 10], [20, 30], [40]]
    """

    def __init__(
        self, dataset: Dataset[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:
        check_at_least("DataLoader", "num_workers", num_workers, 0)
        check_at_least("DataLoader", "timeout", timeout, 0)
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.prefetch_factor = _prefetch(num_workers, prefetch_factor)
        self.multiprocessing_context = _context(multiprocessing_context)
        if not num_workers and (persistent_workers or multiprocessing_context is not None):
            raise ArgumentError("DataLoader: persistent_workers and multiprocessing_context are "
                                "about workers, and num_workers is 0")
        self._iterable = isinstance(dataset, IterableDataset)
        _check_choices(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self._batched = batch_sampler is not None or batch_size is not None
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        data: Any = dataset
        if not self._iterable and sampler is None:
            sampler = RandomSampler(data, generator=generator) if shuffle else \
                SequentialSampler(data)
        if batch_size is not None:
            # of an IterableDataset it checks the size and counts the batches, nothing else
            batch_sampler = BatchSampler(data if self._iterable else sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._pass: Pass | None = None  # the latest one
        self._resumed: State | None = None
        self._pool: WorkerPool | None = None  # the persistent one, and the loop that uses it
        self._user: weakref.ref[Any] | None = None

    def __len__(self) -> int:
        if self._batched:
            return len(self.batch_sampler)
        counted: Any = self.dataset if self._iterable else self.sampler
        return len(counted)

    def __iter__(self) -> Iterator[Any]:
        state, self._resumed = self._resumed, None
        run = self._pass = Pass(self._source(), self.generator, state)
        if self.num_workers == 0:
            return self._streamed(run) if self._iterable else self._numbered(run)
        pool = self._pool_for(run)
        try:  # on their way from now on, not from the first batch on that is asked for
            prefetcher = Prefetcher(run, pool, self.prefetch_factor or 1, self.in_order,
                                    self.timeout)
        except BaseException:
            self._end(pool)
            raise
        loop = self._loop(prefetcher, pool)
        if self._pool is pool:
            self._user = weakref.ref(loop)
        return loop

    def _source(self) -> Any:
        """What gives the numbers of the samples to be read at a time, if they have any."""
        if self._iterable:
            return None
        return self.batch_sampler if self._batched else self.sampler

    def _numbered(self, run: Pass) -> Iterator[Any]:
        read = self._job(run).reader([])
        for indices in run.indices():
            run.yielded += 1
            yield read(indices)
        run.ended = True

    def _streamed(self, run: Pass) -> Iterator[Any]:
        read = self._job(run).reader([])
        while (batch := [read(None)])[0] is not END:
            if run.passes():
                yield batch.pop()  # not kept here while the loop works on it
        run.ended = True

    def _loop(self, prefetcher: Prefetcher, pool: WorkerPool) -> Iterator[Any]:
        try:
            yield from prefetcher.batches()
        except GeneratorExit:  # persistent workers stay when a loop is left, not when it failed
            raise
        except BaseException:
            self._end(pool)
            raise
        finally:
            if self._pool is not pool:
                pool.close()

    def _end(self, pool: WorkerPool) -> None:
        self._pool = None if self._pool is pool else self._pool
        pool.close()

    def _job(self, run: Pass) -> Job:
        size = (self.batch_size or 1) if self._batched else None
        return Job(self.dataset, self._iterable, size, self.drop_last, self.collate_fn,
                   self.worker_init_fn, self.num_workers, run.seed)

    def _pool_for(self, run: Pass) -> WorkerPool:
        user = None if self._user is None else self._user()
        if self._pool is not None and (user is None or user.gi_frame is None):
            return self._pool
        job = self._job(run)
        pool = ThreadPool(job) if self.multiprocessing_context is None else ProcessPool(
            job, self.multiprocessing_context, self.prefetch_factor or 1)
        if self.persistent_workers and self._pool is None:
            self._pool = pool
        return pool

    def state_dict(self) -> State:
        """Where the latest pass is: what `load_state_dict` takes, in numbers, lists and dicts.

        Between two passes it is the beginning of the next one. Random orders drawn from the default
        generator need that one's state as well to be the same in later passes:
        `fw.get_rng_state()`. A sampler of one's own goes on by its own `state_dict` and
        `load_state_dict`; one without them is expected to give the same order again.
        """
        if self._resumed is not None:
            return dict(self._resumed)
        run, source = self._pass, self._source()
        state: State = {"seed": None, "yielded": 0, "pending": [], "drained": False, "ended": True}
        if run is not None and not run.ended:
            state = run.state_dict()
        if source is not None:
            latest: Any = resumable(source) if run is None else run.source
            state["sampler"] = latest.state_dict()
        if self.generator is not None:
            state["generator"] = self.generator.state.tolist()
        return state

    def load_state_dict(self, state_dict: State) -> None:
        """Makes the next pass go on where `state_dict` was taken, whatever num_workers is."""
        required = {"seed", "yielded", "pending", "drained", "ended"}
        required |= set() if self._iterable else {"sampler"}
        if missing := sorted(required - set(state_dict)):
            raise StateError(f"DataLoader: the state lacks {', '.join(missing)}; it has the keys "
                             f"{sorted(state_dict)}", "state_dict() of such a loader gives one")
        self._resumed = dict(state_dict)
        if self.generator is not None and "generator" in state_dict:
            self.generator.set_state(Tensor(np.array(state_dict["generator"], np.int64)))


def _prefetch(workers: int, factor: int | None) -> int | None:
    if not workers:
        if factor is not None:
            raise ArgumentError("DataLoader: prefetch_factor is about workers, and num_workers "
                                "is 0")
        return None
    check_at_least("DataLoader", "prefetch_factor", 2 if factor is None else factor, 1)
    return 2 if factor is None else factor


def _context(method: Any) -> Any:
    """The context of `multiprocessing` to make processes with; None for threads."""
    if method is None or hasattr(method, "get_start_method"):
        return method
    import multiprocessing

    check_choice("DataLoader", "multiprocessing_context", method,
                 tuple(multiprocessing.get_all_start_methods()))
    return multiprocessing.get_context(method)


def _check_choices(iterable: bool, batch_size: Any, shuffle: Any, sampler: Any,
                   batch_sampler: Any, drop_last: bool) -> None:
    def conflict(text: str) -> None:
        raise ArgumentError(f"DataLoader: {text}")

    if iterable and (shuffle or sampler is not None or batch_sampler is not None):
        conflict("an IterableDataset has an order of its own: no shuffle, sampler or batch_sampler")
    if sampler is not None and shuffle:
        conflict("sampler and shuffle both choose the order: pass one of them")
    doubled = batch_size != 1 or shuffle or sampler is not None or drop_last
    if batch_sampler is not None and doubled:
        conflict("batch_sampler stands in the place of batch_size, shuffle, sampler and drop_last")
    if batch_size is None and drop_last:
        conflict("drop_last needs a batch_size")
