"""Numbers that `float`, `int` and functions of `math` make of tensors: one path for all values.

Each function runs eagerly and compiled on the same values. Results, attributes and globals have to
be equal. The number of recordings does not grow with the number of values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from math import exp
from typing import Any

import numpy as np
import pytest

import fusewire as fw

Function = Callable[[fw.Tensor], Any]


class Log:
    """What functions of a training loop store."""

    def __init__(self) -> None:
        self.best, self.bad, self.mean = math.inf, 0, 0.0
        self.values: list[float] = []
        self.by_name: dict[str, float] = {}


log = Log()


def min_of(x: fw.Tensor) -> fw.Tensor:
    return x * min(1.0, 1.0 / (float(x.square().sum()) + 1e-6))


def in_a_helper(x: fw.Tensor) -> fw.Tensor:
    return scaled(x, float(x.sum()))


def scaled(x: fw.Tensor, by: float) -> fw.Tensor:
    return x * by if by > 0 else x - by


def early_stopping(x: fw.Tensor) -> fw.Tensor:
    loss = float(x.square().mean())
    if loss < log.best:
        log.best, log.bad = loss, 0
    else:
        log.bad += 1
    return x * 2


def moving_mean(x: fw.Tensor) -> fw.Tensor:
    log.mean = 0.9 * log.mean + 0.1 * float(x.mean())
    return x * 2


def stored(x: fw.Tensor) -> fw.Tensor:
    log.by_name["loss"] = float(x.mean())
    return x * 2


def returned(x: fw.Tensor) -> dict[str, Any]:
    return {"y": x * 2, "loss": float(x.mean()), "count": int((x > 0).sum())}


def in_lists(x: fw.Tensor) -> fw.Tensor:
    values = [float(row) for row in (x.sum(), x.max())]
    return x * values[0] + sum(float(v) for v in (x.min(), x.mean())) + max(values)


def counted(x: fw.Tensor) -> fw.Tensor:
    count = int((x > 0).sum())
    return x.sum() if count > 3 else x * count


def roots(x: fw.Tensor) -> fw.Tensor:
    norm = math.sqrt(float(x.square().sum()))
    return x / (norm + math.log1p(norm) + math.atan2(norm, 2.0) + exp(-norm))


def finite(x: fw.Tensor) -> fw.Tensor:
    loss = float(x.sum())
    if math.isnan(loss) or not math.isfinite(loss):
        return x * 0
    return x * math.pi


def rounded(x: fw.Tensor) -> tuple[float, int]:
    value = float(x.sum())
    return round(value, 2), math.floor(value) + math.ceil(value)


def rows_of(calls: int) -> list[fw.Tensor]:
    rng = np.random.default_rng(7)
    return [fw.from_numpy(rng.standard_normal(6).astype(np.float32)) for _ in range(calls)]


def outcome(f: Function, rows: list[fw.Tensor]) -> tuple[list[Any], dict[str, Any]]:
    """The results of `f` for rows, and what it has stored."""
    log.__init__()  # type: ignore[misc]
    return [f(row) for row in rows], dict(vars(log))


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_same(a[name], b[name])
    elif isinstance(a, str):
        assert a == b
    else:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f, most", [
    (min_of, 2), (in_a_helper, 2), (early_stopping, 5), (moving_mean, 2), (stored, 1),
    (returned, 1), (in_lists, 2), (counted, 2), (roots, 1), (finite, 1), (rounded, 1)])
def test_values_do_not_need_recordings(f: Function, most: int) -> None:
    rows = rows_of(40)
    expected = outcome(f, rows)
    compiled = fw.compile(f, fullgraph=True)
    assert_same(outcome(compiled, rows), expected)
    assert compiled.stats.recordings <= most, compiled.misses


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_functions_of_math_branch_on_values_that_are_not_finite(value: float) -> None:
    rows = [*rows_of(3), fw.full((6,), value), *rows_of(3)]
    expected = outcome(finite, rows)
    assert_same(outcome(fw.compile(finite), rows), expected)


@pytest.mark.parametrize("name", ["sqrt", "exp", "acos", "gamma", "log", "isnan", "erf"])
def test_a_function_of_math_raises_what_python_raises(name: str) -> None:
    def f(x: fw.Tensor) -> float:
        return float(getattr(math, name)(float(x[0])))

    compiled = fw.compile(f)
    for value in (0.5, 0.25, -3.0, 0.75, 1e6, 0.0):
        x = fw.full((2,), value)
        try:
            expected: Any = f(x)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error), match=str(error)):
                compiled(x)
        else:
            assert compiled(x) == expected


def test_a_size_goes_through_functions_of_math() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return x / math.sqrt(x.shape[0])

    compiled = fw.compile(f)
    for size in range(2, 12):
        np.testing.assert_allclose(compiled(fw.ones(size)).numpy(), 1 / math.sqrt(size), rtol=1e-6)
    assert compiled.stats.recordings == 2


def test_another_function_under_the_name_is_called() -> None:
    scope: dict[str, Any] = {"math": math, "float": float}
    exec("def f(x):\n    return x * math.sqrt(float(x.sum()))\n", scope)
    compiled = fw.compile(scope["f"])
    x = fw.full((4,), 4.0)
    assert compiled(x)[0] == compiled(x)[0] == 16.0

    class Doubled:
        sqrt = staticmethod(lambda v: 2.0 * v)

    scope["math"] = Doubled
    assert compiled(x)[0] == compiled(x)[0] == 128.0
    scope["float"] = lambda t: 1.0
    assert compiled(x)[0] == compiled(x)[0] == 8.0


def test_c_code_that_wants_exact_numbers_gets_them() -> None:
    calls: list[str] = []

    def f(x: fw.Tensor) -> str:
        calls.append("called")
        return json.dumps({"loss": float(x.sum()), "items": [x.max().item()]})

    rows = rows_of(3)
    expected = [f(row) for row in rows]
    calls.clear()
    compiled = fw.compile(f)
    assert [compiled(row) for row in rows] == expected
    assert len(calls) == 3


def test_an_error_of_the_users_own_is_raised_once() -> None:
    def f(x: fw.Tensor, seen: list[int]) -> Any:
        seen.append(1)
        return len(float(x.sum()))  # type: ignore[arg-type]

    seen: list[int] = []
    with pytest.raises(TypeError, match=r"object of type 'float' has no len\(\)"):
        fw.compile(f)(fw.ones(2), seen)
    assert seen == [1]
