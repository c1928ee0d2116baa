"""Reductions of values that the compiler knows: LLVM aborted on some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusewire as fw

CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "never": lambda x: x > x, "always": lambda x: x == x, "nowhere": lambda x: x != x,
    "both": lambda x: (x > x) | (x == x),
}


def reductions(condition: Any) -> list[Any]:
    """All reductions of a bool tensor, of its numbers too, along each axis and all of them."""
    results = []
    for axis in (None, 0, 1):
        results += [fw.all(condition, axis=axis), fw.any(condition, axis=axis),
                    condition.sum(axis=axis), fw.count_nonzero(condition, axis=axis),
                    fw.max(condition, axis=axis), fw.min(condition, axis=axis),
                    condition.astype(fw.uint8).max(axis=axis),
                    condition.astype(fw.int16).sum(axis=axis)]
    return results


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1000), (1000, 1), (3, 129), (70, 64), (2, 40)])
def test_reductions_of_constant_conditions(dtype: str, shape: tuple[int, int]) -> None:
    x = fw.ones(*shape, dtype=getattr(fw, dtype))

    def f(x: fw.Tensor) -> list[fw.Tensor]:
        return [r for condition in CONDITIONS.values() for r in reductions(condition(x))]

    compiled, expected = fw.compile(f), f(x)
    for _ in range(2):
        for a, b in zip(expected, compiled(x), strict=True):
            assert a.tolist() == b.tolist()
