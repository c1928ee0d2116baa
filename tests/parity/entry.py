"""What an entry of the table is: a function of ours beside PyTorch's, and the inputs of both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rows.row import SPECIAL, numbers

import fusewire as fw

Make = Callable[[np.random.Generator, np.dtype[Any]], Any]

# Letters of `Entry.kinds`: the dtypes that an entry's values are compared in.
KINDS = {"f": ("float32", "float64"), "h": ("float16", "bfloat16"),
         "c": ("complex64", "complex128"), "i": ("int64", "int32", "int16", "int8"),
         "u": ("uint8",), "b": ("bool",)}


@dataclass(frozen=True)
class Input:
    """How an input is made; `make` gets the dtype that the entry is run in."""

    make: Make


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype; that of bfloat16 comes from ml_dtypes."""
    return np.dtype(getattr(fw, name))


def x(*shape: int, low: float = -3, high: float = 3, dtype: Any = None) -> Input:
    """Random numbers of `shape`; `dtype` where it is always the same."""
    return Input(lambda rng, d: numbers(rng, shape, dtype or d, low, high))


def ints(*shape: int, below: int, low: int = 0) -> Input:
    """Random whole numbers from `low` to `below` - 1, as indices are."""
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
    """What `fn(rng, dtype)` makes."""
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


@dataclass(frozen=True, eq=False)
class Entry:
    """A way of calling the public function `name`, and how PyTorch says the same."""

    name: str  # as in fusewire: "sin", "linalg.solve"
    family: str
    inputs: tuple[tuple[Input, ...], ...]  # each makes one call
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    label: str = ""
    kinds: str = "fh"
    grad: bool = True  # gradients are compared, of all inputs of the dtype that is run
    loose: float = 1.0  # how much larger differences may be than usually
    differs: Mapping[str, str] = field(default_factory=dict)  # "dtype" or a column: why
    only: tuple[str, ...] = ()  # columns, where another entry of the function has the others
    each: bool = False  # differences are shares of each element, not of the largest

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


def path(root: Any, name: str) -> Any:
    """`root.linalg.solve` of "linalg.solve"."""
    return functools.reduce(getattr, name.split("."), root)


class Table(list[Entry]):
    """Entries of one family, entered by calls."""

    def __init__(self, family: str) -> None:
        self.family = family

    def __call__(self, name: str, *inputs: Any, ours: Any = None, theirs: Any = None,
                 label: str = "", also: Any = (), more: Mapping[str, Any] | None = None,
                 **how: Any) -> None:
        """Enters `name` called with `inputs`.

        `ours` and `theirs` are functions of the tensors, or nothing where the name (for `theirs` a
        string: another name in torch) and the keywords `more` say it. `also`: further inputs.
        """
        more = dict(more or {})
        every = tuple(tuple(i) for i in (inputs, *also))
        how["differs"] = how.get("differs") or {}
        self.append(Entry(name, self.family, every, ours or named(fw, name, more),
                          theirs if callable(theirs) else named(torch, theirs or name, more),
                          label or ", ".join(f"{k}={v}" for k, v in more.items()), **how))


def named(root: Any, name: str, more: Mapping[str, Any]) -> Callable[..., Any]:
    """root.name(*tensors, **more), looked up when it is called."""
    return lambda *xs: path(root, name)(*xs, **more)
