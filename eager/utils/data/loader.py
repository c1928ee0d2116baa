"""DataLoader: batches of a data set, read ahead by threads where wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from ...errors import ArgumentError
from ...ops.random import Generator
from ..arguments import check_at_least
from .collate import default_collate, default_convert
from .dataset import IterableDataset, batch_reader
from .sampler import BatchSampler, RandomSampler, SequentialSampler

Read = Callable[[], Any]  # reads one batch


class DataLoader:
    """Batches of `dataset`, in order; each pass over the loader is one pass over the data.

    num_workers: threads that read ahead (0: batches are read when asked for), each of them
    `prefetch_factor` batches. batch_size None: samples as they are, not batched.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False,
        drop_last: bool = False, *, generator: Generator | None = None,
        prefetch_factor: int | None = None, persistent_workers: bool = False,
    ) -> None:
        # pin_memory and persistent_workers are about processes and devices; threads need neither
        check_at_least("DataLoader", "num_workers", num_workers, 0)
        check_at_least("DataLoader", "prefetch_factor", prefetch_factor or 1, 1)
        self.dataset, self.num_workers = dataset, num_workers
        self.prefetch_factor = prefetch_factor or 2
        self.iterable = isinstance(dataset, IterableDataset)
        _check_choices(self.iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = getattr(batch_sampler, "batch_size", None), False
        elif not self.iterable:
            sampler = sampler if sampler is not None else (
                RandomSampler(dataset, generator=generator) if shuffle
                else SequentialSampler(dataset))
            batch_sampler = BatchSampler(sampler, batch_size, drop_last) if batch_size else None
        elif batch_size is not None:
            BatchSampler((), batch_size)  # checks the size
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.batch_size, self.drop_last, self.generator = batch_size, drop_last, generator
        batched = batch_sampler is not None or (self.iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def __len__(self) -> int:
        if not self.iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = len(self.dataset)
        return n if self.batch_size is None else len(
            BatchSampler(range(n), self.batch_size, self.drop_last))

    def __iter__(self) -> Iterator[Any]:
        reads = self._stream() if self.iterable else self._numbered()
        if self.num_workers == 0:
            return (batch for read in reads if (batch := read()) is not _END)
        # What can only be gone through is read by one thread, one batch after the other.
        threads = 1 if self.iterable else self.num_workers
        return _ahead(reads, threads, self.num_workers * self.prefetch_factor)

    def _numbered(self) -> Iterator[Read]:
        read: Callable[[Any], Any] = self._sample
        if self.batch_sampler is not None:
            at_once = batch_reader(self.dataset) if self.collate_fn is default_collate else None
            read = at_once or self._samples
        numbers = self.sampler if self.batch_sampler is None else self.batch_sampler
        return (partial(read, index) for index in numbers)

    def _sample(self, index: Any) -> Any:
        return self.collate_fn(self.dataset[index])

    def _samples(self, indices: Any) -> Any:
        return self.collate_fn([self.dataset[i] for i in indices])

    def _stream(self) -> Iterator[Read]:
        """Reads of the next batch for as long as there is one: the last finds the end."""
        samples = iter(self.dataset)
        ended: list[bool] = []
        while not ended:
            yield partial(self._next, samples, ended)

    def _next(self, samples: Iterator[Any], ended: list[bool]) -> Any:
        if ended:
            return _END
        part = list(islice(samples, self.batch_size or 1))
        if len(part) < (self.batch_size or 1):
            ended.append(True)
            if not part or self.drop_last:
                return _END
        return self.collate_fn(part if self.batch_size is not None else part[0])


_END: Any = object()  # what a read gives that came after the last sample


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


def _ahead(reads: Iterator[Read], threads: int, count: int) -> Iterator[Any]:
    """The results of `reads` in their order, up to `count` of them read ahead by `threads`.

    What a read raises is raised here, in its turn, and ends the loop.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fusewire-loader")
    waiting: deque[Future[Any]] = deque()
    try:
        waiting.extend(pool.submit(read) for read in islice(reads, count))
        while waiting:
            result = waiting.popleft().result()
            if result is not _END:
                waiting.extend(pool.submit(read) for read in islice(reads, 1))
                yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
