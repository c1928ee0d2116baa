"""Samples put together to batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...dtypes import DEFAULT_FLOAT, DEFAULT_INT
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of `batch` as one: tensors, arrays and numbers stacked along a new first axis.

    Dicts, tuples and lists are gone into: a list of tuples (x, y) gives [all x, all y]. Strings and
    bytes stay a list. Floats become float32, ints int64.
    """
    first = batch[0]
    if isinstance(first, (Tensor, np.ndarray, np.generic)):
        return _stacked([x.data if isinstance(x, Tensor) else np.asarray(x) for x in batch])
    if isinstance(first, (bool, int, float)):
        return Tensor(np.asarray(batch, dtype=_dtype_of(batch)))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([x[key] for x in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        return _columns(batch)
    raise DTypeError(f"default_collate: cannot put samples of {type(first).__name__} together",
                     "samples are tensors, arrays, numbers, strings, or dicts and tuples of them; "
                     "for others pass collate_fn")


def default_convert(sample: Any) -> Any:
    """One sample as it is, with its arrays as tensors."""
    if isinstance(sample, (np.ndarray, np.generic)):
        return Tensor(np.asarray(sample))
    if isinstance(sample, Mapping):
        return {key: default_convert(x) for key, x in sample.items()}
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*map(default_convert, sample))
    return list(map(default_convert, sample)) if isinstance(sample, (tuple, list)) else sample


def _dtype_of(numbers: Sequence[Any]) -> Any:
    if isinstance(numbers[0], bool):
        return np.dtype(bool)
    return DEFAULT_FLOAT if any(isinstance(x, float) for x in numbers) else DEFAULT_INT


def _stacked(arrays: list[Any]) -> Tensor:
    shapes = sorted({a.shape for a in arrays})
    if len(shapes) > 1:
        raise ShapeError(f"default_collate: samples of different shapes cannot be stacked: "
                         f"{', '.join(map(str, shapes[:4]))}",
                         "pad them to one shape, or pass collate_fn")
    return Tensor(np.stack(arrays))


def _columns(batch: Sequence[Any]) -> Any:
    first = batch[0]
    lengths = sorted({len(x) for x in batch})
    if len(lengths) > 1:
        raise ShapeError(f"default_collate: samples with {lengths} parts cannot be put together",
                         "every sample must have as many parts as the first")
    columns = [default_collate(part) for part in zip(*batch, strict=True)]
    return type(first)(*columns) if hasattr(first, "_fields") else columns
