"""What cannot be recorded runs eagerly, right on every call, with one warning naming the line."""

from __future__ import annotations

import datetime
import io
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw
from fusewire.capture.replay.compiled_function import CaptureWarning

X = fw.tensor([1.0, 2.0, 3.0])


def check_refused(fn: Callable[..., Any], says: str, calls: int = 4) -> None:
    """`fn` compiled warns once, saying so with its line, and gives what it gives eager."""
    compiled = fw.compile(fn)
    line = fn.__code__.co_firstlineno
    with pytest.warns(CaptureWarning, match=says) as warned:
        for k in range(calls):
            assert_same(compiled(X * k), fn(X * k))
    assert len(warned) == 1
    place = str(warned[0].message).split("test_refusals.py:")[1].split(":")[0]
    assert line <= int(place) <= line + 12
    assert warned[0].filename == __file__
    with pytest.raises(fw.CaptureError, match=says):
        fw.compile(fn, fullgraph=True)(X)


# ---- values that leave for Python
def test_numpy() -> None:
    check_refused(lambda x: fw.tensor(x.numpy() * 2), "NumPy hands")


def test_asarray() -> None:
    check_refused(lambda x: x * float(np.asarray(x).max()), "NumPy hands")


def test_formatting() -> None:
    check_refused(lambda x: x * len(f"{x}"), "hands")


def test_iterating_over_a_tensor_is_recorded() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        total = fw.tensor(0.0)
        for row in x:
            total = total * 2 + row
        return total

    compiled = fw.compile(f, fullgraph=True)
    for k in range(3):
        assert_same(compiled(X * k), f(X * k))


# ---- what comes from outside
def test_the_date() -> None:
    check_refused(lambda x: x * (datetime.datetime.now().year > 0),
                  r"datetime.now\(\) returns a different value")


def test_random() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        random.seed(len(x))
        return x * random.random()

    check_refused(f, "returns a different value")


def test_a_random_choice() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        random.seed(len(x))
        return x * random.choice([1, 2, 3])

    check_refused(f, "returns a different value")


def test_numpys_random_numbers() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        np.random.seed(3)
        return x * np.random.rand()

    check_refused(f, "NumPy's random numbers")


@pytest.mark.parametrize("n", [3, 300])
@pytest.mark.parametrize("use", [lambda x, a: x * a, lambda x, a: x + fw.tensor(a) * 2,
                                 lambda x, a: x + fw.asarray(a)])
def test_numpy_arrays_as_arguments(use: Any, n: int) -> None:
    """They are read anew on each call, and what to do about it is said."""
    compiled, x, a = fw.compile(use), fw.arange(float(n)), np.ones(n, np.float32)
    with pytest.warns(CaptureWarning, match=r"fw.from_numpy\(array\)|before the call"):
        for _ in range(4):
            assert_same(compiled(x, a), use(x, a))
            a += 1


def test_a_numpy_generator() -> None:
    generators = [np.random.default_rng(0) for _ in range(2)]
    compiled = fw.compile(lambda x, rng: x * fw.tensor(rng.random(3)))
    with pytest.warns(CaptureWarning, match="argument 1 is a Generator, whose state advances"):
        for _ in range(4):
            assert_same(compiled(X, generators[0]), X * fw.tensor(generators[1].random(3)))


def test_a_file() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        with open(__file__) as file:
            return x * len(file.readline())

    check_refused(f, "returns a different value")


def test_an_array_of_the_closure() -> None:
    array = np.ones(3, np.float32)
    compiled = fw.compile(lambda x: x * fw.tensor(array))
    with pytest.warns(CaptureWarning, match="NumPy array"):
        assert_same(compiled(X), X)
    array[:] = 3
    assert_same(compiled(X), X * 3)


def test_a_tensor_nobody_can_reach() -> None:
    hidden = iter([fw.ones(3)] * 5)
    compiled = fw.compile(lambda x: x + next(hidden))
    with pytest.warns(CaptureWarning):
        for _ in range(4):
            assert_same(compiled(X), X + 1)


# ---- output
def test_writing_to_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()

    def f(x: fw.Tensor) -> fw.Tensor:
        stream.write("x")
        sys.stdout.write("y")
        return x * 2

    compiled = fw.compile(f)
    with pytest.warns(CaptureWarning):
        for _ in range(3):
            compiled(X)
    assert stream.getvalue() == "xxx" and capsys.readouterr().out == "yyy"


# ---- errors inside
def test_an_exception_comes_through_and_leaves_what_eager_leaves() -> None:
    total = fw.zeros(3)

    def f(x: fw.Tensor, bad: bool) -> fw.Tensor:
        total.add_(x)
        if bad:
            raise KeyError("bad batch")
        return total * 2

    compiled = fw.compile(f)
    for n, bad in enumerate((False, False, True, False, True, False), 1):
        if bad:
            with pytest.raises(KeyError, match="bad batch"):
                compiled(X, True)
        else:
            assert_same(compiled(X, False), X * n * 2)
        assert_same(total, X * n)


def test_an_exception_caught_inside() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        try:
            return x @ fw.zeros(7)
        except fw.ShapeError:
            return x * 2

    compiled = fw.compile(f, fullgraph=True)
    for k in range(3):
        assert_same(compiled(X * k), X * k * 2)


def test_an_exception_while_recording_leaves_no_trace() -> None:
    compiled = fw.compile(lambda x, n: x.reshape(n))
    with pytest.raises(fw.ShapeError):
        compiled(X, 7)
    assert sys.getprofile() is None
    assert_same(compiled(X, 3), X)
    assert compiled.stats.recordings == 1


def test_an_index_out_of_range_leaves_what_eager_leaves() -> None:
    table, seen = fw.zeros(4, 2).requires_grad_(), fw.zeros(3, dtype=fw.int64)

    @fw.compile(fullgraph=True)
    def f(i: fw.Tensor) -> fw.Tensor:
        with fw.no_grad():
            seen.copy_(i)
            return fw.take(table, i, 0) * 2

    good, bad = fw.tensor([0, 1, 3]), fw.tensor([0, 9, 3])
    f(good), f(good)
    with pytest.raises(IndexError, match="9"):
        f(bad)
    assert_same(seen, bad)  # changed before the error
    assert_same(f(good), fw.zeros(3, 2))


# ---- where recording makes way
def test_while_a_profiler_runs() -> None:
    compiled = fw.compile(lambda x: x * 2)
    sys.setprofile(lambda *event: None)
    try:
        with pytest.warns(CaptureWarning, match="a profiler is active"):
            assert_same(compiled(X), X * 2)
    finally:
        sys.setprofile(None)
    compiled(X), compiled(X)
    assert compiled.stats.replays == 1


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusewire.eager.settings.settings.compile", False)
    compiled = fw.compile(lambda x: x * 2)
    compiled(X), compiled(X)
    assert compiled.stats.recordings == 0


def test_compile_takes_what_can_be_called() -> None:
    with pytest.raises(fw.CaptureError, match="not 3"):
        fw.compile(3)  # type: ignore[call-overload]


def test_a_number_that_the_dtype_cannot_hold() -> None:
    compiled = fw.compile(lambda x: x == -3)
    with pytest.warns(CaptureWarning, match="uint8 cannot hold"):
        assert compiled(fw.tensor([1, 253], dtype=fw.uint8)).tolist() == [False, False]


def test_an_attribute_named_data() -> None:
    class Set:
        def __init__(self) -> None:
            self.data = fw.tensor([2.0, 3.0, 4.0])

        def scaled(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.data * own.data

    own = Set()
    compiled = fw.compile(own.scaled, fullgraph=True)
    for k in range(3):
        own.data = own.data + k
        assert_same(compiled(X), own.scaled(X))
    assert compiled.stats.replays == 2


def test_a_function_whose_calls_all_take_another_path_is_not_traced_for_ever() -> None:
    def f(bits: list[fw.Tensor]) -> tuple[list[int], fw.Tensor]:
        taken = []
        for n, bit in enumerate(bits):
            if bit > 0:
                taken.append(n)  # lists of different lengths do not merge
        return taken, bits[0] + 1

    compiled = fw.compile(f)
    calls = [[fw.tensor(float(n >> k & 1)) for k in range(6)] for n in range(40)]
    with pytest.warns(UserWarning, match="24 calls took as many paths"):
        for bits in calls:
            assert compiled(bits)[0] == f(bits)[0]
    assert compiled.stats.recordings == 24 and not compiled.stats.replays
