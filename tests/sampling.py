"""Samples tests that take too long for every run; `FUSEWIRE_TEST_WHOLE=1 pytest ...` runs all.

Of a test with many cases, `FUSEWIRE_TEST_SEED` chooses those which run: CI takes one seed for each
commit, so that all of them run in the course of some commits.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

WHOLE = os.environ.get("FUSEWIRE_TEST_WHOLE", "0") == "1"
SEED = int(os.environ.get("FUSEWIRE_TEST_SEED", "0"))
ALWAYS, SHARE = 6, 0.1  # of a test with more cases: so many, and this share of the others
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


def cases_of_tests(items: Sequence[T], test: Callable[[T], str]) -> list[T]:
    """A sample of the cases of each test, in their order. All cases if WHOLE.

    Args:
        items: cases of all tests.
        test: gives the name of the test that a case belongs to.
    """
    cases: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        cases.setdefault(test(item), []).append(i)
    chosen = {i for name, group in cases.items() for i in sample(
        group, ALWAYS + round(SHARE * max(0, len(group) - ALWAYS)),
        zlib.crc32(f"{SEED} {name}".encode()))}
    return [item for i, item in enumerate(items) if i in chosen]
