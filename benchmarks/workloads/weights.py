"""Makes random arrays, equal in every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def normal(seed: int, *shape: int, scale: float = 1.0, fan_in: bool = False) -> Any:
    """Normal float32 numbers; with `fan_in`, scaled as weights (n_out, n_in, ...)."""
    if fan_in:
        scale = math.sqrt(2.0 / math.prod(shape[1:]))
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    values *= np.float32(scale)
    return values


def linear_layers(sizes: Sequence[int], numbers: Sequence[int]) -> dict[str, Any]:
    """Weights and biases of linear layers from each size to the next, under torch's names."""
    found = {}
    for i, (m, n) in zip(numbers, pairwise(sizes)):
        found[f"{i}.weight"] = normal(i, n, m, fan_in=True)
        found[f"{i}.bias"] = normal(10 + i, n, scale=0.01)
    return found


def uniform(seed: int, low: float, high: float, *shape: int) -> Any:
    """Uniform float32 numbers from `low` to `high`."""
    values = np.random.default_rng(seed).random(shape, dtype=np.float32)
    values *= np.float32(high - low)
    values += np.float32(low)
    return values
