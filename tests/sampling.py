"""Samples of what takes too long for every run: `FUSEWIRE_TEST_WHOLE=1 pytest ...` takes all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

WHOLE = os.environ.get("FUSEWIRE_TEST_WHOLE", "0") == "1"
T = TypeVar("T")


def sample(items: Sequence[T], count: int, seed: int = 0) -> list[T]:
    """`count` of the items, always the same for a seed, in their order; all where asked for."""
    if WHOLE:
        return list(items)
    chosen = np.random.default_rng(seed).choice(len(items), min(count, len(items)), replace=False)
    return [items[i] for i in sorted(chosen)]
