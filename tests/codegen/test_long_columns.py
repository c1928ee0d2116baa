"""Tests sums over the rows of large matrices, which tasks compute strip by strip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.codegen.program import native_threads

F = fw.nn.functional


def compiled(function: Any, *given: Any) -> Any:
    """The result of the third call, from compiled code."""
    made = fw.compile(function, dynamic=False)
    return [made(*given) for _ in range(3)][-1].numpy()


@pytest.mark.parametrize("rows", [64, 97, 770, 2051])
@pytest.mark.parametrize("width", [1024, 1030, 9001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_vector_times_a_matrix(rows: int, width: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows + width)
    x, w = (rng.integers(-9, 9, shape).astype(dtype) for shape in (rows, (rows, width)))
    got = compiled(lambda x, w: F.relu(x @ w + 1), fw.tensor(x), fw.tensor(w))
    wanted = np.maximum(x.astype(np.float64) @ w + 1, 0)
    np.testing.assert_array_equal(got, wanted)  # of whole numbers, which floats sum exactly


def test_other_reductions_and_several_at_once() -> None:
    x = fw.tensor(np.random.default_rng(0).standard_normal((130, 3000)).astype(np.float32))
    got = compiled(lambda x: fw.stack([x.max(axis=0), (x * x).sum(axis=0), x.sum(axis=0)]), x)
    n = x.numpy().astype(np.float64)
    np.testing.assert_allclose(got, [n.max(0), (n * n).sum(0), n.sum(0)], 1e-5, 1e-5)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rng, had = np.random.default_rng(1), native_threads.get_num_threads()
    x, w = (fw.tensor(rng.standard_normal(shape).astype(np.float32))
            for shape in ((1, 768), (768, 5000)))
    found = []
    try:
        for count in (1, 2, 3):
            native_threads.set_num_threads(count)
            found.append(compiled(lambda x, w: fw.tanh(x @ w), x, w))
    finally:
        native_threads.set_num_threads(had)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_error_does_not_grow_with_the_number_of_rows() -> None:
    x = fw.full((20_000, 1024), 0.1)
    got = compiled(lambda x: x.sum(axis=0), x)
    np.testing.assert_allclose(got, np.float32(0.1).astype(np.float64) * 20_000, 1e-6)
