"""Provides a metric of samples that come at once, in batches, and in several processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.metrics import Metric


def value_of(make: Callable[[], Metric], *columns: Any) -> Any:
    """The metric of all samples, after a check that batches and merged metrics give the same.

    Args:
        make: makes the metric.
        columns: arrays or lists of equal length: the arguments of `update`.
    """
    whole = make()
    whole.update(*map(_batch, columns))
    value = _numbers(whole.compute())
    for parts in _in_parts(len(columns[0])):
        same(_numbers(_in_batches(make, columns, parts).compute()), value)
        same(_numbers(_merged(make, columns, parts).compute()), value)
    return value


def same(actual: Any, expected: Any) -> None:
    """Asserts that numbers, or dicts of numbers, are equal but for rounding in float64."""
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        actual, expected = list(actual.values()), list(expected.values())
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)


def _in_parts(count: int) -> list[list[slice]]:
    """Unequal parts: one sample and the rest, and three parts of which one is empty."""
    third = max(1, count // 3)
    return [[slice(0, 1), slice(1, count)],
            [slice(0, third), slice(third, third), slice(third, count)]]


def _in_batches(make: Callable[[], Metric], columns: Any, parts: list[slice]) -> Metric:
    metric = make()
    for part in parts:
        metric.update(*(_batch(column[part]) for column in columns))
    return metric


def _merged(make: Callable[[], Metric], columns: Any, parts: list[slice]) -> Metric:
    """A metric for each part, of which all but the first went through a pickle or a checkpoint."""
    first, *others = [_in_batches(make, columns, [part]) for part in parts]
    restored = make()
    restored.load_state_dict(others.pop().state_dict())
    first.merge(restored, *pickle.loads(pickle.dumps(others)))
    return first


def _batch(column: Any) -> Any:
    return fw.asarray(column) if isinstance(column, np.ndarray) else column


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(part) for name, part in value.items()}
    return value.numpy()
