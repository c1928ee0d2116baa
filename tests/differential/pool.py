"""The variables of a program while it is written, with their values in every call."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .namespaces import Numpy, is_float

LARGEST = 1e15  # no finite result that is rounded may be larger: wide floats overflow elsewhere
MOST_ELEMENTS = 60_000


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two arrays have equal elements; NaN equals NaN."""
    return bool(np.array_equal(a.astype(b.dtype), b, equal_nan=is_float(b.dtype)))


def on_grid(a: np.ndarray) -> bool:
    """True if all elements are such short numbers that no rounding can have made them by chance."""
    if not is_float(a.dtype):
        return True
    step, largest = (16, 16) if a.dtype.itemsize == 2 else (1024, 4096)
    values = a.astype(np.float64)
    values = np.where(np.isfinite(values), values, 0)
    return bool(((values * step) % 1 == 0).all() and (np.abs(values) < largest).all())


def is_exact(narrow: np.ndarray, wide: np.ndarray) -> bool:
    """True if nothing was rounded: every order of evaluation gives the bits of `narrow`."""
    return on_grid(narrow) and same(narrow, wide)


@dataclass
class Variable:
    """A name of the program with its values: one per call, as computed and in wide floats."""

    values: list[np.ndarray]
    wide: list[np.ndarray]
    signed_zero: bool = True  # the sign of a zero is defined: no reduction chose among zeros
    owned: bool = False  # made by this program and never viewed: may be changed in place
    from_exact: bool = True  # nothing was rounded in any operand

    @property
    def dtype(self) -> np.dtype:
        return self.values[0].dtype

    @property
    def ndim(self) -> int:
        return self.values[0].ndim

    @property
    def exact(self) -> bool:
        """True if nothing was rounded in any call, here or in an operand."""
        return self.from_exact and all(map(is_exact, self.values, self.wide))

    @property
    def kind(self) -> str:
        """`f` for floats of all widths, else NumPy's letter."""
        return "f" if is_float(self.dtype) else self.dtype.kind


@dataclass
class Pool:
    """Variables by name, and the environments in which NumPy computes them."""

    calls: list[tuple[dict[str, Any], dict[str, Any]]]  # per call: as computed, in wide floats
    variables: dict[str, Variable] = field(default_factory=dict)

    def pick(self, rng: Any, kinds: str = "fiub", ndim: int = 0,
             where: Callable[[Variable], bool] = lambda v: True) -> str | None:
        """A random name whose variable has one of `kinds` and at least `ndim` axes, or None."""
        names = [n for n, v in self.variables.items()
                 if v.kind in kinds and v.ndim >= ndim and where(v)]
        return str(rng.choice(names)) if names else None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape in the first call."""
        return self.variables[name].values[0].shape

    def run(self, line: str) -> bool:
        """True if NumPy ran the line in all calls; else nothing has changed."""
        new = [tuple(_copied(env) for env in pair) for pair in self.calls]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for pair in new:
                    for env in pair:
                        exec(line, env)
            except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError):
                return False
        self._undo, self.calls = self.calls, new
        return True

    def undo(self) -> None:
        """Takes the last line back."""
        self.calls = self._undo

    def variable(self, name: str) -> Variable:
        """The values that `name` has now."""
        return Variable(*([np.asarray(pair[i][name]) for pair in self.calls] for i in (0, 1)))


def _copied(env: dict[str, Any]) -> dict[str, Any]:
    """The environment with arrays that may be changed in place."""
    copied = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in env.items()
              if n != "__builtins__"}
    state = env["s"]
    copied["s"] = types.SimpleNamespace(**{
        n: v.copy() if isinstance(v, (np.ndarray, list)) else v for n, v in vars(state).items()})
    return copied


def is_tame(variable: Variable) -> bool:
    """True if differences of rounding stay small: no overflow that wide floats do not have."""
    for value, wide in zip(variable.values, variable.wide):
        if value.size > MOST_ELEMENTS:
            return False
        if not is_float(value.dtype) or same(value, wide):
            continue
        finite = np.isfinite(wide)
        narrow = value.astype(np.float64)
        if not np.array_equal(np.isfinite(narrow), finite):
            return False
        if finite.any() and np.abs(wide[finite]).max() > LARGEST:
            return False
        error = np.abs(narrow[finite] - wide[finite])
        if error.size and error.max() > 0.05 * (1 + np.abs(wide[finite]).max()):
            return False
    return True


def environments(half: str, inputs: list[dict[str, np.ndarray]],
                 states: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The environments of all calls, before the first line."""
    calls = []
    for arrays, state in zip(inputs, states):
        pair = []
        for wide in (False, True):
            xp = Numpy(half, wide)
            env = {n: xp.array(a) for n, a in arrays.items()}
            held = {n: xp.array(v) if isinstance(v, np.ndarray) else v for n, v in state.items()}
            pair.append(env | {"xp": xp, "s": types.SimpleNamespace(**held)})
        calls.append(tuple(pair))
    return calls
