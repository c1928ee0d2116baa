"""Draws programs: each is one of many families of computation, with random sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_DOUBLE_SHARE = 0.1  # of the programs that may be of either precision


@dataclass(frozen=True, eq=False)
class Program:
    """A computation that is written once for all libraries.

    `function(xp, weights, *inputs)`: the result, by the functions of a namespace `xp`
    `weights`: arrays that are the same in every call; a peer may treat them as constants
    `trained`: the result is a scalar, and the gradients by all weights are results, too
    """

    about: str
    function: Function
    inputs: Sequence[Array]
    weights: Sequence[Array] = ()
    trained: bool = False
    family: str = ""

    @property
    def is_double(self) -> bool:
        """True if the program computes in float64."""
        return any(a.dtype == np.float64 for a in (*self.inputs, *self.weights))


class Draw:
    """Random sizes, choices and arrays of one program."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype = np.dtype(np.float32)

    def either_precision(self) -> None:
        """Lets the arrays of this program be float64, which happens seldom."""
        if self.rng.random() < _DOUBLE_SHARE:
            self.dtype = np.dtype(np.float64)

    def size(self, low: int, high: int) -> int:
        """A size between two bounds, even on a logarithmic scale; often a multiple of 16 or 4."""
        found = round(math.exp(self.rng.uniform(math.log(low), math.log(high))))
        step = int(self.rng.choice([1, 4, 16, 16]))
        return min(high, max(low, found // step * step)) if found >= step else found

    def rest(self, low: int, high: int, *others: int) -> int:
        """A size whose product with the others is between two bounds; at least 1."""
        return max(1, self.size(low, high) // math.prod(others))

    def pick(self, *choices: Any) -> Any:
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Normal random numbers."""
        return np.asarray(self.rng.standard_normal(shape) * scale, self.dtype)

    def positive(self, *shape: int) -> Array:
        """Random numbers from 0.5 to 1.5."""
        return np.asarray(self.rng.uniform(0.5, 1.5, shape), self.dtype)

    def matrix(self, rows: int, columns: int) -> Array:
        """A matrix that keeps the scale of the vectors it is multiplied with."""
        return self.normal(rows, columns, scale=rows ** -0.5)

    def filters(self, out: int, channels: int, *kernel: int) -> Array:
        """Filters that keep the scale of their input."""
        return self.normal(out, channels, *kernel, scale=(channels * math.prod(kernel)) ** -0.5)

    def integers(self, high: int, *shape: int) -> Array:
        """Random integers from 0 to `high` - 1, as int64."""
        return self.rng.integers(0, high, shape)


Family = Callable[[Draw], Program]
FAMILIES: dict[str, Family] = {}


def family(draw_one: Family) -> Family:
    """Registers a family of programs under the function's name."""
    FAMILIES[draw_one.__name__] = draw_one
    return draw_one


def programs(seed: int, count: int, names: Sequence[str] = ()) -> Iterator[Program]:
    """`count` programs; each `len(names)` in a row are of all families, in random order."""
    order_rng = np.random.default_rng(seed)
    known = list(names or FAMILIES)
    order: list[str] = []
    for number in range(count):
        if not order:
            order = [known[i] for i in order_rng.permutation(len(known))]
        name = order.pop()
        drawn = FAMILIES[name](Draw(np.random.default_rng([seed, number])))
        yield replace(drawn, family=name)
