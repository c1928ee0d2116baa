"""Measures the errors of functions that sum many numbers, against formulas in high precision.

The bound is 4 times the error of the formula in NumPy along a contiguous axis, where NumPy sums
pairwise, plus some units in the last place. The order of a product does not matter to its error, so
products are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fusewire as fw

TIMES = 4.0  # NumPy's error
UNITS = 8.0  # in the last place of a result's scale: errors may cancel in NumPy

Axis = tuple[int, ...]


class Summing(NamedTuple):
    """A function along axes, its formula for rows of a matrix, and the scale of its errors.

    `keeps`: the result has the axes that the function sums over
    """

    run: Callable[[Any, Axis], Any]
    formula: Callable[[Any], Any]
    scale: Callable[[Any], Any]
    keeps: bool = False


class Layout(NamedTuple):
    """A shape whose sums have `length` elements along `axes`."""

    shape: tuple[int, ...]
    axes: Axis


def _spread(v: Any) -> Any:
    return np.abs(v).sum(1)


def _centred(v: Any) -> Any:
    return v - v.mean(1, keepdims=True)


def _variance(v: Any) -> Any:
    c = _centred(v)
    return (c * c).mean(1)


def _variance_scale(v: Any) -> Any:
    """The variance, plus the error of a rounded mean, which shifts every element."""
    return _variance(v) + np.finfo(np.float32).eps * v.mean(1) ** 2


def _normalized(v: Any) -> Any:
    return _centred(v) / np.sqrt(_variance(v) + v.dtype.type(1e-5))[:, None]


def _normalized_scale(v: Any) -> Any:
    mean = np.abs(v.mean(1)) / np.sqrt(_variance(v) + 1e-5)
    return np.abs(_normalized(v)) + 1 + mean[:, None]


def _shares(v: Any) -> Any:
    e = np.exp(v - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _logsumexp(v: Any) -> Any:
    top = v.max(1)
    return np.log(np.exp(v - top[:, None]).sum(1)) + top


def _norm(v: Any) -> Any:
    return np.sqrt((v * v).sum(1))


def _normalize(x: Any, axes: Axis) -> Any:
    """A normalization over `axes`: layer_norm, group_norm or batch_norm."""
    f = fw.nn.functional
    if axes == (x.ndim - 1,):
        return f.layer_norm(x, x.shape[-1:])
    if x.ndim == 3 and axes == (1,):
        return fw.permute_dims(f.group_norm(fw.permute_dims(x, (0, 2, 1)), x.shape[2]), (0, 2, 1))
    return f.batch_norm(x, None, None, training=True)


SUMMING = {
    "sum": Summing(lambda x, a: x.sum(a), lambda v: v.sum(1), _spread),
    "mean": Summing(lambda x, a: x.mean(a), lambda v: v.mean(1), lambda v: np.abs(v).mean(1)),
    "var": Summing(lambda x, a: x.var(a), _variance, _variance_scale),
    "std": Summing(lambda x, a: x.std(a), lambda v: np.sqrt(_variance(v)),
                   lambda v: _variance_scale(v) / np.sqrt(_variance(v) + 1e-30)),
    "norm": Summing(lambda x, a: fw.linalg.vector_norm(x, axis=a), _norm, _norm),
    "logsumexp": Summing(lambda x, a: fw.logsumexp(x, a), _logsumexp,
                         lambda v: np.abs(_logsumexp(v)) + 1),
    "softmax": Summing(lambda x, a: fw.softmax(x, a[0]), _shares,
                       lambda v: _shares(v) * (8 + np.abs(v - v.max(1, keepdims=True))), True),
    "cumulative_sum": Summing(lambda x, a: fw.cumulative_sum(x, axis=a[0]),
                              lambda v: np.cumsum(v, 1, np.longdouble),
                              lambda v: np.cumsum(np.abs(v), 1), True),
    "normalize": Summing(_normalize, _normalized, _normalized_scale, True),
}

ONE_AXIS = ("softmax", "cumulative_sum", "normalize")
CENTRED = ("var", "std", "normalize")  # for equal numbers the result is only rounding


def layouts(name: str, length: int) -> list[Layout]:
    """Shapes with sums of `length` elements over the last, the first, a middle, or several axes."""
    count = max(1, length // 8)
    shapes = [Layout((3, length), (1,)), Layout((length, 5), (0,)), Layout((2, length, 3), (1,)),
              Layout((8, 3, count), (0, 2)), Layout((count, 8, 4), (0, 1)), Layout((length,), (0,))]
    return [x for x in shapes if len(x.axes) == 1 or name not in ONE_AXIS]


def offsets(name: str) -> list[float]:
    """The offsets of a function's numbers; nan for equal numbers."""
    return [0.0, 1e2, 1e4, 1e6, *([] if name in CENTRED else [math.nan])]


def numbers(layout: Layout, offset: float, dtype: Any, seed: int) -> Any:
    """Normal numbers around `offset`; equal numbers if it is nan."""
    normal = np.random.default_rng(seed).standard_normal(layout.shape)
    return np.full(layout.shape, 0.1,
                   dtype) if np.isnan(offset) else (normal + offset).astype(dtype)


def as_rows(x: Any, axes: Axis, keeps: bool) -> Any:
    """The elements of `x` as a matrix; each row holds the elements of one sum."""
    rest = [i for i in range(x.ndim) if i not in axes]
    size = int(np.prod([x.shape[i] for i in axes]))
    return np.ascontiguousarray(x.transpose([*rest, *axes])).reshape(-1, size)


def of_bound(name: str, x: Any, axes: Axis, got: Any) -> float:
    """The error of a result, divided by the bound."""
    summing = SUMMING[name]
    rows = as_rows(x, axes, False)
    exact, wide = rows.astype(np.longdouble), np.finfo(x.dtype).eps
    exact_result, scale = summing.formula(exact), summing.scale(exact) + np.finfo(np.float64).tiny
    numpy_result = summing.formula(rows)
    result = as_rows(got, axes, True) if summing.keeps else got.reshape(-1)
    errors = [float(np.max(np.abs(r - exact_result) / scale)) for r in (result, numpy_result)]
    return errors[0] / (TIMES * errors[1] + UNITS * float(wide))
