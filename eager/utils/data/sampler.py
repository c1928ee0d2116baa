"""The order in which samples are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any

from ...errors import ArgumentError
from ...ops.random import Generator, randint, randperm
from ..arguments import check_at_least


class Sampler:
    """Base of what gives the numbers of samples, one after the other."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler):
    """0, 1, ... up to the length of `data_source`."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """The numbers of `data_source` in random order; with `replacement` each drawn from all.

    The order comes from `generator`, or else the default one, and is another one every time.
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if num_samples is not None:
            check_at_least("RandomSampler", "num_samples", num_samples, 1)
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many numbers are drawn: as many as there are samples, unless told otherwise."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        if self.replacement:
            yield from randint(0, n, (count,), generator=self.generator).tolist()
            return
        while count > 0:
            part = randperm(n, self.generator).tolist()[:count]  # type: ignore[attr-defined]
            if not part:
                return
            yield from part
            count -= len(part)


class BatchSampler(Sampler):
    """Lists of `batch_size` numbers from `sampler`; the last may be shorter unless `drop_last`."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"BatchSampler: batch_size must be a whole number above 0, got "
                                f"{batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[list[Any]]:
        numbers = iter(self.sampler)
        while batch := list(islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch
