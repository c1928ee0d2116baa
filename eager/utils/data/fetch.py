"""Reads batches from a data set, in the loop or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .collate import default_collate
from .dataset import batch_reader, samples_at

END: Any = object()  # returned by a reader after the last sample


class LoopLeft(BaseException):
    """Raised in a worker that reads a batch for a loop that has ended."""


@dataclass(frozen=True)
class ReadJob:
    """Everything that a worker needs to know."""

    dataset: Any
    iterable: bool
    batch_size: int | None  # None: samples, not batches
    drop_last: bool
    collate_fn: Callable[[Any], Any]
    init_fn: Callable[[int], Any] | None
    workers: int
    seed: int

    def reader(self, stop: list[bool]) -> Reader:
        """A reader of one pass over the data; it stops once `stop` is not empty."""
        return (_Stream if self.iterable else _Numbered)(self, stop)


class Reader:
    """A callable: reader(indices) is a batch, or a sample if there are no batches."""

    failed: Any = None  # index of the sample that raised an error

    def __init__(self, job: ReadJob, stop: list[bool]) -> None:
        self.dataset, self.collate_fn, self.stop = job.dataset, job.collate_fn, stop
        self.batch_size, self.drop_last = job.batch_size, job.drop_last

    def __call__(self, indices: Any) -> Any:
        raise NotImplementedError


class _Numbered(Reader):
    """Reads samples by index."""

    def __init__(self, job: ReadJob, stop: list[bool]) -> None:
        super().__init__(job, stop)
        self.at_once = batch_reader(job.dataset) \
            if job.batch_size is not None and job.collate_fn is default_collate else None
        self.together = hasattr(job.dataset, "__getitems__")

    def __call__(self, indices: Any) -> Any:
        if self.at_once is not None:
            return self.at_once(indices)
        if self.batch_size is None:
            return self.collate_fn(self.dataset[indices])
        if self.together:
            return self.collate_fn(samples_at(self.dataset, indices))
        return self.collate_fn(self._samples(indices))

    def _samples(self, indices: Any) -> list[Any]:
        dataset, stop, samples, i = self.dataset, self.stop, [], None
        try:
            for i in indices:
                if stop:
                    raise LoopLeft
                samples.append(dataset[i])
        except BaseException:
            self.failed = i
            raise
        return samples


class _Stream(Reader):
    """Reads the next samples of an IterableDataset."""

    def __init__(self, job: ReadJob, stop: list[bool]) -> None:
        super().__init__(job, stop)
        self.samples = iter(job.dataset)
        self.ended = False

    def __call__(self, indices: Any) -> Any:
        if self.ended:
            return END
        size = 1 if self.batch_size is None else self.batch_size
        part = list(islice(self.samples, size))
        self.ended = len(part) < size
        if not part or (self.ended and self.drop_last):
            return END
        return self.collate_fn(part[0] if self.batch_size is None else part)
