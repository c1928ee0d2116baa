"""Data sets: samples by number, or one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError
from ...ops.random import Generator, randperm
from ...tensor import Tensor


class Dataset:
    """Base of data sets that give sample number i by data[i] and have a length."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")


class IterableDataset(Dataset):
    """Base of data sets that can only be gone through: they define __iter__."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class TensorDataset(Dataset):
    """Sample i is the tuple of element i along the first axis of each of `tensors`."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [t.shape[0] if t.ndim else None for t in tensors]
        if not sizes or None in sizes or len(set(sizes)) > 1:
            shapes = ", ".join(str(t.shape) for t in tensors) or "none"
            raise ShapeError("TensorDataset: needs tensors with as many elements along the first "
                             f"axis, got shapes {shapes}")
        self.tensors = tensors

    def __len__(self) -> int:
        return int(self.tensors[0].data.shape[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        # past the dispatcher: samples are data, also when a worker reads them in another thread
        return tuple([Tensor(np.asarray(t.data[index])) for t in self.tensors])

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples at `indices`, stacked: (len(indices), ...) for each of the tensors."""
        return list(self[np.asarray(indices, dtype=np.int64)])


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None
                 ) -> list[Subset]:
    """Subsets of `dataset`, disjoint and in random order, of the given lengths or fractions."""
    sizes = _sizes(lengths, len(dataset))
    order = randperm(len(dataset), generator).tolist()  # type: ignore[attr-defined]
    stops = np.cumsum(sizes).tolist()
    return [Subset(dataset, order[stop - n:stop]) for n, stop in zip(sizes, stops, strict=True)]


def _sizes(lengths: Sequence[float], total: int) -> list[int]:
    """`lengths` as counts; what fractions leave over by rounding goes to the first ones in turn."""
    if math.isclose(sum(lengths), 1) and all(0 <= n <= 1 for n in lengths) and total != 1:
        sizes = [math.floor(total * n) for n in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return sizes
    if sum(lengths) != total:
        raise ArgumentError(f"random_split: the lengths {list(lengths)} add up to {sum(lengths)}, "
                            f"the data set has {total} samples",
                            "fractions that add up to 1 work as well")
    return [int(n) for n in lengths]


def batch_reader(dataset: Any) -> Any:
    """A function that reads the samples at given indices at once, or None where there is none."""
    if type(dataset) is TensorDataset:
        return dataset.batch
    if type(dataset) is Subset:
        inner = batch_reader(dataset.dataset)
        numbers = dataset.indices
        return inner and (lambda indices: inner([numbers[i] for i in indices]))
    return None
