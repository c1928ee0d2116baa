"""Makes data sets of the library `datasets`, and others alike, fit for loaders."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.utils.data import Dataset, IterableDataset, get_worker_info


def from_huggingface(data: Any, columns: Sequence[str] | None = None
                     ) -> Dataset[Any] | IterableDataset[Any]:
    """The samples of a data set of `datasets`, with arrays and images as arrays of NumPy.

    A data set with a length and numbers stays one; another one is read in order, and each of
    several workers takes every n-th sample of its own copy, which pickle makes. The package
    `datasets` is not needed: any object with these methods works.

    Args:
        data: a `datasets.Dataset` or `datasets.IterableDataset`; not a dict of them.
        columns: keys of the samples to keep. Default None: all.

    Raises:
        DTypeError: `data` is neither, or a dict of splits.
        ArgumentError: a sample lacks a column.

    Example:
        >>> import fusewire as fw
        >>> data = fw.data.from_huggingface([{"x": [1, 2], "y": 0}, {"x": [3, 4], "y": 1}])
        >>> [batch["x"].tolist() for batch in fw.utils.data.DataLoader(data, 2)]
        [[[1, 2], [3, 4]]]
    """
    if isinstance(data, Mapping):
        raise fw.DTypeError(f"from_huggingface: this is a dict of data sets: {', '.join(data)}",
                            f"pass one of them: data[{next(iter(data), 'train')!r}]")
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return _Numbered(data, columns)
    if hasattr(data, "__iter__"):
        return _InOrder(data, columns)
    raise fw.DTypeError(f"from_huggingface: {type(data).__name__} has no samples",
                        "pass a datasets.Dataset or a datasets.IterableDataset")


class _Numbered(Dataset[Any]):
    def __init__(self, data: Any, columns: Sequence[str] | None) -> None:
        self.data, self.columns = data, columns

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return _sample(self.data[index], self.columns)


class _InOrder(IterableDataset[Any]):
    def __init__(self, data: Any, columns: Sequence[str] | None) -> None:
        self.data, self.columns = data, columns

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for sample in islice(iter(self.data), first, None, step):
            yield _sample(sample, self.columns)

    def __copy__(self) -> _InOrder:
        """The copy of a worker that is a thread: passes over one object would share its state."""
        return _InOrder(pickle.loads(pickle.dumps(self.data)), self.columns)


def _sample(sample: Mapping[str, Any], columns: Sequence[str] | None) -> dict[str, Any]:
    if missing := [name for name in columns or () if name not in sample]:
        raise fw.ArgumentError(f"from_huggingface: a sample lacks {', '.join(missing)}; it has "
                               f"{', '.join(sample)}", "correct columns=")
    return {name: _value(sample[name]) for name in columns or sample}


def _value(value: Any) -> Any:
    """Images and lists of numbers as arrays; other values as they are."""
    if hasattr(value, "__array_interface__") or (isinstance(value, list) and value
                                                 and not isinstance(value[0], (str, dict))):
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            return value
        return array if array.dtype.kind in "biuf" else value
    return value
