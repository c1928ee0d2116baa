"""Loops whose iterations differ: one changes an object that earlier iterations only read."""

from __future__ import annotations

from typing import Any

from agreement import agree

import fusewire as fw


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
