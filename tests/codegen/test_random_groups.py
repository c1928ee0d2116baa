"""Compiled random numbers are those of NumPy, also where neighbours share blocks of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw

SHAPES = [(64,), (1024,), (65,), (3, 64), (5, 128), (4, 33), (2, 3, 192), (1 << 15,), (300, 1024)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64, fw.float16], ids=str)
def test_numbers_are_those_of_numpy(shape: Any, dtype: Any) -> None:
    def draw(scale: fw.Tensor) -> Any:
        return fw.rand(*shape, dtype=dtype) * scale, fw.randint(-5, 70, shape)

    compiled = fw.compile(draw)
    # The scale is one row, so the loops have an axis for rows and one for columns.
    scale = fw.arange(1, shape[-1] + 1).astype(dtype)
    compiled(scale)
    for seed in (1, 2):
        fw.manual_seed(seed)
        found = compiled(scale)
        fw.manual_seed(seed)
        for a, b in zip(found, draw(scale)):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert compiled.stats.replays == 2
