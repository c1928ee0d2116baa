"""Creates windows: factors of the samples of a frame, 1 in its middle and small at its ends.

All functions share these parameters. size: number of factors. sym: True makes the window symmetric;
False leaves out the last of size + 1 factors, as for a window that repeats. Default True. dtype: a
real float. Default float32. device: default the current device. They raise ShapeError for a
negative size and DTypeError for a dtype that is not real and floating.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import whole
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.create import arange
from ...ops.elementwise.pointwise import abs, cast, clip, cos, exp, sin, sqrt, square
from ...ops.special.special import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]


class _Frame:
    """The positions 0, 1, ... of the factors of a window, in float64, and its middle."""

    def __init__(self, name: str, size: Any, sym: bool, dtype: Any, device: Any) -> None:
        self.dtype = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
        if dtypes.kind(self.dtype) != "f":
            raise DTypeError(f"{name}: windows are real floats, not {self.dtype.name}",
                             "leave dtype out, or use fw.float64")
        count = whole(size)
        if count is None or count < 0:
            raise ShapeError(f"{name}: a window of {size!r} factors", "ask for 0 factors or more")
        self.count = count if sym or count < 2 else count + 1
        self.last = max(self.count - 1, 1)
        self.middle = (self.count - 1) / 2
        self.positions = arange(count, dtype=dtypes.float64, device=device)

    def rounded(self, window: Tensor) -> Tensor:
        return cast(window, self.dtype)


def general_cosine(size: int, *, a: Sequence[float], sym: bool = True, dtype: Any = None,
                   device: Any = None) -> Tensor:
    """a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., with t from 0 to 2 pi: (size,).

    Raises:
        ArgumentError: `a` is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    return _cosines("general_cosine", size, a, sym, dtype, device)


def _cosines(name: str, size: int, a: Sequence[float], sym: bool, dtype: Any, device: Any
             ) -> Tensor:
    if not len(a):
        raise ArgumentError(f"{name}: no coefficients", "give one for each cosine: a=[0.5, 0.5]")
    frame = _Frame(name, size, sym, dtype, device)
    if size == 1:
        return frame.rounded(frame.positions + 1.0)
    angle = frame.positions * (2 * math.pi / frame.last)
    total = angle * 0.0
    for order, factor in enumerate(a):
        total = total + cos(angle * order) * (-factor if order % 2 else factor)
    return frame.rounded(total)


def general_hamming(size: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None,
                    device: Any = None) -> Tensor:
    """alpha - (1 - alpha) cos(t), with t from 0 to 2 pi: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.general_hamming(3, alpha=0.75)
        tensor([0.5, 1. , 0.5])
    """
    return _cosines("general_hamming", size, (alpha, 1.0 - alpha), sym, dtype, device)


def hamming(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """0.54 - 0.46 cos(t), with t from 0 to 2 pi: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.hamming(3)
        tensor([0.08, 1.  , 0.08])
    """
    return _cosines("hamming", size, (0.54, 0.46), sym, dtype, device)


def hann(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """0.5 - 0.5 cos(t), with t from 0 to 2 pi: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.hann(4, sym=False)
        tensor([0. , 0.5, 1. , 0.5])
    """
    return _cosines("hann", size, (0.5, 0.5), sym, dtype, device)


def blackman(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """0.42 - 0.5 cos(t) + 0.08 cos(2 t), with t from 0 to 2 pi: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.blackman(5)[1:4]
        tensor([0.34, 1.  , 0.34])
    """
    return _cosines("blackman", size, (0.42, 0.5, 0.08), sym, dtype, device)


def nuttall(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The sum of four cosines with the lowest side lobes, after Nuttall (1981): (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.nuttall(3)
        tensor([3.628e-04, 1.000e+00, 3.628e-04])
    """
    return _cosines("nuttall", size, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, dtype,
                    device)


def bartlett(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The triangle from 0 to 1 to 0: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.bartlett(5)
        tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    frame = _Frame("bartlett", size, sym, dtype, device)
    if size == 1:
        return frame.rounded(frame.positions + 1.0)
    return frame.rounded(1.0 - abs(frame.positions * (2.0 / frame.last) - 1.0))


def cosine(size: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The half wave of a sine, sampled in the middle of each of `size` parts: (size,).

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.cosine(1)
        tensor([1.])
    """
    frame = _Frame("cosine", size, sym, dtype, device)
    return frame.rounded(sin((frame.positions + 0.5) * (math.pi / max(frame.count, 1))))


def exponential(size: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
                dtype: Any = None, device: Any = None) -> Tensor:
    """exp(-|position - center| / tau), for the positions 0, 1, ...: (size,).

    Args:
        center: position of the factor 1. Default None: the middle.
        tau: the distance at which factors are 1 / e. Default 1.

    Raises:
        ArgumentError: `tau` is not positive, or a symmetric window has a center.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.exponential(3)
        tensor([0.36787945, 1.        , 0.36787945])
    """
    frame = _Frame("exponential", size, sym, dtype, device)
    if tau <= 0:
        raise ArgumentError(f"exponential: tau={tau} is not positive", "pass a positive distance")
    if sym and center is not None:
        raise ArgumentError(f"exponential: a symmetric window with center={center}",
                            "leave the center out, or pass sym=False")
    middle = frame.middle if center is None else center
    return frame.rounded(exp(abs(frame.positions - middle) * (-1.0 / tau)))


def gaussian(size: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None,
             device: Any = None) -> Tensor:
    """exp(-(position - middle)**2 / (2 std**2)), for the positions 0, 1, ...: (size,).

    Args:
        std: the standard deviation, in positions. Default 1.

    Raises:
        ArgumentError: `std` is not positive.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.gaussian(3)
        tensor([0.60653067, 1.        , 0.60653067])
    """
    frame = _Frame("gaussian", size, sym, dtype, device)
    if std <= 0:
        raise ArgumentError(f"gaussian: std={std} is not positive", "pass a positive deviation")
    return frame.rounded(exp(square(frame.positions - frame.middle) * (-0.5 / (std * std))))


def kaiser(size: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None,
           device: Any = None) -> Tensor:
    """i0(beta sqrt(1 - t**2)) / i0(beta), with t from -1 to 1: (size,).

    Args:
        beta: the larger, the narrower the window. Default 12.

    Raises:
        ArgumentError: `beta` is negative.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.kaiser(3, beta=1.0)
        tensor([0.7898483, 1.       , 0.7898483])
    """
    frame = _Frame("kaiser", size, sym, dtype, device)
    if beta < 0:
        raise ArgumentError(f"kaiser: beta={beta} is negative", "pass 0 or a positive number")
    if size == 1:
        return frame.rounded(frame.positions + 1.0)
    inside = 1.0 - square(frame.positions * (2.0 / frame.last) - 1.0)
    window = i0(sqrt(clip(inside, 0.0, None)) * beta) / i0(frame.positions * 0.0 + beta)
    return frame.rounded(window)
