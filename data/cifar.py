"""Reads the binary files of CIFAR-10 and CIFAR-100.

The versions for Python are pickles, which can run code, so they are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fusewire as fw
from fusewire.utils.data import TensorDataset

from .files import FileError, StrPath, damaged, existing, read_bytes

_PIXELS = 3 * 32 * 32


def cifar10(folder: StrPath, train: bool = True) -> TensorDataset:
    """The images (n, 3, 32, 32) of uint8 and classes (n,) of int64 of CIFAR-10.

    Args:
        folder: has data_batch_1.bin to data_batch_5.bin and test_batch.bin, or is the folder above.
        train: the five files of the training set, or the test set. Default True.

    Raises:
        FileError: a file is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> images, classes = fw.data.cifar10("cifar-10-batches-bin")[0]  # doctest: +SKIP
    """
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    rows = _rows(folder, "cifar-10-batches-bin", names, labels=1)
    return _data_set(rows, 1, 0)


def cifar100(folder: StrPath, train: bool = True, coarse: bool = False) -> TensorDataset:
    """The images (n, 3, 32, 32) of uint8 and classes (n,) of int64 of CIFAR-100.

    Args:
        folder: has train.bin and test.bin, or is the folder above.
        train: the training set, or the test set. Default True.
        coarse: the 20 groups instead of the 100 classes. Default False.

    Raises:
        FileError: a file is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> images, classes = fw.data.cifar100("cifar-100-binary")[0]  # doctest: +SKIP
    """
    rows = _rows(folder, "cifar-100-binary", ["train.bin" if train else "test.bin"], labels=2)
    return _data_set(rows, 2, 0 if coarse else 1)


def _rows(folder: StrPath, usual: str, names: Sequence[str], labels: int) -> np.ndarray:
    """The records of files, each with its labels and the pixels: (n, labels + pixels)."""
    place = existing(folder)
    place = place / usual if (place / usual).exists() else place
    return np.concatenate([_records(place, name, labels + _PIXELS) for name in names])


def _records(place: Path, name: str, size: int) -> np.ndarray:
    file = place / name
    pickled = place / name.removesuffix(".bin")
    if not file.exists() and pickled.exists():
        raise FileError(f"{pickled} is a pickle, which can run code; {file} does not exist",
                        "the data set is published as a binary version too")
    data = read_bytes(file)
    if not data or len(data) % size:
        raise damaged(file, f"{len(data)} bytes are no whole number of records of {size} bytes")
    return np.frombuffer(data, np.uint8).reshape(-1, size)


def _data_set(rows: np.ndarray, labels: int, chosen: int) -> TensorDataset:
    images = np.ascontiguousarray(rows[:, labels:]).reshape(-1, 3, 32, 32)
    return TensorDataset(fw.asarray(images), fw.asarray(rows[:, chosen].astype(np.int64)))
