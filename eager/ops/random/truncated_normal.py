"""Draws from normal distributions between limits, which may lie far from the mean."""

from __future__ import annotations

import math
from typing import Any

from ... import interpreter
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..elementwise.clip import clip
from ..elementwise.pointwise import expm1, log, log1p, maximum, sqrt, where
from ..special.special import erfcx, ndtr, ndtri
from .distributions import TINY, Draw
from .generator import Generator

__all__: list[str] = []


def truncated_normal(mean: Any = 0.0, std: Any = 1.0, low: Any = -2.0, high: Any = 2.0,
                     size: Any = None, *, dtype: Any = None, generator: Generator | None = None,
                     device: Any = None) -> Tensor:
    """Normal random numbers, on the condition that they lie in the range from `low` to `high`.

    The other parameters and errors are those of `normal`.

    Args:
        mean, std: of the normal distribution before truncation. Default 0 and 1.
        low, high: limits of the numbers, not multiples of `std`. Default -2 and 2.

    Raises:
        ArgumentError: `std` is not above 0, or `low` is above `high`.

    Example:
        >>> import fusewire as fw
        >>> bool((abs(fw.random.truncated_normal(size=(100,))) <= 2).all())
        True
    """
    d = Draw("truncated_normal", (mean, std, low, high), size, dtype, generator, device)
    d.require("std", 1, TINY)
    mean, std, low, high = d.parameters
    if not interpreter.in_use and bool((low > high).any()):
        raise ArgumentError("truncated_normal: the lower limit is above the upper one")
    a, b = (low - mean) / std, (high - mean) / std
    right = a > 0  # the mirror image is drawn, since differences near 1 lose digits
    near, far = where(right, a, -b), where(right, b, -a)
    first, last = ndtr(-far), ndtr(-near)
    even = d.even()
    z = -ndtri(first + even * (last - first))
    tail = near > _TAIL
    if interpreter.in_use or bool(tail.any()):
        z = where(tail, _tail(even, maximum(near, _TAIL), far), z)
    return d.result(clip(mean + std * where(right, z, -z), low, high))


_TAIL = 4.0  # limit in standard deviations; the probabilities behind it lose digits


def _tail(even: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Numbers from `near` to `far` with the density exp(-z * z / 2), for near >= 4.

    Newton's method inverts the logarithm of the probability of larger numbers, which is that of
    erfcx(z / sqrt(2)) less z * z / 2 and a constant.
    """
    root = math.sqrt(0.5)
    log_near = log(erfcx(near * root))

    def log_ratio(z: Tensor) -> Tensor:
        return log(erfcx(z * root)) - log_near - (z - near) * (z + near) / 2

    target = log1p(even * expm1(log_ratio(far)))
    z = sqrt(near * near - target * 2)  # the inverse for a constant erfcx
    for _ in range(3):
        z = z + (log_ratio(z) - target) * erfcx(z * root) * math.sqrt(math.pi / 2)
    return z
