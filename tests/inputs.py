"""Makes the inputs of functions and layers, in each dtype that tests use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rows.row import SPECIAL, numbers

import fusewire as fw

Make = Callable[[np.random.Generator, np.dtype[Any]], Any]


@dataclass(frozen=True)
class Input:
    """A maker of an input; `make` gets the dtype of the test."""

    make: Make


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype; that of bfloat16 comes from ml_dtypes."""
    return np.dtype(getattr(fw, name))


def x(*shape: int, low: float = -3, high: float = 3, dtype: Any = None) -> Input:
    """Random numbers of `shape`; `dtype`: in the place of the test's dtype."""
    return Input(lambda rng, d: numbers(rng, shape, dtype or d, low, high))


def ints(*shape: int, below: int, low: int = 0) -> Input:
    """Random integers from `low` to `below` - 1, such as indices."""
    return x(*shape, low=low, high=below - 1, dtype=np.dtype("int64"))


def bools(*shape: int) -> Input:
    """Random truth values."""
    return Input(lambda rng, d: np.asarray(rng.integers(0, 2, shape) > 0))


def given(*values: Any, dtype: Any = None) -> Input:
    """These values: ties, zeros, ends of intervals."""
    return Input(lambda rng, d: np.array(values, dtype or d))


def distinct(*shape: int) -> Input:
    """Numbers of which no two are close, in random order."""
    def make(rng: Any, d: Any) -> Any:
        count = int(np.prod(shape))
        return (rng.permutation(count) - count / 2.5).reshape(shape).astype(d)

    return Input(make)


def made(fn: Make) -> Input:
    """The array that `fn(rng, dtype)` makes."""
    return Input(fn)


def cast(array: Any, dtype: Any) -> Any:
    """`array` in `dtype`; numbers that are too large for it are inf."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def specials(count: int) -> tuple[Input, ...]:
    """All combinations of nan, inf, zeros and large numbers."""
    def one(n: int) -> Input:
        grid = np.meshgrid(*[np.array(SPECIAL)] * count, indexing="ij")[n]
        return Input(lambda rng, d: cast(grid, d))

    return tuple(one(n) for n in range(count))


def path(root: Any, name: str) -> Any:
    """`root.linalg.solve` of "linalg.solve"."""
    return functools.reduce(getattr, name.split("."), root)
