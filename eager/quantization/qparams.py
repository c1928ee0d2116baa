"""Computes scales and zeros: the floats that 8-bit numbers stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ops.layers.quantized import LARGEST_BIAS, limits

_MAX_CODE = 127  # of weights, on both sides of 0
_MIN_SCALE = float(np.finfo(np.float32).tiny)  # smaller scales lose bits


class QuantParams(NamedTuple):
    """The floats (q - zero) * scale for all numbers q of an 8-bit dtype."""

    scale: float
    zero: int
    dtype: Any

    def nearest(self, x: Any) -> Any:
        """The floats of the grid nearest to `x`."""
        low, high = limits(self.dtype)
        codes = np.clip(np.rint(x / self.scale) + self.zero, low, high)
        return (codes - self.zero) * self.scale


def grid_over(low: float, high: float, symmetric: bool) -> QuantParams:
    """The grid from `low` to `high` that contains 0: uint8, or int8 with zero 0 if `symmetric`."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return QuantParams(_usable(max(-low, high) / _MAX_CODE), 0, np.dtype(np.int8))
    first, last = limits(np.uint8)
    scale = _usable((high - low) / (last - first))
    return QuantParams(scale, int(np.clip(np.rint(-low / scale), first, last)), np.dtype(np.uint8))


def _usable(scale: float) -> float:
    """`scale` as float32, and 1 for the scale 0."""
    return float(np.float32(max(scale, _MIN_SCALE))) if scale > 0 else 1.0


def weight_codes(weight: Any, per_channel: bool, least: Any = 0.0) -> tuple[Any, Any]:
    """A weight in int8, and its scale for each channel, axis 0; no scale is below `least`."""
    top = np.abs(weight.reshape(weight.shape[0], -1)).max(1)
    if not per_channel:
        top = np.full_like(top, top.max())
    scale = np.maximum(top / np.float32(_MAX_CODE), least)
    scale = np.where(scale > 0, np.maximum(scale, _MIN_SCALE), 1.0).astype(np.float32)
    along = scale.reshape(-1, *[1] * (weight.ndim - 1))
    return np.clip(np.rint(weight / along), -_MAX_CODE, _MAX_CODE).astype(np.int8), scale


def bias_codes(bias: Any, unit: Any) -> Any:
    """A bias in int32, in multiples of `unit`, the scale of its channel."""
    codes = np.rint(bias.astype(np.float64) / unit)
    return np.clip(codes, -LARGEST_BIAS, LARGEST_BIAS).astype(np.int32)


def least_scale(bias: Any, input_scale: float) -> Any:
    """The smallest scale of a weight, for each channel, with which the bias fits in int32 sums."""
    return np.abs(bias).astype(np.float32) / np.float32(input_scale * LARGEST_BIAS)
