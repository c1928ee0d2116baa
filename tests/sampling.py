"""Samples tests that take too long for every run; `FUSEWIRE_TEST_WHOLE=1 pytest ...` runs all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

WHOLE = os.environ.get("FUSEWIRE_TEST_WHOLE", "0") == "1"
T = TypeVar("T")


def sample(items: Sequence[T], count: int, seed: int = 0) -> list[T]:
    """`count` of the items, in their order, the same ones for equal seeds. All items if WHOLE."""
    if WHOLE:
        return list(items)
    chosen = np.random.default_rng(seed).choice(len(items), min(count, len(items)), replace=False)
    return [items[i] for i in sorted(chosen)]


def sample_of_each(items: Sequence[T], kind: Callable[[T], Any], count: int, seed: int = 0
                   ) -> list[T]:
    """The first item of each kind, and `count` of the others, in their order. All items if WHOLE.
    """
    first = {kind(item): i for i, item in reversed(list(enumerate(items)))}
    chosen = {*first.values(), *sample([i for i in range(len(items)) if i not in first.values()],
                                       count, seed)}
    return [item for i, item in enumerate(items) if i in chosen]
