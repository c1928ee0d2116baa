"""Loops whose iterations differ: one changes an object that earlier iterations only read."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import Mock

import pytest
from agreement import agree, assert_equal

import fusewire as fw
from fusewire.capture.heap import operand_stack
from fusewire.capture.runtime import gc_pause


def test_bisection() -> None:
    def f(x: fw.Tensor) -> Any:
        low, high = fw.tensor(0.0), x + 1
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            if middle * middle > x:
                high = middle
            else:
                low = middle
        return low, high

    calls = [(fw.tensor(float(k)),) for k in (2, 9, 100, 1, 0.5, 1e4, 3, 7)]
    compiled = agree(lambda: f, *calls, *calls, recordings=4)
    assert compiled.stats.replays >= 12


def test_counts_of_some_turns() -> None:
    def f(x: fw.Tensor) -> Any:
        odd = even = 0
        while x != 1:
            if x % 2 == 0:
                x, even = x // 2, even + 1
            else:
                x, odd = 3 * x + 1, odd + 1
        return odd, even, x

    calls = [(fw.tensor(k),) for k in (6, 7, 27, 97, 9, 50, 31)]
    compiled = agree(lambda: f, *calls, *calls, recordings=5)
    assert compiled.stats.replays >= 9


def test_steps_of_an_adaptive_solver() -> None:
    """Rejected steps are a loop inside of the loop, which leaves the numbers of the outer one."""
    w = fw.tensor([1.5], requires_grad=True)

    def solved(y: fw.Tensor, end: float) -> fw.Tensor:
        t, h = 0.0, 0.2
        while t < end:
            error = (y * h).detach().abs().max().item()
            if error < 0.1:
                y = y + h * w
                t += h
            h = h * (0.5 if error > 0.1 else 1.5)
        return y.sum()

    def gradient(y: fw.Tensor, end: float) -> tuple[fw.Tensor, fw.Tensor]:
        w.grad = None
        result = solved(y, end)
        result.backward()
        assert w.grad is not None
        return result.detach(), w.grad

    compiled = fw.compile(gradient)
    for n in range(12):
        call = fw.tensor([0.3 + 0.1 * n]), 0.5 + 0.2 * n
        assert_equal(compiled(*call), gradient(*call))
    assert compiled.stats.fallbacks <= 1 and compiled.stats.replays >= 5


def test_iterators_are_searched_only_for_loops_over_containers(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The search visits all objects that a trace has made, at each decision."""
    searches = Mock(wraps=operand_stack._young)
    monkeypatch.setattr(operand_stack, "_young", searches)

    items = [3, 4, 5]
    with gc_pause.not_collecting():
        for _ in range(2):
            assert operand_stack.container_positions(sys._getframe(), []) == []
        assert searches.call_count == 0
        counts = [1, 2]
        for _ in items:
            for _ in counts:
                positions = operand_stack.container_positions(sys._getframe(), [])
                assert [p.tensors[0] for p in positions] == [items, counts]
        assert searches.call_count == 6
