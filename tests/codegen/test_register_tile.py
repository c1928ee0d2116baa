"""Reductions whose results share operands, and reductions whose last axis is short.

Both have loops of their own: several results side by side, and lanes around the other loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw

Program = Any


def weighted(x: Any, w: Any, scale: Any) -> Any:
    """Products of rows with groups of small numbers, each group with a scale."""
    rows, groups, group = x.shape[0], scale.shape[1], w.shape[2]
    whole = w.astype(fw.float32) * scale[..., None]
    return (x.reshape(rows, 1, groups, group) * whole).sum((-1, -2))


def two_sums(x: Any, w: Any, scale: Any) -> Any:
    """Two sums over the same elements, of which one is a maximum."""
    whole = w.astype(fw.float32) * scale[..., None]
    terms = x.reshape(x.shape[0], 1, scale.shape[1], w.shape[2]) * whole
    return terms.sum((-1, -2)) + fw.max(terms, axis=(-1, -2))


def two_passes(x: Any, w: Any, scale: Any) -> Any:
    """A sum that needs another one of the same elements."""
    whole = w.astype(fw.float32) * scale[..., None]
    terms = x.reshape(x.shape[0], 1, scale.shape[1], w.shape[2]) * whole
    peak = fw.max(terms, axis=(-1, -2), keepdims=True)
    return fw.exp((terms - peak) * 0.01).sum((-1, -2))


def matrix_product(x: Any, w: Any, scale: Any) -> Any:
    whole = w.astype(fw.float32) * scale[..., None]
    return x @ whole.reshape(w.shape[0], -1).mT


PROGRAMS = [weighted, two_sums, two_passes, matrix_product]
# Rows with and without divisors up to 8, and last axes of one vector, several, and odd numbers.
ROWS, GROUPS, WIDTHS = (1, 2, 3, 4, 5, 8, 9, 11, 16), (1, 2, 5, 33, 70), (3, 8, 17, 32, 64, 96, 130)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("seed", range(8))
def test_sums_of_shared_operands_are_right(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, groups, width = (int(rng.choice(c)) for c in (ROWS, GROUPS, WIDTHS))
    outputs = int(rng.choice([1, 7, 64]))
    w = rng.integers(-9, 9, (outputs, groups, width)).astype(rng.choice(["int8", "int32"]))
    arrays = (rng.standard_normal((rows, groups * width)).astype(np.float32), w,
              rng.random((outputs, groups)).astype(np.float32))
    operands = [fw.from_numpy(a) for a in arrays]
    expected = program(*(fw.from_numpy(a.astype(np.float64)) if a.dtype.kind == "f"
                         else fw.from_numpy(a) for a in arrays)).numpy()
    compiled = fw.compile(program)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*operands).numpy(), expected, 2e-4, 2e-3)


def test_long_sums_of_short_axes_stay_exact() -> None:
    # Each lane adds 4,096 numbers: their sum in float32, one by one, would lose three digits.
    x = np.full((3, 4096, 2, 16), 0.1, np.float32)[:, :, 0]
    result = fw.compile(lambda x, y: (x * y).sum((-1, -2)))(
        fw.from_numpy(x), fw.from_numpy(np.ones((4096, 1), np.float32)))
    np.testing.assert_allclose(result.numpy(), 4096 * 16 * np.float64(np.float32(0.1)), 3e-7)


def test_several_results_are_computed_side_by_side() -> None:
    compiled = fw.compile(weighted)
    compiled(fw.ones(4, 128), fw.ones((8, 2, 64), dtype=fw.int8), fw.ones(8, 2))
    text = compiled.code("llvm")
    conversions = [line for line in text.splitlines() if " sitofp " in line]
    additions = [line for line in text.splitlines() if "call" in line and "fmuladd" in line]
    # One conversion of the weights serves the sums of all four rows.
    assert (len(conversions), len(additions)) == (1, 4), text
