"""Implements DataLoader, which reads batches of a data set, ahead of the loop if it has workers."""

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
from .fetch import END, ReadJob
from .prefetch import Epoch, Prefetcher, State
from .sampler import BatchSampler, RandomSampler, SequentialSampler, resumable
from .worker_pool import WorkerPool
from .worker_processes import ProcessPool
from .worker_threads import ThreadPool

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(Generic[_T_co]):
    """Iterates over batches of a data set; each pass over the loader is a pass over the data.

    **Workers are threads.** They start at once, and share the data set and the batches with the
    loop. NumPy, image decoders and files run in parallel in threads; Python code does not. For
    samples made by Python code pass a multiprocessing_context: workers are then processes.
    `get_worker_info()` tells a worker its number and has its random numbers, `rng`. They start anew
    with each batch, from the seed of the pass and the batch's place in it, so that they depend
    neither on the number of workers nor on a resume. With a worker_init_fn, which may seed them,
    and with an IterableDataset, they start once, from the seed and the worker's number. With an
    IterableDataset each worker iterates over its own copy (threads: a shallow one).

    An error in a worker is raised in the loop, with the worker's traceback, and ends the pass.
    Leaving the loop ends the workers, unless they are persistent; a thread finishes its sample
    first.

    Args:
        dataset: samples by index, or an IterableDataset.
        batch_size: samples per batch; None yields single samples. Default 1.
        shuffle: draws a random order in each pass. Default None: no.
        sampler: an iterable of indices, instead of shuffle. Default None.
        batch_sampler: an iterable of lists of indices, instead of batch_size, shuffle, sampler and
            drop_last. Default None.
        num_workers: number of workers that read ahead; 0 reads in the loop. Default 0.
        collate_fn: makes a batch of a list of samples. Default None:
            `default_collate`, or `default_convert` without batches.
        drop_last: drops a last batch that is too short. Default False.
        timeout: seconds to wait for a batch of a worker; 0 for no limit. Default 0.
        worker_init_fn: called with the number of each worker when it starts. Default None.
        multiprocessing_context: "fork", "spawn", "forkserver", or a context of `multiprocessing`.
            Default None: threads.
        generator: source of the order and of the seed. Default None: the default generator.
        prefetch_factor: batches that each worker reads ahead. Default None: 2.
        persistent_workers: workers stay for the next pass. Default False.
        in_order: yields batches in their order; False yields them as they come. Default True.
        pin_memory, pin_memory_device: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: options that exclude each other, or out of range.
        WorkerError: in the loop, if a worker died or exceeded `timeout`.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.TensorDataset(fw.arange(5), fw.arange(5) * 10)
        >>> [y.tolist() for x, y in fw.utils.data.DataLoader(data, batch_size=2)]
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
            # for an IterableDataset it only checks the size and counts the batches
            batch_sampler = BatchSampler(data if self._iterable else sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._epoch: Epoch | None = None  # the latest one
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
        run = self._epoch = Epoch(self._source(), self.generator, state)
        if self.num_workers == 0:
            return self._streamed(run) if self._iterable else self._numbered(run)
        pool = self._pool_for(run)
        try:  # workers start to read now, not when the loop asks for the first batch
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
        """The sampler of batches, or of samples; None for an IterableDataset."""
        if self._iterable:
            return None
        return self.batch_sampler if self._batched else self.sampler

    def _numbered(self, run: Epoch) -> Iterator[Any]:
        read = self._job(run).reader([])
        for indices in run.indices():
            run.yielded += 1
            yield read(indices)
        run.ended = True

    def _streamed(self, run: Epoch) -> Iterator[Any]:
        read = self._job(run).reader([])
        while (batch := [read(None)])[0] is not END:
            if run.passes():
                yield batch.pop()  # drops the reference while the loop works on the batch
        run.ended = True

    def _loop(self, prefetcher: Prefetcher, pool: WorkerPool) -> Iterator[Any]:
        try:
            yield from prefetcher.batches()
        except GeneratorExit:  # persistent workers survive a `break`, but not an error
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

    def _job(self, run: Epoch) -> ReadJob:
        size = (self.batch_size or 1) if self._batched else None
        return ReadJob(self.dataset, self._iterable, size, self.drop_last, self.collate_fn,
                       self.worker_init_fn, self.num_workers, run.seed)

    def _pool_for(self, run: Epoch) -> WorkerPool:
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
        """The position of the latest pass, as numbers, lists and dicts, for `load_state_dict`.

        It counts the batches that the loop got. Between two passes it is the start of the next.
        Orders of later passes are equal only if the generator is: save `fw.get_rng_state()` too if
        it is the default one. A sampler of the user continues by its own `state_dict` and
        `load_state_dict`; without them it must give the same order again.
        """
        if self._resumed is not None:
            return dict(self._resumed)
        run, source = self._epoch, self._source()
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
        """Makes the next pass continue where `state_dict` was taken; num_workers may differ.

        Raises:
            StateError: a key is missing.
        """
        required = {"seed", "yielded", "pending", "drained", "ended"}
        required |= set() if self._iterable else {"sampler"}
        if missing := sorted(required - set(state_dict)):
            raise StateError(f"DataLoader: the state lacks {', '.join(missing)}; it has the keys "
                             f"{sorted(state_dict)}", "pass a result of its state_dict()")
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
    """The context of `multiprocessing` that makes processes; None for threads."""
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
        conflict("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
    if batch_size is None and drop_last:
        conflict("drop_last needs a batch_size")
