"""Large concats that need memory are written operand by operand; others are views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

CASES: dict[str, tuple[Callable[..., Any], int]] = {  # with the number of kernels
    "rows": (lambda x, y: fw.concat([fw.tanh(x), y * 2], 0), 2),
    "columns": (lambda x, y: fw.concat([fw.tanh(x), y * 2, x], 1), 3),
    "an operand of a product": (lambda x, y: fw.concat([x * y, fw.exp(y)], 1) @ y.reshape(-1, 48),
                                3),
    "read by others, too": (lambda x, y: ((c := fw.concat([x, y + 1], 1)), fw.sum(c, 1)), 3),
    "a view": (lambda x, y: fw.sum(fw.concat([x, y + 1], 1) * 2, 1), 1),
    "narrow columns": (lambda x, y: fw.stack([x, y * 3], 2), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_concats(name: str) -> None:
    function, count = CASES[name]
    rng = np.random.default_rng(0)
    x, y = (fw.from_numpy(rng.standard_normal((96, 160)).astype(np.float32)) for _ in range(2))
    compiled = fw.compile(function)
    wanted = function(x, y)
    for _ in range(2):
        got = compiled(x, y)
        pairs = zip(got, wanted) if isinstance(got, tuple) else [(got, wanted)]
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert len(compiled.kernels()) == count
