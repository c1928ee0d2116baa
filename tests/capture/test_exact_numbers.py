"""Numbers whose very value, type or identity Python sees: none of that is taken for granted."""

from __future__ import annotations

import enum
import functools
import operator
import time
from typing import Any

import numpy as np
import pytest
from agreement import agree

import fusewire as fw
from fusewire.capture.runtime.warnings import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_an_error_that_a_number_causes_is_the_answer_to_that_number() -> None:
    small = fw.asarray([1, 2], dtype=fw.int8)

    def f(n: int) -> Any:
        try:
            return small + n
        except fw.DTypeError:
            return "too large"

    agree(lambda: f, (1,), (2,), (500,), (3,), (400,), (4,))


def test_nan_becomes_no_int() -> None:
    def f(x: fw.Tensor) -> Any:
        try:
            return int(x)
        except ValueError:
            return "nan"

    compiled = agree(lambda: f, *[(fw.tensor(v),) for v in (1.0, np.nan, 2.0, np.nan, 1.0)])
    assert compiled.stats.recordings == 2


def test_numbers_told_by_identity_stay_plain() -> None:
    source = "def f(x, n):\n    return x * n, n is 5, n is not 5, n is None\n"
    scope: dict[str, Any] = {}
    with pytest.warns(SyntaxWarning):
        exec(source, scope)
    agree(lambda: scope["f"], *[(X, n) for n in (1, 2, 5, 6, 5)])


def test_members_of_an_int_enum_are_ints_beside_tensors() -> None:
    assert (X * Level.HIGH).dtype == fw.float32
    calls = [(X, Level.LOW), (X, Level.HIGH), (X, Level.LOW), (X, 2)]
    agree(lambda: lambda x, level: (x * level, level is Level.HIGH, fw.where(x > 1, x, level)),
          *calls)


def test_functions_of_numpy_take_sizes() -> None:
    def f(x: fw.Tensor) -> Any:
        n = x.shape[0]
        return float(np.sqrt(n)), int(np.maximum(n, 4)), x * float(np.float64(2.0) * n)

    agree(lambda: f, *[(fw.ones(n),) for n in (2, 3, 5, 4, 3)])


@pytest.mark.parametrize("step", [lambda x, n: x * operator.index(n), lambda x, n: (x, f"{n}")])
def test_what_only_an_exact_number_serves_is_said(step: Any) -> None:
    compiled = fw.compile(step)
    with pytest.warns(CaptureWarning, match="the exact value of a number is needed here"):
        for n in range(30):
            compiled(X, n)


def test_functions_without_a_name() -> None:
    class Scale:
        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            return x * 2

    part = functools.partial(operator.mul, 3)
    assert fw.compile(part).__name__ == "mul" and fw.compile(Scale()).__name__ == "Scale"
    for made in (lambda: part, Scale):
        assert agree(made, (X,), (X + 1,), (X,)).stats.recordings == 1


def in_pieces(f: Any) -> Any:
    """`f` beside something that no recording can do again."""
    def run(*args: Any) -> Any:
        time.time()
        return f(*args)

    return run


@pytest.mark.filterwarnings("ignore:run. graph break")
@pytest.mark.parametrize("way", [lambda f: f, in_pieces])
@pytest.mark.parametrize("make", [float, fw.tensor])
def test_fractions_outside_of_0_and_1_raise_as_in_eager(way: Any, make: Any) -> None:
    compiled, x = fw.compile(way(fw.quantile)), fw.arange(5.0)
    for _ in range(2):
        assert [compiled(x, make(q)).item() for q in (0.5, 0.25, 1.0)] == [2.0, 1.0, 4.0]
        for q in (1.5, -0.5, float("nan")):
            with pytest.raises(fw.ArgumentError, match="is no fraction"):
                compiled(x, make(q))


@pytest.mark.filterwarnings("ignore:run. graph break")
@pytest.mark.parametrize("way", [lambda f: f, in_pieces])
@pytest.mark.parametrize("make", [list, fw.tensor])
def test_edges_that_are_not_in_order_raise_as_in_eager(way: Any, make: Any) -> None:
    compiled, x = fw.compile(way(lambda x, e: fw.histogram(x, e).hist)), fw.arange(5.0)
    for _ in range(2):
        assert compiled(x, make([0.0, 1.5, 5.0])).tolist() == [2, 3]
        assert compiled(x, make([0.0, 2.5, 5.0])).tolist() == [3, 2]
        with pytest.raises(fw.ShapeError, match="in order"):
            compiled(x, make([0.0, 5.0, 2.5]))
