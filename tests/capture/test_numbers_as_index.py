"""A number that varies is an index: one trace reads and writes all elements, and makes views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

Function = Callable[..., Any]


def element(x: fw.Tensor, i: int, j: int) -> Any:
    return x[i, j] * 2


def row_and_column(x: fw.Tensor, i: int, j: int) -> Any:
    return x[i] + x[:, j]


def not_adjacent(x: fw.Tensor, i: int, j: int) -> Any:
    return x[None, i, None, j] + x[..., j][i]


def beside_a_mask(x: fw.Tensor, i: int, j: int) -> Any:
    return x[x[:, 0] > 0, j].sum() + x[[0, 1], i]


def of_values(x: fw.Tensor, i: int, j: int) -> Any:
    best = x[:, i].argmax().item()
    return x[best, j], x[int(x[j].argmin())]


def assigned(x: fw.Tensor, i: int, j: int) -> Any:
    x[i, j] = 5.0
    x[j] += x[i]


def swapped(x: fw.Tensor, i: int, j: int) -> Any:
    x[i], x[j] = fw.asarray(x[j], copy=True), fw.asarray(x[i], copy=True)


def view_written_in_the_call(x: fw.Tensor, i: int, j: int) -> Any:
    row = x[i]
    x[j] = -1.0
    row *= 2
    return row + 1


def view(x: fw.Tensor, i: int, j: int) -> Any:
    return x[i]


def view_of_a_view(x: fw.Tensor, i: int, j: int) -> Any:
    return x[:, j][i]


def view_at_a_tensor(x: fw.Tensor, i: int, j: int) -> Any:
    return x[fw.asarray(i) + 0]


def view_behind_a_loop(x: fw.Tensor, i: int, j: int) -> Any:
    n = 0
    while n < i:
        n += 1
    return x[n]


def views_that_may_overlap(x: fw.Tensor, i: int, j: int) -> Any:
    y = x * 2
    return y[i], y[j]


FUNCTIONS = [element, row_and_column, not_adjacent, beside_a_mask, of_values, assigned, swapped,
             view_written_in_the_call, view, view_of_a_view, view_at_a_tensor, view_behind_a_loop,
             views_that_may_overlap]


def outcome(function: Function, x: fw.Tensor, i: int, j: int) -> list[Any]:
    """The results and the argument after the call, and after a write to the first result."""
    results = function(x, i, j)
    results = list(results) if isinstance(results, tuple) else [results] * (results is not None)
    before = [np.array(t.numpy()) for t in (*results, x)]
    for first in results[:1]:
        first += 100
    return [*before, *(np.array(t.numpy()) for t in (*results, x))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_trace_serves_all_indices(function: Function) -> None:
    rng, compiled = np.random.default_rng(5), fw.compile(function, fullgraph=True)
    for i, j in [(0, 1), (1, 2), (3, 0), (2, 2), (-1, 3), (0, -4), (1, 1), (-2, -3)]:
        array = rng.normal(size=(4, 4)).astype(np.float32)
        got = outcome(compiled, fw.tensor(array), i, j)
        want = outcome(function, fw.tensor(array), i, j)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert compiled.stats.recordings <= 4  # the first numbers are guarded


def test_gradients_go_to_the_row_of_the_call() -> None:
    table = fw.rand(5, 3, requires_grad=True)

    @fw.compile
    def step(i: int) -> Any:
        table.grad = None
        (table[i] ** 2).sum().backward()
        return table.grad

    for i in (0, 3, 1, 4, -1):
        want = np.zeros((5, 3), np.float32)
        want[i] = 2 * table.numpy()[i]
        np.testing.assert_allclose(step(i).numpy(), want, rtol=1e-6)
    assert step.stats.recordings == 2


def test_an_index_out_of_range_raises_the_error_of_eager_and_changes_nothing() -> None:
    def f(x: fw.Tensor, total: fw.Tensor, i: int) -> Any:
        total += 1
        return x[:, i]

    compiled, x, total = fw.compile(f), fw.rand(2, 3), fw.zeros(())
    for i in (0, 1, 2):
        compiled(x, total, i)
    with pytest.raises(IndexError, match="index 3 is out of range for axis 1 of shape"):
        compiled(x, total, 3)
    assert total.item() == 4  # Python ran the call up to the error


def test_checked_indices_leave_the_control_flow_native() -> None:
    """A native call checks the indices, and leaves a call with a bad one to Python."""
    @fw.compile
    def walk(links: fw.Tensor, n: int) -> Any:
        at = fw.asarray(0)
        for _ in range(n):
            at = links[at]
            if at.item() == 3:
                break
        return at

    for links in ([1, 2, 3, 0], [2, 0, 3, 0], [3, 0, 0, 0], [1, 2, 3, 0], [2, 0, 3, 0]):
        assert walk(fw.tensor(links), 3).item() == 3
    assert "runs in Python" not in walk.explain()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        walk(fw.tensor([1, 9, 0, 0]), 3)


def test_several_views_of_an_argument_that_is_a_view_itself() -> None:
    """Its root is out of reach, and is not needed: the argument is the base of the results."""
    compiled = fw.compile(lambda x: (x[:2], x[1:], x.reshape(-1)), fullgraph=True)
    for _ in range(3):
        root = fw.zeros(4, 3)
        first, rest, flat = compiled(root[:, :])
        first += 1
        rest += 10
        assert root.tolist() == [[1.0] * 3, [11.0] * 3, [10.0] * 3, [10.0] * 3]
        assert flat.tolist() == root.reshape(-1).tolist()
    assert compiled.stats.recordings == 1
