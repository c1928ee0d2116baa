"""Defines data sets: samples by index, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, IndexingError, ShapeError
from ...ops.random.generator import Generator, default_generator, randperm

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base class of data sets with samples by index: define `__getitem__` and `__len__`.

    A data set with `__getitems__(indices)` returns the list of samples of a batch at once. `a + b`
    is a ConcatDataset.

    Example:
        >>> import fusewire as fw
        >>> class Squares(fw.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index * index
        >>> [batch.tolist() for batch in fw.utils.data.DataLoader(Squares(), batch_size=2)]
        [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Base class of data sets without index: define `__iter__`.

    In a worker, `get_worker_info()` tells which share of the samples to yield. `a + b` is a
    ChainDataset.

    Example:
        >>> import fusewire as fw
        >>> class Countdown(fw.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([3, 2, 1])
        >>> [batch.tolist() for batch in fw.utils.data.DataLoader(Countdown(), batch_size=2)]
        [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A data set whose sample i is a tuple of element i of each tensor.

    Args:
        tensors: one or more, with equal first axes; the first axis counts samples.

    Raises:
        ShapeError: no tensors, a 0-d tensor, or first axes of different sizes.
        IndexError: an index out of range.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.TensorDataset(fw.arange(3), fw.ones((3, 2)))
        >>> len(data), data[1]
        (3, (tensor(1), tensor([1., 1.])))
    """

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tuple([as_tensor("TensorDataset", t) for t in tensors])
        sizes = [t.shape[0] if t.ndim else None for t in self.tensors]
        if not sizes or None in sizes or len(set(sizes)) > 1:
            shapes = ", ".join(str(t.shape) for t in self.tensors) or "none"
            raise ShapeError("TensorDataset: needs tensors with as many elements along the first "
                             f"axis, got shapes {shapes}")

    def __len__(self) -> int:
        return int(self.tensors[0]._data.shape[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        # bypasses the dispatcher: samples are plain data, also in the thread of a worker
        arrays = [t._data[index] for t in self.tensors]
        return tuple([Tensor(np.asarray(x) if isinstance(x, np.generic) else x) for x in arrays])

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples at `indices`, stacked: (len(indices), ...) for each of the tensors."""
        return list(self[np.asarray(indices, dtype=np.int64)])


class StackDataset(Dataset[Any]):
    """A data set whose sample i is a tuple, or a dict, of sample i of several data sets.

    Args:
        args: data sets of equal length; samples are tuples.
        kwargs: data sets of equal length, instead of `args`; samples are dicts.

    Raises:
        ArgumentError: data sets by position and by name, or none.
        ShapeError: different lengths.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.StackDataset(x=[1, 2, 3], y="abc")
        >>> data[1]
        {'x': 2, 'y': 'b'}
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError("StackDataset: takes data sets either by position (samples are "
                                "tuples) or by name (samples are dicts), and at least one")
        self.datasets: Any = args or kwargs
        lengths = [len(d) for d in self._parts()]  # type: ignore[arg-type]
        if len(set(lengths)) > 1:
            raise ShapeError(f"StackDataset: the data sets have different lengths: {lengths}",
                             "Subset cuts one to the length of another")

    def _parts(self) -> list[Dataset[Any]]:
        named = isinstance(self.datasets, dict)
        return list(self.datasets.values() if named else self.datasets)

    def _joined(self, parts: Iterable[Any]) -> Any:
        named = isinstance(self.datasets, dict)
        return dict(zip(self.datasets, parts)) if named else tuple(parts)

    def __len__(self) -> int:
        return len(self._parts()[0])  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self._joined([d[index] for d in self._parts()])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at `indices`."""
        return [self._joined(s) for s in zip(*[samples_at(d, indices) for d in self._parts()])]


class ConcatDataset(Dataset[_T_co]):
    """The samples of several data sets, one data set after the other, by index.

    Args:
        datasets: one or more, each with a length.

    Raises:
        ArgumentError: no data sets.
        DTypeError: an IterableDataset among them.
        IndexingError: an index out of range.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.ConcatDataset([[1, 2], [3]])
        >>> len(data), data[2]
        (3, 3)
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset: needs at least one data set")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DTypeError("ConcatDataset: an IterableDataset has no samples by number",
                             "ChainDataset puts such data sets one behind the other")
        sizes = [len(d) for d in self.datasets]  # type: ignore[arg-type]
        self.cumulative_sizes = list(itertools.accumulate(sizes))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> _T_co:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexingError(f"ConcatDataset: there is no sample {index}, it has {len(self)}")
        dataset_index = bisect.bisect_right(self.cumulative_sizes, position)
        start = self.cumulative_sizes[dataset_index - 1] if dataset_index else 0
        return self.datasets[dataset_index][position - start]


class ChainDataset(IterableDataset[Any]):
    """The samples of several IterableDatasets, one data set after the other.

    Args:
        datasets: an iterable of IterableDatasets.

    Raises:
        DTypeError: during iteration, at an element that is not an IterableDataset.

    Example:
        >>> import fusewire as fw
        >>> class Letters(fw.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter("ab")
        >>> list(fw.utils.data.ChainDataset([Letters(), Letters()]))
        ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DTypeError(f"ChainDataset: {type(dataset).__name__} is no IterableDataset",
                                 "ConcatDataset joins data sets with samples by number")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(map(len, self._checked()))


class Subset(Dataset[_T_co]):
    """The samples of `dataset` at `indices`.

    Args:
        dataset: a data set with samples by index.
        indices: indices into `dataset`, in the order of the subset.

    Example:
        >>> import fusewire as fw
        >>> data = fw.utils.data.Subset("abcd", [3, 0])
        >>> len(data), data[0]
        (2, 'd')
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples at `indices`."""
        if type(self).__getitem__ is not Subset.__getitem__:  # a subclass may override it
            return [self[i] for i in indices]
        return samples_at(self.dataset, [self.indices[i] for i in indices])


def random_split(dataset: Dataset[_T_co], lengths: Sequence[float],
                 generator: Generator | None = default_generator) -> list[Subset[_T_co]]:
    """Disjoint random subsets of `dataset`.

    Args:
        dataset: a data set with a length.
        lengths: sizes of the subsets that add up to len(dataset), or fractions that add up to 1;
            fractions are rounded down, and the first subsets get the rest, one sample each.
        generator: source of the order. Default: the default generator.

    Raises:
        ArgumentError: lengths do not add up, or a fraction is outside of [0, 1].

    Example:
        >>> import fusewire as fw
        >>> parts = fw.utils.data.random_split(range(10), [0.75, 0.25], fw.Generator(0))
        >>> [len(part) for part in parts]
        [8, 2]
    """
    sizes = _sizes(lengths, len(dataset))  # type: ignore[arg-type]
    shuffled = randperm(len(dataset), generator).tolist()  # type: ignore[arg-type]
    stops = itertools.accumulate(sizes)
    return [Subset(dataset, shuffled[stop - n:stop]) for n, stop in zip(sizes, stops)]


def _sizes(lengths: Sequence[float], total: int) -> list[int]:
    """`lengths` as sizes; samples left over by rounding go to the first sizes, one each."""
    if math.isclose(sum(lengths), 1):
        if not all(0 <= n <= 1 for n in lengths):
            raise ArgumentError(f"random_split: a fraction is from 0 to 1, got {list(lengths)}")
        sizes = [math.floor(total * n) for n in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return sizes
    if sum(lengths) != total:
        raise ArgumentError(f"random_split: the lengths {list(lengths)} add up to {sum(lengths)}, "
                            f"the data set has {total} samples",
                            "fractions that add up to 1 work as well")
    return [int(n) for n in lengths]


def samples_at(dataset: Any, indices: Sequence[int]) -> Sequence[Any]:
    """The samples at `indices`, by `__getitems__` if there is one."""
    at_once = getattr(dataset, "__getitems__", None)
    if at_once is None:
        return [dataset[i] for i in indices]
    samples = at_once(indices)
    if len(samples) != len(indices):
        raise ShapeError(f"{type(dataset).__name__}.__getitems__: gave {len(samples)} samples for "
                         f"{len(indices)} numbers")
    return samples  # type: ignore[no-any-return]


def batch_reader(dataset: Any) -> Any:
    """A function that reads and stacks samples at indices; None if there is no fast path."""
    if type(dataset) is TensorDataset:
        return dataset.batch
    if type(dataset) is Subset:
        inner = batch_reader(dataset.dataset)
        numbers = dataset.indices
        return inner and (lambda indices: inner([numbers[i] for i in indices]))
    return None
