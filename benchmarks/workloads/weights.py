"""Random arrays that are the same in every run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def normal(seed: int, *shape: int, scale: float = 1.0, fan_in: bool = False) -> Any:
    """Normal float32 numbers; with `fan_in` scaled as weights (n_out, n_in, ...) are."""
    if fan_in:
        scale = math.sqrt(2.0 / math.prod(shape[1:]))
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return values * np.float32(scale)
