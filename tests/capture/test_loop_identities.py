"""A loop carries which object a variable names: results are the objects that Python returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusewire as fw


def view_before_the_loop(x: fw.Tensor, n: int, k: fw.Tensor) -> Any:
    row, t = x[0], 0
    while row.sum() < n:
        row, t = row + fw.abs(k) + t, t + 1
    return x, row


def view_in_each_iteration(x: fw.Tensor, n: int, k: fw.Tensor) -> Any:
    y = x[:]
    for t in range(n):
        y = x if t % 2 else x[:]
    return y, x


def other_name_that_changes(x: fw.Tensor, n: int, k: fw.Tensor) -> Any:
    row, y = x[0], x
    for _ in range(n):
        if row.sum() > 0:
            y = x
        else:
            y = y * 0.5
        row = fw.sin(row + k) * 2
    return y, row, x


def changed_in_some_iterations(x: fw.Tensor, n: int, k: fw.Tensor) -> Any:
    t = 0
    while t < n:
        if t > 2:
            x += 1
        t += 1
    return x


FUNCTIONS = [view_before_the_loop, view_in_each_iteration, other_name_that_changes,
             changed_in_some_iterations]


def seen(function: Callable[..., Any], call: int, is_view: bool) -> tuple[list[int], list[Any]]:
    """The number of the object that each result is, and what all tensors hold after the results
    were changed, one after the other."""
    base = fw.tensor([[-0.3, 0.9], [0.2 * call, 0.1], [0.5, -1.0]])
    x, k = base[1:2] if is_view else base[1:2] * 1, fw.tensor([0.4, 0.7 - 0.2 * call])
    result = function(x, call * 5 % 9, k)
    tensors = [x, k, base, *(result if type(result) is tuple else (result,))]
    objects = [next(i for i, other in enumerate(tensors) if other is t) for t in tensors]
    for tensor in tensors:
        tensor *= 0.5
    return objects, [t.numpy().tolist() for t in tensors]


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_are_the_same_objects_as_in_plain_python(
        function: Callable[..., Any], is_view: bool) -> None:
    compiled = fw.compile(function)
    for call in range(16):
        objects, values = seen(compiled, call, is_view)
        expected, expected_values = seen(function, call, is_view)
        assert objects == expected
        for got, want in zip(values, expected_values):
            assert got == [pytest.approx(row, abs=1e-5) for row in want]
    assert compiled.stats.recordings < 16
