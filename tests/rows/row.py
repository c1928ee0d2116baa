"""What a row of the samples is, and makers of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
Inputs = tuple[Array, ...]
Make = Callable[[np.random.Generator], Inputs]


@dataclass(frozen=True)
class Bad:
    """A call that fails, and words its error holds."""

    call: Callable[[], Any]
    words: str


@dataclass(frozen=True, eq=False)
class Row:
    """A way of calling the op named `op`."""

    op: str
    call: Callable[..., Any]  # of one tensor for each input
    makers: tuple[Make, ...]  # each makes one tuple of inputs
    reference: Callable[..., Array]  # NumPy; floats come in as float64
    label: str = ""
    tolerance: float = 2e-6  # relative, for float32; float64 must be 1e5 times better
    grad: bool = True  # the gradient is compared with finite differences
    smooth: bool = True  # and so is the gradient of the gradient
    errors: tuple[Bad, ...] = ()

    def inputs(self, rng: np.random.Generator) -> list[Inputs]:
        """Concrete inputs: usual, empty, 0-d, broadcast, not contiguous, nan and inf."""
        return [make(rng) for make in self.makers]

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


ROWS: list[Row] = []


def row(op: str, call: Callable[..., Any], makers: Any, reference: Any, **more: Any) -> None:
    """Enters a row."""
    ROWS.append(Row(op, call, tuple(makers), reference, **more))


# ---- makers of inputs
f2, f4, f8, i4, i8, u1, b1, c8, c16 = (
    np.dtype(t) for t in "f2 f4 f8 i4 i8 u1 ? c8 c16".split())
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e30, -1e-30]


def numbers(rng: Any, shape: Any, dtype: Any = f4, low: float = -3, high: float = 3) -> Array:
    """Random numbers from low to high."""
    if dtype.kind in "biu":
        low = max(low, 0) if dtype.kind == "u" else low
        whole = rng.integers(math.ceil(low), math.floor(high) + 1, shape)
        return np.asarray(whole % 2 if dtype.kind == "b" else whole).astype(dtype)
    drawn = rng.uniform(low, high, shape)
    return np.asarray(drawn + 1j * rng.uniform(low, high, shape) if dtype.kind == "c" else drawn,
                      dtype=dtype)


def arrays(*shapes: Any, dtypes: Any = f4, low: float = -3, high: float = 3) -> Make:
    """Inputs of `shapes`; `dtypes` is one for all or one for each."""
    each = dtypes if isinstance(dtypes, tuple) else (dtypes,) * len(shapes)
    return lambda rng: tuple(numbers(rng, s, d, low, high) for s, d in zip(shapes, each))


def strided(count: int, dtype: Any = f8, low: float = -3, high: float = 3) -> Make:
    """`count` inputs (4, 3) that are not contiguous: transposed, turned round, every second."""
    views = [lambda a: a[:3, :4].T, lambda a: a[3::-1, 2::-1], lambda a: a[::2, ::2]]
    return lambda rng: tuple(views[i](numbers(rng, (8, 6), dtype, low, high)) for i in range(count))


def special(count: int, dtype: Any = f4) -> Make:
    """All combinations of nan, inf, zeros and large numbers."""
    grid = np.meshgrid(*[np.array(SPECIAL, dtype)] * count, indexing="ij")
    return lambda rng: tuple(g.copy() for g in grid)


DTYPES = {"float": (f4, f8, i8, b1), "real": (f4, f8, i4, u1, b1), "numeric": (f4, f8, i8, u1),
          "floats": (f4, f8, b1), "any": (f4, f8, i8, u1, b1), "bits": (i8, u1, b1),
          "whole": (i4, i8, u1), "bool": (b1, f4)}


def unary_inputs(takes: str, low: float, high: float, specials: bool) -> Iterator[Make]:
    for shape in ((3, 5), (), (0, 4), (2, 1, 7)):
        yield arrays(shape, dtypes=DTYPES[takes][0], low=low, high=high)
    for dtype in DTYPES[takes]:
        yield arrays((2, 3), dtypes=dtype, low=low, high=high)
    yield strided(1, DTYPES[takes][min(1, len(DTYPES[takes]) - 1)], low, high)
    if specials:
        yield special(1)
        yield special(1, f8)


def binary_inputs(takes: str, low: float, high: float, specials: bool) -> Iterator[Make]:
    for shapes in (((3, 5), (3, 5)), ((3, 1), (5,)), ((), (2, 3)), ((0, 4), (1, 4)), ((), ())):
        yield arrays(*shapes, dtypes=DTYPES[takes][0], low=low, high=high)
    for dtype in DTYPES[takes]:
        yield arrays((2, 3), (2, 3), dtypes=dtype, low=low, high=high)
        yield arrays((3,), (3,), dtypes=(dtype, DTYPES[takes][0]), low=low, high=high)
    yield strided(2, DTYPES[takes][min(1, len(DTYPES[takes]) - 1)], low, high)
    if specials:
        yield special(2)
