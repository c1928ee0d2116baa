"""Splits the order of one data set among several processes."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...ops.random.generator import Generator, randperm
from .sampler import Resumable, State


class DistributedSampler(Resumable):
    """The share of process `rank` of `num_replicas` processes in a common order of indices.

    The order follows from seed + epoch: call `set_epoch` before each pass. All processes get
    equally many indices: the first ones are repeated, or with `drop_last` the last ones are
    dropped.

    Args:
        dataset: an object with a length.
        num_replicas: number of processes. Default None, which is an error.
        rank: number of this process, from 0 to num_replicas - 1. Default None, which is an error.
        shuffle: draws a random order. Default True.
        seed: seed of the order, equal in all processes. Default 0.
        drop_last: drops indices to make the shares equal. Default False: repeats some.

    Raises:
        ArgumentError: num_replicas or rank is missing, or rank is out of range.

    Example:
        >>> import fusewire as fw
        >>> [list(fw.utils.data.DistributedSampler(range(5), 2, rank, shuffle=False))
        ...  for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ArgumentError("DistributedSampler: num_replicas and rank must be given",
                                "there is no process group here to ask for them")
        if not 0 <= rank < num_replicas:
            raise ArgumentError(f"DistributedSampler: rank must be from 0 to {num_replicas - 1}, "
                                f"got {rank}")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass; each epoch has its own order."""
        self.epoch = epoch

    def _start(self) -> State:
        return {"epoch": self.epoch}

    def _size(self) -> int:
        return self.num_samples if self.shuffle else super()._size()

    def _block(self, start: State, number: int, count: int) -> Any:
        n = len(self.dataset)
        begin = number * self._size()
        at = (np.arange(begin, begin + count) * self.num_replicas + self.rank) % n
        if not self.shuffle:
            return at
        return randperm(n, Generator(self.seed + start["epoch"]))._data[at]
