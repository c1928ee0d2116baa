"""Creates windows, by which frames of a signal are multiplied before a Fourier transform.

Each function returns a vector of M numbers. `sym` says whether the window is symmetric, or one
period of a function whose period is M, as transforms need it. Windows are computed in float64 and
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...arguments import check_at_least, check_number, check_whole, names_itself
from ...arrays import dtypes
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError
from ...ops.create import iota
from ...ops.elementwise.pointwise import abs, cast, cos, exp, maximum, sin, sqrt
from ...ops.special.special import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]


def general_cosine(
    M: int, *, a: Sequence[float], sym: bool = True, dtype: Any = None, device: Any = None
) -> Tensor:
    """The window a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., with t from 0 to 2 pi.

    Args:
        M: number of elements; a window of one element is 1.
        a: the coefficients.
        sym: True makes a symmetric window, False one period. Default True.
        dtype: of the result, a real float. Default float32.
        device: of the result. Default: the current device.

    Raises:
        ArgumentError: `M` is negative or not a whole number, or `a` is empty.
        DTypeError: `dtype` is not a real float.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    if not len(a):
        raise ArgumentError("general_cosine: there are no coefficients", "as in a=[0.5, 0.5]")
    n, period = _steps("general_cosine", M, sym, device)
    angle = n * (2.0 * math.pi / period)
    total = n * 0.0 + float(a[0])
    for k, coefficient in enumerate(a[1:], 1):
        total = total + cos(angle * float(k)) * (float(coefficient) * (-1.0) ** k)
    return _result("general_cosine", total if M != 1 else n * 0.0 + 1.0, dtype)


@names_itself
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None
) -> Tensor:
    """The window alpha - (1 - alpha) cos(t). See `general_cosine` for other parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.general_hamming(3, alpha=0.5)
        tensor([0., 1., 0.])
    """
    check_number("general_hamming", "alpha", alpha)
    return general_cosine(M, a=(alpha, 1.0 - alpha), sym=sym, dtype=dtype, device=device)


@names_itself
def hamming(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The window 0.54 - 0.46 cos(t). See `general_cosine` for parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.hamming(3)
        tensor([0.08, 1.  , 0.08])
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device)


@names_itself
def hann(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The window 0.5 - 0.5 cos(t). See `general_cosine` for parameters and errors.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.hann(4, sym=False)
        tensor([0. , 0.5, 1. , 0.5])
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device)


@names_itself
def blackman(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The window 0.42 - 0.5 cos(t) + 0.08 cos(2 t). See `general_cosine`.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.blackman(4, sym=False)[1:]
        tensor([0.34, 1.  , 0.34])
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device)


@names_itself
def nuttall(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """Nuttall's window of four cosines with a continuous first derivative. See `general_cosine`.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.nuttall(3)
        tensor([3.628e-04, 1.000e+00, 3.628e-04])
    """
    coefficients = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return general_cosine(M, a=coefficients, sym=sym, dtype=dtype, device=device)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The triangular window, which is 0 at its ends. See `general_cosine`.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.bartlett(5)
        tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    n, period = _steps("bartlett", M, sym, device)
    return _result("bartlett", 1.0 - abs(n * (2.0 / period) - 1.0 if M != 1 else n), dtype)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Tensor:
    """The window sin(t / 2) at the middles of the steps. See `general_cosine`.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.cosine(3)
        tensor([0.5, 1. , 0.5])
    """
    n, period = _steps("cosine", M, sym, device)
    return _result("cosine", sin((n + 0.5) * (math.pi / (period + 1 if M > 1 else 1))), dtype)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None
) -> Tensor:
    """The window exp(-(d / std) ** 2 / 2), d steps from its centre. See `general_cosine`.

    Raises:
        ArgumentError: `std` is 0 or less.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.gaussian(3)
        tensor([0.60653067, 1.        , 0.60653067])
    """
    n, period = _steps("gaussian", M, sym, device)
    _check_positive("gaussian", "std", std)
    distance = (n - (period * 0.5 if M > 1 else 0.0)) / float(std)
    return _result("gaussian", exp(distance * distance * -0.5), dtype)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """The window exp(-d / tau), d steps from `center`. See `general_cosine`.

    Args:
        center: Default None: the middle; `sym` must be False for another one.
        tau: the distance at which the window is 1 / e. Default 1.

    Raises:
        ArgumentError: `tau` is 0 or less, or `center` is set for a symmetric window.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.exponential(3)
        tensor([0.36787945, 1.        , 0.36787945])
    """
    n, period = _steps("exponential", M, sym, device)
    _check_positive("exponential", "tau", tau)
    if sym and center is not None:
        raise ArgumentError(f"exponential: center={center} of a symmetric window",
                            "leave it out, or set sym=False")
    if center is not None:
        check_number("exponential", "center", center)
    middle = (period * 0.5 if M > 1 else 0.0) if center is None else float(center)
    return _result("exponential", exp(abs(n - middle) * (-1.0 / float(tau))), dtype)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None
) -> Tensor:
    """Kaiser's window, the ratio of two Bessel functions i0. See `general_cosine`.

    Args:
        beta: 0 or more; a larger one makes a narrower window. Default 12.

    Raises:
        ArgumentError: `beta` is negative.

    Example:
        >>> import fusewire as fw
        >>> fw.signal.windows.kaiser(3, beta=0.0)
        tensor([1., 1., 1.])
    """
    n, period = _steps("kaiser", M, sym, device)
    check_at_least("kaiser", "beta", beta, 0)
    t = n * (2.0 / period) - 1.0 if M != 1 else n
    inner = i0(sqrt(maximum(1.0 - t * t, 0.0)) * float(beta))
    return _result("kaiser", inner / i0(n * 0.0 + float(beta)), dtype)


def _steps(name: str, M: Any, sym: bool, device: Any) -> tuple[Tensor, Any]:
    """The numbers of the elements in float64, and the steps of a period (at least 1)."""
    check_whole(name, "M", M, 0)
    period = M - 1 if sym or M <= 1 else M
    return iota((M,), 0, dtypes.float64, device), period if period > 1 else 1


def _check_positive(name: str, what: str, value: float) -> None:
    if not check_number(name, what, value) > 0:
        raise ArgumentError(f"{name}: {what} must be above 0, got {value}")


def _result(name: str, window: Tensor, dtype: Any) -> Tensor:
    chosen = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.kind(chosen) != "f":
        raise DTypeError(f"{name}: a window holds real floats, not {chosen.name}",
                         "leave dtype out, or use fw.float64")
    return cast(window, chosen)
