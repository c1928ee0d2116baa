"""Collates samples into batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...arrays import memory
from ...arrays.dtypes import DEFAULT_FLOAT, kind
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of `batch` as one: tensors, arrays and numbers stacked along a new first axis.

    It descends into dicts, tuples and lists: a list of tuples (x, y) gives [all x, all y]. Strings
    and bytes stay as they are. Python floats become float64, ints int64.

    Args:
        batch: a list of samples of one structure.

    Raises:
        ShapeError: samples of different shapes or lengths.
        DTypeError: samples of another type; pass `collate_fn` to the loader.

    Example:
        >>> import fusewire as fw
        >>> x, y = fw.utils.data.default_collate([(fw.ones(3), 0), (fw.ones(3), 1)])
        >>> x.shape, y.tolist()
        ((2, 3), [0, 1])
    """
    first = batch[0]
    if isinstance(first, (Tensor, np.ndarray)):
        return _stacked([x._data if isinstance(x, Tensor) else x for x in batch])
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (bool, int, float, np.generic)):
        return Tensor(_numbers(batch))
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([x[key] for x in batch]) for key in first})
    if isinstance(first, Sequence):
        return _columns(batch)
    raise _unfit(type(first).__name__)


def default_convert(data: Any) -> Any:
    """A sample with its arrays as tensors; other values stay as they are.

    Args:
        data: a sample; containers are converted element by element.

    Example:
        >>> import numpy as np, fusewire as fw
        >>> fw.utils.data.default_convert({"x": np.ones(2), "name": "a"})
        {'x': tensor([1., 1.], dtype=float64), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
        return Tensor(array) if _has_dtype(array) else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(x) for key, x in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        parts = list(map(default_convert, data))
        return parts if isinstance(data, tuple) else _like(data, parts)
    return data


def _unfit(what: str) -> DTypeError:
    return DTypeError(f"default_collate: cannot collate samples of {what}",
                      "samples are tensors, arrays, numbers, strings, or dicts and tuples of them; "
                      "for others pass collate_fn")


def _has_dtype(array: Any) -> bool:
    return kind(array.dtype) in "biufc"


def _numbers(batch: Sequence[Any]) -> Any:
    """An array of the numbers: float64 if the first is a Python float."""
    first = batch[0]
    array = np.asarray(batch, np.float64 if isinstance(first, float) else None)
    if not _has_dtype(array):
        raise _unfit(f"{type(first).__name__} and others")
    mixed = array.dtype == np.float64 and not isinstance(first, (float, np.generic))
    return array.astype(DEFAULT_FLOAT) if mixed else array


def _stacked(arrays: list[Any]) -> Tensor:
    shape = arrays[0].shape
    if len({a.shape for a in arrays}) > 1:
        shapes = sorted({a.shape for a in arrays})
        raise ShapeError(f"default_collate: samples of different shapes cannot be stacked: "
                         f"{', '.join(map(str, shapes[:4]))}",
                         "pad them to one shape, or pass collate_fn")
    joined = _joined(arrays, shape) if shape else np.array(arrays)
    if not _has_dtype(joined):
        raise _unfit(f"arrays of {joined.dtype}")
    return Tensor(joined.reshape(len(arrays), *shape))


def _joined(arrays: list[Any], shape: tuple[int, ...]) -> Any:
    """The arrays concatenated; np.stack takes three times as long for small ones."""
    first = arrays[0]
    if first.nbytes * len(arrays) < memory.SMALLEST or any(a.dtype != first.dtype for a in arrays):
        return np.concatenate(arrays)
    out = memory.empty((len(arrays) * shape[0], *shape[1:]), first.dtype)
    return np.concatenate(arrays, out=out)


def _columns(batch: Sequence[Any]) -> Any:
    first = batch[0]
    try:
        columns = list(zip(*batch, strict=True))
    except ValueError:
        lengths = sorted({len(x) for x in batch})
        raise ShapeError(f"default_collate: cannot collate samples of lengths {lengths}",
                         "every sample must have the length of the first") from None
    parts = [default_collate(column) for column in columns]
    if hasattr(first, "_fields"):
        return type(first)(*parts)
    return parts if isinstance(first, (tuple, list)) else _like(first, parts)


def _like(model: Any, parts: Any) -> Any:
    """`parts`, a dict or a list, in a container like `model`, if such a container can be built."""
    if type(model) is type(parts):
        return parts
    try:
        if isinstance(model, (MutableMapping, MutableSequence)):
            clone = copy.copy(model)  # a copy has the other attributes of such a type as well
            for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
                clone[key] = part
            return clone
        return type(model)(parts)  # type: ignore[call-arg]
    except TypeError:  # some types, such as range, cannot be built from items
        return parts
