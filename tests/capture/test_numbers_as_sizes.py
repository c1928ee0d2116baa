"""A number that varies is the size of a tensor or the limit of a slice: one trace for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

Function = Callable[[fw.Tensor, int], fw.Tensor]
ROWS = 12


def written(x: fw.Tensor, n: int) -> fw.Tensor:
    y = x + 1
    y[:n] = 0.0
    y[n:n + 2] *= 3.0
    return y


def gradient(x: fw.Tensor, n: int) -> fw.Tensor:
    w = fw.ones(4, requires_grad=True)
    ((x[:n] * w).sum(axis=1) ** 2).sum().backward()
    return w.grad


def chosen(x: fw.Tensor, n: int) -> fw.Tensor:
    return x[:n].sum(axis=0) if n > 5 else x[n:].mean(axis=0)


def behind_a_loop(x: fw.Tensor, n: int) -> fw.Tensor:
    total, i = fw.zeros(4), 0
    while i < n:
        total = total * 0.5 + x[i % ROWS]
        i += 1
    return total + x[:i].sum(axis=0)


def over_a_slice(x: fw.Tensor, n: int) -> fw.Tensor:
    total = fw.zeros(4)
    for row in x[:n]:
        total = total * 0.5 + row
    return total


def windows(x: fw.Tensor, n: int) -> fw.Tensor:
    return fw.stack([x[i:i + n].sum(axis=0) for i in range(0, ROWS, 4)])


def attention(x: fw.Tensor, n: int) -> fw.Tensor:
    return fw.softmax(x[:1] @ x[:n].T, axis=-1) @ x[:n]


FUNCTIONS: dict[str, Function] = {
    "head": lambda x, n: x[:n] * 2,
    "last": lambda x, n: x[-n:].sum(axis=0),
    "window": lambda x, n: x[n // 2:n + 3].sum(axis=0),
    "every second": lambda x, n: x[:n:2] * 2,
    "square": lambda x, n: x[:n, :n] @ x[:n, :n].T,
    "rotated": lambda x, n: fw.concat([x[n:], x[:n]]),
    "rolled": lambda x, n: fw.roll(x, n, 0),
    "least": lambda x, n: x[:min(n, 5)].sum(axis=0),
    "new": lambda x, n: fw.full((n, 2), 0.5) + fw.zeros(n, 1),
    "counted": lambda x, n: fw.arange(1, 2 * n + 1, 2) * 3,
    "steps": lambda x, n: fw.linspace(0, 1, n + 1),
    "matrix": lambda x, n: fw.tril(fw.ones(n, n)) - fw.eye(n),
    "expanded": lambda x, n: fw.broadcast_to(x[0], (n, 4)).sum(axis=1),
    "expanded by a size that is no wildcard": lambda x, n: fw.broadcast_to(x[0, :1], (n,)) * 2,
    "repeated": lambda x, n: fw.repeat(x, n, axis=0).sum(axis=1),
    "padded": lambda x, n: fw.pad(x, ((n, 1), (0, 0))).sum(axis=1),
    "reshaped": lambda x, n: fw.zeros(n * 6).reshape(n, -1) + x[0, 0],
    "of a value": lambda x, n: x[:int((x[:, 0] * 0 + n).max().item())].sum(axis=0),
    **{f.__name__.replace("_", " "): f for f in (
        written, gradient, chosen, behind_a_loop, over_a_slice, windows, attention)},
}


def outcome(function: Function, x: fw.Tensor, n: int) -> Any:
    """The result as an array, or the class of the error."""
    try:
        return np.array(function(x, n).numpy())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_for_all_numbers(name: str) -> None:
    rng, function = np.random.default_rng(3), FUNCTIONS[name]
    compiled = fw.compile(function)
    for n in [4, 6, *rng.integers(-ROWS - 3, ROWS + 4, 20).tolist(), 0, 1, ROWS]:
        x = fw.asarray(rng.normal(size=(ROWS, 4)).astype(np.float32))
        got, want = outcome(compiled, x, n), outcome(function, x, n)
        if isinstance(want, type):
            assert got is want, n
        else:
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"n = {n}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_recordings_serve_numbers_within_bounds(name: str) -> None:
    compiled = fw.compile(FUNCTIONS[name])
    x = fw.rand(2 * ROWS, 4)
    for n in (7, 8, 9, 10, 6, 8):
        compiled(x, n)
    assert compiled.stats.recordings <= 2, compiled.explain()
    assert compiled.stats.fallbacks <= 1


def test_no_limit_of_a_slice_needs_memory() -> None:
    compiled = fw.compile(lambda x, n: x[:n] * 2)
    for n in (2, 3, 10**12, 2**62, 2**70):
        assert compiled(fw.ones(5), n).tolist() == [2.0] * min(n, 5)


def test_a_negative_size_is_the_error_of_eager() -> None:
    compiled = fw.compile(lambda n: fw.zeros(n, 2))
    for n in (2, 3, 4):
        compiled(n)
    with pytest.raises(fw.ShapeError, match="-3"):
        compiled(-3)


def test_loops_that_use_their_own_count_as_a_size_are_right() -> None:
    """Such a loop is unrolled: in each iteration the slice has another size."""
    def means(x: fw.Tensor, n: int) -> fw.Tensor:
        total = fw.zeros(4)
        for i in range(n):
            total = total + x[:i + 1].mean(axis=0)
        return total

    compiled = fw.compile(means)
    x = fw.rand(ROWS, 4)
    for n in (2, 3, 5, 4, 3, 7):
        np.testing.assert_allclose(compiled(x, n).numpy(), means(x, n).numpy(), rtol=1e-5)


def test_a_loop_over_a_number_is_one_native_call() -> None:
    def decayed(x: fw.Tensor, n: int, factor: float) -> fw.Tensor:
        total = fw.zeros(4)
        for i in range(n):
            total = total * factor + x[i]
        return total

    compiled = fw.compile(decayed)
    x = fw.rand(ROWS, 4)
    for n in (3, 5, 7, 4, 9):
        np.testing.assert_allclose(compiled(x, n, 0.1 * n).numpy(),
                                   decayed(x, n, 0.1 * n).numpy(), rtol=1e-5)
    assert compiled.stats.recordings == 2
    assert "runs in Python" not in str(compiled.explain())


def test_a_number_that_merged_paths_assign_is_a_size() -> None:
    """The question whether it is negative is no merge point: the number is an operand then."""
    def f(x: fw.Tensor, v: fw.Tensor, n: int) -> Any:
        for _ in x:
            i = 0
            while i < 3 and v[0] < 0.5:
                i += 1
                n = 2
        total = fw.zeros(())
        for one in fw.ones(n):
            total = total + one
        return n, total

    compiled = fw.compile(f)
    for v, n in ((0.2, 4), (0.3, 3), (0.7, 5), (0.1, 3), (0.9, 3)):
        x = fw.ones(4, 3)
        assert str(compiled(x, fw.tensor([v]), n)) == str(f(x, fw.tensor([v]), n))
