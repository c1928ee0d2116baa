"""Loops over dynamic sizes: one program runs any number of iterations.

A first call is traced with its sizes as numbers. The second one is traced with dynamic sizes, and
its loops become loops of the program. An axis of size 1 has a trace of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from agreement import assert_equal

import fusewire as fw
from fusewire import nn

fw.manual_seed(3)
CELL = nn.RNNCell(3, 4)
LOOPS: dict[str, tuple[Callable[..., Any], int]] = {}  # functions, most recordings of each


def loop(recordings: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        LOOPS[function.__name__] = function, recordings
        return function
    return add


# ---- recurrent networks over sequences of any length
@loop(3)
def rows(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(4)
    for row in x:
        h = CELL(row, h)
    return h


@loop(3)
def range_of_a_size(x: fw.Tensor) -> fw.Tensor:
    h = fw.zeros(4)
    for t in range(x.shape[0]):
        h = CELL(x[t], h)
    return h


@loop(3)
def range_of_len(x: fw.Tensor) -> Any:
    h = fw.zeros(4)
    for t in range(len(x)):
        h = CELL(x[t], h) * (t + 1)
    return h, t


@loop(3)
def while_below_a_size(x: fw.Tensor) -> Any:
    h, t = fw.zeros(4), 0
    while t < x.shape[0]:
        h = CELL(x[t], h)
        t += 1
    return h, t


@loop(3)
def backwards(x: fw.Tensor) -> fw.Tensor:
    h, t = fw.zeros(4), x.shape[0] - 1
    while t >= 0:
        h = CELL(x[t], h)
        t -= 1
    return h


# ---- other iterators, and ways out of a loop
@loop(3)
def enumerate_(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for i, row in enumerate(x):
        total = total + row * i
    return total


@loop(3)
def zip_(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for a, b in zip(x, x * 2):
        total = fw.tanh(total + a * b)
    return total


@loop(3)
def rows_backwards(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for row in reversed(x):
        total = fw.tanh(total * 0.5 + row)
    return total


@loop(3)
def numbers_backwards(x: fw.Tensor) -> Any:
    total = fw.zeros(3)
    for t in reversed(range(x.shape[0])):
        total = total * 0.5 + x[t] * t
    return total


@loop(5)  # sizes of 1 to 4 skip some of the loops
def steps_backwards(x: fw.Tensor) -> Any:
    total, n = fw.zeros(3), len(x)
    for t in reversed(range(1, n, 3)):
        total = total * 0.5 + x[t] * t
    for t in reversed(range(n - 1, -1, -2)):
        total = total * 0.5 + x[t]
    return total


@loop(3)
def steps_of_two(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for i in range(1, x.shape[0], 2):
        total = total + x[i]
    return total


@loop(4)
def break_on_a_value(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(())
    for row in x:
        total = total + row.sum()
        if total > 4.0:
            break
    return total


@loop(5)  # a single row takes one of two paths, each with a recording
def continue_on_a_value(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(())
    for row in x:
        if row.sum() < 1.5:
            continue
        total = total + row.max()
    return total


@loop(4)
def nested(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(())
    for row in x:
        for t in range(x.shape[0]):
            total = fw.tanh(total + row.sum() * x[t, 0])
    return total


@loop(3)
def inside_of_a_plain_loop(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for _ in [1, 2, 3]:
        for row in x:
            total = fw.tanh(total + row)
    return total


@loop(5)  # a mask may select one of one row, or of two
def rows_that_a_mask_selects(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(3)
    for row in x[x[:, 0] > 0.5]:
        total = fw.tanh(total + row)
    return total


def sequences(seed: int, count: int = 20) -> list[fw.Tensor]:
    """Tensors of 1 to 9 rows."""
    rng = random.Random(seed)
    return [fw.tensor([[rng.random() for _ in range(3)] for _ in range(rng.randint(1, 9))])
            for _ in range(count)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", LOOPS)
def test_one_program_for_any_number_of_iterations(name: str, seed: int) -> None:
    function, recordings = LOOPS[name]
    compiled = fw.compile(function)
    with fw.no_grad():
        for x in sequences(seed):
            assert_equal(compiled(x), function(x), f"{x}")
    assert compiled.stats.recordings <= recordings and compiled.stats.fallbacks == 0


def test_a_count_that_is_an_argument() -> None:
    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        for i in range(n):
            x = fw.tanh(x + i)
        return x

    compiled = fw.compile(f)
    for n in (3, 5, 0, 1, 8, 2, 0, 13, 4):
        assert_equal(compiled(fw.ones(3), n), f(fw.ones(3), n), f"{n}")
    assert compiled.stats.recordings <= 3 and compiled.stats.fallbacks == 0


def test_a_size_of_0_fits_no_trace_that_has_divided_by_it() -> None:
    """The guards of the trace with `%` compute the remainder before another one tells that n is 0.
    """
    def f(x: fw.Tensor) -> fw.Tensor:
        total, t = fw.zeros(3), 1
        while t < len(x) - 1 and x[0].sum() < 9.0:
            total = total + x[t % len(x)]
            t += 1
        return total

    compiled = fw.compile(f)
    for n in (3, 4, 0, 5, 1, 0, 2, 7):
        x = fw.arange(3.0 * n).reshape(n, 3)
        assert_equal(compiled(x), f(x), f"{n}")


# ---- gradients
def step(cell: nn.RNNCell, x: fw.Tensor) -> Any:
    cell.zero_grad()
    h = fw.zeros(4)
    for row in x:
        h = cell(row, h)
    loss = (h * h).sum()
    loss.backward()
    return loss, [p.grad for p in cell.parameters()]


def test_training_on_sequences_of_any_length() -> None:
    compiled = fw.compile(step)
    for x in sequences(5):
        assert_equal(compiled(CELL, x), step(CELL, x), f"{x}")
    assert compiled.stats.recordings <= 4 and compiled.stats.fallbacks <= 1


def test_gradients_from_outside() -> None:
    compiled = fw.compile(rows)
    for x in sequences(6):
        grads = []
        for function in (compiled, rows):
            CELL.zero_grad()
            function(x).sum().backward()
            grads.append([p.grad for p in CELL.parameters()])
        assert_equal(*grads, f"{x}")


# ---- loops that cannot be rolled
def test_a_list_that_is_returned_has_a_path_for_each_length() -> None:
    def f(x: fw.Tensor) -> Any:
        out = []
        for row in x:
            out.append(fw.tanh(row))
        return out

    compiled = fw.compile(f)
    for x in sequences(7):
        assert_equal(compiled(x), f(x), f"{x}")
    assert compiled.stats.recordings <= 10 and compiled.stats.fallbacks <= 1


def test_a_refused_loop_is_unrolled_in_the_next_trace() -> None:
    """A list holds values of earlier iterations, which a rolled loop does not keep."""
    def f(x: fw.Tensor) -> fw.Tensor:
        last = [x[0]]
        for row in x:
            last[0], before = row, last[0]
            x = x + before.sum()
        return x.sum() + last[0].sum()

    compiled = fw.compile(f)
    for x in sequences(8):
        assert_equal(compiled(x), f(x), f"{x}")
    assert not compiled.refusals and compiled.stats.replays > 5


def test_the_types_of_builtins_stay() -> None:
    def f(x: fw.Tensor) -> Any:
        for i in range(x.shape[0]):
            x = x + i
        n = x.shape[0]
        return x, isinstance(range(3), range), list(range(2)), [n for n in range(2)], n

    compiled = fw.compile(f)
    for x in sequences(9, 8):
        assert_equal(compiled(x), f(x), f"{x}")


def test_a_loop_that_one_path_of_a_branch_has_begun_ends_at_the_merge() -> None:
    """A data-dependent size ends the loops around it, so the number of open loops does not tell
    which of them are around the branch. The verifier finds a loop that continues behind it."""
    def f(x: fw.Tensor, v: fw.Tensor) -> fw.Tensor:
        i = 0
        while i < x.shape[0]:
            v = x.sum(0) + x[i]
            i += 1
            for _ in range(1, x.shape[0], 2):
                continue
            j = 0
            while j < x.shape[0]:
                v = x.sum(0) + x[j]
                j += 1
                k = 0
                while k < x.shape[0]:
                    w = v + x[k]
                    k += 1
                    v = w
                    w[v > -1.0].sum()
                for _ in range(len(x)):
                    v = fw.concat([x, x]).sum(0)
        return v

    compiled, draw = fw.compile(f), random.Random(0)
    for n in (7, 7, 1, 5, 5, 5, 1, 2, 3, 2, 6):
        x = fw.tensor([[draw.uniform(-2, 2) for _ in range(3)] for _ in range(n)])
        v = fw.tensor([draw.uniform(-2, 2) for _ in range(3)])
        assert_equal(compiled(x, v), f(x, v), f"{x}")
