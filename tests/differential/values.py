"""Inputs of random programs: arrays with the values that arithmetic goes wrong at."""

from __future__ import annotations

from typing import Any

import numpy as np

from .namespaces import HALVES, INTEGERS, is_float

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
STYLES = ("grid", "grid", "normal", "special")


def dtype_named(name: str) -> np.dtype:
    """The NumPy dtype of that name, those of ml_dtypes included."""
    return HALVES.get(name) or np.dtype(name)


def floats(rng: Any, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    """Multiples of 1/4, normal numbers, or multiples with NaN, infinities and -0.0 among them."""
    if style == "normal":
        return rng.standard_normal(shape).astype(dtype)
    values = rng.integers(-16, 17, shape) / 4
    if style == "special":
        values = np.where(rng.random(shape) < 0.15, rng.choice(SPECIAL, shape), values)
    return values.astype(dtype)


def integers(rng: Any, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    """Small numbers, or the whole range with its ends, so that arithmetic wraps around."""
    info = np.iinfo(dtype)
    if style == "grid":
        return rng.integers(max(info.min, -5), 8, shape).astype(dtype)
    values = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    ends = rng.choice(np.array([info.min, info.max, 0, 1], dtype), shape)
    return np.where(rng.random(shape) < 0.25, ends, values).astype(dtype)


def array(rng: Any, shape: tuple[int, ...], name: str, style: str) -> np.ndarray:
    """An array of `shape` and the dtype called `name`."""
    if name == "bool":
        return rng.random(shape) < 0.5
    dtype = dtype_named(name)
    return (floats if is_float(dtype) else integers)(rng, shape, dtype, style)


DTYPES = ("float32",) * 8 + ("float64", "float16", "bfloat16", "bool", "int64", "int32") + INTEGERS
