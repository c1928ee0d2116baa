"""Products of one row with matrices compute an activation between them once for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F

WIDTH = 256


@pytest.mark.parametrize("activation", [fw.tanh, F.gelu, F.silu])
def test_activations_are_not_repeated(activation: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(0)
    x, *weights = (fw.from_numpy(rng.standard_normal(s).astype(np.float32) / 16)
                   for s in ((1, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)))

    def network(x: Any) -> Any:
        for w in weights:
            x = activation(x @ w)
        return x

    compiled = fw.compile(network)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), network(x).numpy(), rtol=1e-4, atol=1e-6)
    first, second = (kernel["flops"] for kernel in compiled.kernels())
    assert first == second
