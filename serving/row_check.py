"""Tests that each row of a batch is computed from that row alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fusewire as fw

from .base.data_types import Array

_TOLERANCE = {2: 0.05, 4: 1e-3, 8: 1e-6}  # bytes of a float -> error relative to the largest number


def vary(arrays: Sequence[Array], rows: int, seed: int) -> list[Array]:
    """Inputs of `rows` rows made from an example, different for each seed.

    Floats get noise of their own size. Integers change places within their row, as other ones might
    be out of range; if all are equal, they become 0 and 1.

    Args:
        arrays: the inputs of the example, (n, ...) each.
        rows: how many rows. 0 returns the example.
        seed: of the changes.
    """
    if not rows:
        return list(arrays)
    numbers = np.random.default_rng(seed)
    return [np.ascontiguousarray(_changed(array[np.arange(rows) % len(array)], numbers))
            for array in arrays]


def _changed(array: Array, numbers: np.random.Generator) -> Array:
    if array.dtype.kind not in "biu":
        values = array.astype(np.float64)
        noise = numbers.standard_normal(array.shape) * (values.std() or 1.0)
        return (values + noise).astype(array.dtype)
    if not array.size or array.min() == array.max():
        return numbers.integers(0, 2, array.shape).astype(array.dtype)
    return numbers.permuted(array.reshape(len(array), -1), axis=1).reshape(array.shape)


def check(call: Callable[[Sequence[Array]], list[Array]], buckets: Sequence[int],
          inputs: Sequence[Sequence[Array]]) -> None:
    """Raises ArgumentError if the result of a row depends on other rows, or on their number.

    Row 0 is computed beside two different sets of rows, which must not change a bit of it; and
    alone, which may change its rounding.

    Args:
        call: the function of a batch.
        buckets: the batch sizes.
        inputs: three sets of inputs, with as many rows as the largest bucket.
    """
    rows = next((n for n in buckets if n > 1), None)
    if rows is None:
        return
    first, *others = inputs
    beside = [call([_joined(a, b, rows) for a, b in zip(first, other)]) for other in others]
    for one, two in zip(*beside):
        if one[0].tobytes() != two[0].tobytes():
            raise fw.ArgumentError("row 0 of a batch changes when the other rows do, or from call "
                                   "to call",
                                   "serve it with max_batch=0, or make each row depend on itself "
                                   "only: no random numbers, and nothing along the first axis")
    if buckets[0] == 1:
        alone = call([array[:1] for array in first])
        for one, two in zip(alone, beside[0]):
            if not _is_close(one[0], two[0]):
                raise fw.ArgumentError(f"row 0 alone and in a batch of {rows} differ",
                                       "serve it with max_batch=0, or make each row depend on "
                                       "itself only, not on the number of rows")


def _joined(first: Array, others: Array, rows: int) -> Array:
    """Row 0 of one array above further rows of another one."""
    return np.concatenate([first[:1], others[1:rows]])


def _is_close(one: Any, two: Any) -> bool:
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, two))
    tolerance = _TOLERANCE[min(one.dtype.itemsize, 8)]
    one, two = one.astype(np.float64), two.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], two[~finite], equal_nan=True):
        return False
    one, two = one[finite], two[finite]
    return not one.size or float(abs(one - two).max()) <= tolerance * float(abs(one).max())
