"""Several threads make code at the same time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from jobs import together

import fusewire as fw
from fusewire.codegen.fusion.fusion import axis_variables
from fusewire.codegen.ir import loop_ir
from fusewire.codegen.ir.affine_index import (
    as_index,
    assume_in_bounds,
    collect_comparisons,
    variable,
)
from fusewire.codegen.runtime.cpython import entry
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT

THREADS = 4


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_what_is_assumed_and_noted_belongs_to_its_thread() -> None:
    i = variable("i", 10)

    def rest() -> Any:
        return ((i - 3) % 7).expr()

    with assume_in_bounds((i - 3,), (7,)), collect_comparisons() as noted:
        own = rest()
        (other,) = together(rest)
        assert own is (i - 3).expr() and other is not own
        assert len(noted) == 1




ONCE: dict[str, Callable[[int], Any]] = {
    "numbers": lambda n: loop_ir.const(10_000_000 + n), "axes": lambda n: axis_variables((n, 7919)),
    "sums": lambda n: (as_index(n) + axis_variables((7919, 3))[0]).expr()}


@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE)
def test_what_is_made_once_is_made_once(make: Callable[[int], Any], hasty: None) -> None:
    """Equal expressions are one object, whoever asks."""
    found = together(*[lambda: [make(n) for n in range(3000)]] * THREADS)
    for same in zip(*found):
        assert all(x is same[0] for x in same)


@pytest.mark.skipif(LAYOUT is None, reason="calls go through Python")
def test_functions_that_python_calls_are_there_for_good(monkeypatch: pytest.MonkeyPatch,
                                                        hasty: None) -> None:
    for _ in range(200):
        monkeypatch.setattr(entry, "_METHODS", {})
        made = together(*[lambda: entry._method("launch")] * THREADS)
        assert all(m is made[0] for m in made)


def test_programs_made_at_the_same_time(hasty: None) -> None:
    rng = np.random.default_rng(0)
    x = fw.from_numpy(rng.standard_normal((12, 10)).astype("f4"))
    functions: list[Callable[[Any], Any]] = [
        lambda x: fw.softmax(x @ x.T, -1) @ x, lambda x: fw.roll(x, 3, 0)[::2] * x[1::2],
        lambda x: fw.concat([x, x * 2], 1).reshape(-1, 4).sum(0),
        lambda x: fw.nn.functional.conv1d(x.reshape(1, 12, 10), x[:, :6].reshape(2, 12, 3))]
    expected = [f(x).numpy() for f in functions]

    def compiled(f: Callable[[Any], Any]) -> list[Any]:
        found = []
        for _ in range(3):
            program = fw.compile(f, fullgraph=True)
            found += [program(x).numpy() for _ in range(3)]
        return found

    jobs = list(itertools.chain(functions, functions))
    for number, found in enumerate(together(*[lambda f=f: compiled(f) for f in jobs])):
        for got in found:
            np.testing.assert_allclose(got, expected[number % len(functions)], rtol=1e-4, atol=1e-5)
