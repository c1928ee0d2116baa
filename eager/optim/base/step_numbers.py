"""Computes with settings and counts: Python floats in an eager step, tensors in a trace.

An eager step computes with them in double precision as PyTorch does. In a trace they are 0-d
tensors of float64, so that the next call may have other values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays.dtypes import float32, float64
from ...core.tensor import Tensor, tensor
from ...ops.elementwise.pointwise import cast, expm1, log, sqrt, where
from ...ops.shape.view import reshape
from .groups import Setting

Number = Any  # float | Tensor
PLAIN = {float, int, bool, str, type(None)}  # types of settings that need no conversion


def number(value: Any, recorded: bool) -> Any:
    """A setting as a number; tuples of numbers too, everything else unchanged."""
    if type(value) is Setting:
        value = value.tensor
    if isinstance(value, Tensor):
        if not recorded:
            return value._data.item()
        return cast(value if value._data.shape == () else reshape(value, ()), float64)
    if type(value) is tuple:
        return tuple([number(v, recorded) for v in value])
    return value


def as_count(x: Number) -> Tensor:
    """The number `x` as a tensor of float32, the form in which the state holds it."""
    return cast(x, float32) if isinstance(x, Tensor) else Tensor(np.array(x, float32))


def is_zero(x: Number) -> bool:
    """True if a setting is the Python number 0, so that its term can be left out."""
    return not isinstance(x, Tensor) and x == 0


def choose(condition: Any, yes: Number, no: Number) -> Number:
    """`yes` if the condition holds, else `no`."""
    if not isinstance(condition, Tensor):
        return yes if condition else no
    return where(condition, _double(yes), _double(no))


def correction(beta: Number, step: Number) -> Number:
    """1 - beta ** step: the sum of the weights in a running mean that starts at 0."""
    if not isinstance(step, Tensor):
        return 1 - beta ** step
    if isinstance(beta, Tensor):
        return -expm1(step * log(beta))  # type: ignore[operator]
    return -expm1(step * (math.log(beta) if beta > 0 else -math.inf))  # type: ignore[operator]


def root(x: Number) -> Number:
    """The square root."""
    return sqrt(x) if isinstance(x, Tensor) else math.sqrt(x)


def single(x: Number) -> Number:
    """`x` rounded to float32."""
    if isinstance(x, Tensor):
        return cast(cast(x, float32), float64)
    return float32.type(x).item()


def _double(x: Number) -> Tensor:
    return x if isinstance(x, Tensor) else tensor(x, dtype=float64)
