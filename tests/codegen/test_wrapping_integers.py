"""Integers wrap in compiled code as in NumPy, also where a comparison seems to be decided."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
Expression = Callable[[Any, Any], Any]


def edges(dtype: str, draw: random.Random) -> fw.Tensor:
    """The ends of a dtype's range, their neighbours, and other numbers."""
    info = np.iinfo(dtype)
    near = [info.max, info.max - 1, info.min, info.min + 1, 0, 1, 2, info.max // 2]
    others = [draw.randint(int(info.min), int(info.max)) for _ in range(15)]
    values = [*near, *others, *near, *near]
    draw.shuffle(values)
    return fw.from_numpy(np.array(values, dtype))


def formula(draw: random.Random, depth: int) -> Expression:
    """A random function of two tensors."""
    if depth == 0:
        return draw.choice([lambda x, y: x, lambda x, y: y])
    f, g = formula(draw, depth - 1), formula(draw, draw.randrange(depth))
    constant = draw.choice([1, 2, 3, 7, 100])
    return draw.choice([
        lambda x, y: f(x, y) + g(x, y), lambda x, y: f(x, y) - g(x, y),
        lambda x, y: f(x, y) + constant, lambda x, y: f(x, y) - constant,
        lambda x, y: f(x, y) * constant, lambda x, y: f(x, y) * g(x, y),
        lambda x, y: fw.maximum(f(x, y), g(x, y)), lambda x, y: fw.minimum(f(x, y), g(x, y)),
        lambda x, y: fw.where(f(x, y) < g(x, y), f(x, y), g(x, y))])


def pairs(seed: int) -> list[tuple[Expression, Expression]]:
    """Pairs of random formulas, of which many differ by a constant."""
    draw = random.Random(seed)
    result = []
    for _ in range(12):
        f, g = formula(draw, draw.randrange(3)), formula(draw, draw.randrange(3))
        constant, sign = draw.choice([1, 3]), draw.choice([operator.add, operator.sub])
        near = lambda x, y, f=f, c=constant, sign=sign: sign(f(x, y), c)  # noqa: E731
        result.append((f, draw.choice([g, near])))
    return result


def comparisons(formulas: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """All comparisons of pairs of formulas, and their differences."""
    results = []
    for f, g in formulas:
        a, b = f(x, y), g(x, y)
        results += [a < b, a <= b, a > b, a >= b, a == b, a - b]
    return tuple(results)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_random_comparisons(dtype: str, seed: int) -> None:
    draw = random.Random(seed)
    x, y = edges(dtype, draw), edges(dtype, draw)
    formulas = pairs(seed)
    expected = comparisons(formulas, x, y)
    compiled = fw.compile(lambda x, y: comparisons(formulas, x, y))
    for _ in range(3):
        for n, (a, b) in enumerate(zip(expected, compiled(x, y), strict=True)):
            np.testing.assert_array_equal(a.numpy(), b.numpy(), f"result {n}")


def test_a_number_is_not_always_less_than_its_successor() -> None:
    most = np.iinfo(np.int64).max
    compiled = fw.compile(lambda x: (x < x + 1, x - 1 < x, x + 1 > x))
    for _ in range(3):
        less, before, more = compiled(fw.tensor([most, -most - 1, 0], dtype=fw.int64))
        assert less.tolist() == [False, True, True] == more.tolist()
        assert before.tolist() == [True, False, True]
