"""Converts numbers: nan and infinities to finite ones, radians to degrees, polar coordinates."""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_number
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ..declare import alias, prepare
from .complex import complex, imag, real
from .pointwise import cos, equal, isnan, sin, where

__all__ = ["nan_to_num", "polar", "rad2deg"]


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """`x` with finite numbers in the place of nan, inf and -inf.

    The gradient of a replaced element is 0. Both parts of complex numbers are replaced.

    Args:
        nan: replaces nan. Default 0.
        posinf: replaces inf. Default None: the largest number of the dtype.
        neginf: replaces -inf. Default None: the smallest number of the dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nan_to_num(fw.tensor([float("nan"), 1.0, float("inf")]), posinf=9.0)
        tensor([0., 1., 9.])
    """
    check_number("nan_to_num", "nan", nan)
    for name, number in (("posinf", posinf), ("neginf", neginf)):
        if number is not None:
            check_number("nan_to_num", name, number)
    x = as_tensor("nan_to_num", x)
    if x.dtype.kind == "c":
        return complex(*[nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x))])
    if dtypes.kind(x.dtype) != "f":
        return alias(x)
    limits = dtypes.finfo(x.dtype)
    x = where(equal(x, math.inf), limits.max if posinf is None else posinf,
              where(equal(x, -math.inf), limits.min if neginf is None else neginf, x))
    return where(isnan(x), nan, x)


def rad2deg(x: Any) -> Tensor:
    """The angles `x` in degrees: x * 180 / pi.

    Args:
        x: tensor, array or number of angles in radians; integers and bool become float32.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.rad2deg(fw.tensor([0.0, 1.5707964]))
        tensor([ 0., 90.])
    """
    (x,) = prepare("rad2deg", (x,), "real float")
    return x * (180.0 / math.pi)


def polar(abs: Any, angle: Any) -> Tensor:
    """The complex numbers with these absolute values and angles; shapes broadcast.

    Args:
        abs: absolute values, real.
        angle: angles to the positive real axis in radians, real.

    Raises:
        DTypeError: an operand is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.polar(fw.tensor([2.0]), fw.tensor([0.0]))
        tensor([2.+0.j])
    """
    size, angle = prepare("polar", (abs, angle), "real float")
    return complex(size * cos(angle), size * sin(angle))
