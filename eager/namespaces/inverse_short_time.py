"""Computes signals from the Fourier transforms of their overlapping windows."""

from __future__ import annotations

from typing import Any

from .. import interpreter
from ..arrays import dtypes
from ..arrays.shapes import whole
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, ShapeError
from ..ops.create import iota, ones
from ..ops.elementwise.complex import real
from ..ops.elementwise.pointwise import abs, square
from ..ops.reduction import reduce
from ..ops.shape.view import add_at, expand_to, matrix_transpose, pad, slice_axes
from .fft import ifft, irfft

__all__ = ["istft"]

_LEAST_WEIGHT = 1e-11  # sum of squared factors, below which an element is not determined


def istft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:
    """The signals with these spectra of overlapping frames: (..., frequencies, frames) -> (..., n).

    It is the inverse of a short-time Fourier transform with the same parameters, by least squares.

    Args:
        x: spectra, complex.
        n_fft: length of a frame.
        hop_length: distance of the starts of two frames. Default None: n_fft // 4.
        win_length: length of the window, which lies in the middle of a frame. Default None: n_fft.
        window: a vector (win_length,). Default None: ones.
        center: True if the signals were padded by n_fft // 2 at both ends. Default True.
        normalized: True if the spectra were divided by the root of n_fft. Default False.
        onesided: True if there are n_fft // 2 + 1 frequencies, False if there are n_fft. Default
            None: the number of frequencies tells.
        length: of the result, which is cut or padded with zeros. Default None: all of it.
        return_complex: True returns complex signals, for spectra of n_fft frequencies. Default
            False.

    Raises:
        DTypeError: `x` is not complex.
        ArgumentError: a length is not a whole number of 1 or more, win_length is above n_fft, or a
            complex result of n_fft // 2 + 1 frequencies is wanted.
        ShapeError: the number of frequencies does not fit, there are no frames, `window` has
            another length, or it is 0 for all frames of an element.

    Example:
        >>> import fusewire as fw
        >>> fw.istft(fw.ones(3, 2, dtype="complex64"), n_fft=4, hop_length=2)
        tensor([0.5, 0. ])
    """
    x = reduce.floating("istft", x, "c")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _check_lengths(n_fft, hop, width)
    half = _is_half(x, n_fft, onesided, return_complex)
    factors = _factors(window, n_fft, width, x)
    norm = "ortho" if normalized else None
    spectra = matrix_transpose(x)
    frames = irfft(spectra, n=n_fft, norm=norm) if half else ifft(spectra, norm=norm)
    frames = frames if return_complex or half else real(frames)
    total = _overlapped(frames * factors, hop)
    weight = _overlapped(expand_to(square(abs(factors)), frames.shape[-2:]), hop)
    return _cut(total, weight, n_fft // 2 if center else 0, length)


def _check_lengths(n_fft: Any, hop: Any, width: Any) -> None:
    for name, n in (("n_fft", n_fft), ("hop_length", hop), ("win_length", width)):
        if whole(n) is None or n < 1:
            raise ArgumentError(f"istft: {name}={n!r}", "it is a whole number of 1 or more")
    if width > n_fft:
        raise ArgumentError(f"istft: win_length={width} is above n_fft={n_fft}",
                            "the window lies inside a frame")


def _is_half(x: Tensor, n_fft: int, onesided: bool | None, return_complex: bool) -> bool:
    """True if `x` has the frequencies of real signals only."""
    if x.ndim < 2 or x.shape[-1] == 0:
        raise ShapeError(f"istft: takes spectra (..., frequencies, frames), got shape {x.shape}",
                         "one frame is x[..., None]")
    half = x.shape[-2] != n_fft if onesided is None else onesided
    count = n_fft // 2 + 1 if half else n_fft
    if x.shape[-2] != count:
        raise ShapeError(f"istft: {x.shape[-2]} frequencies for n_fft={n_fft}",
                         f"there are {n_fft // 2 + 1} of real signals, {n_fft} of complex ones")
    if half and return_complex:
        raise ArgumentError("istft: complex signals have n_fft frequencies",
                            "leave return_complex out, or pass all frequencies")
    return half


def _factors(window: Any, n_fft: int, width: int, x: Tensor) -> Tensor:
    """The window with zeros at both ends, as long as a frame."""
    if window is None:
        window = ones((width,), dtype=dtypes.real_of(x.dtype), device=x.device)
    window = as_tensor("istft", window)
    if window.shape != (width,):
        raise ShapeError(f"istft: a window of shape {window.shape}", f"it has the shape ({width},)")
    before = (n_fft - width) // 2
    return pad(window, [(before, n_fft - width - before)])


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sums of frames that start `hop` elements apart: (..., frames, size) -> (..., n)."""
    count, size = frames.shape[-2:]
    starts = iota((count, size), 0, device=frames.device) * hop
    positions = starts + iota((count, size), 1, device=frames.device)
    return add_at(frames, positions, (count - 1) * hop + size, frames.ndim - 2)


def _cut(total: Tensor, weight: Tensor, edge: Any, length: Any) -> Tensor:
    """The signals without padding: the sums divided by the weights of their elements."""
    n = total.shape[-1]
    count = max(n - 2 * edge, 0) if length is None else min(length, n - edge)
    total, weight = (slice_axes(x, (0,) * (x.ndim - 1) + (edge,), (1,) * x.ndim,
                                (*x.shape[:-1], count)) for x in (total, weight))
    if interpreter.can_read_values() and count and reduce.min(weight).item() < _LEAST_WEIGHT:
        raise ShapeError("istft: the window is 0 for all frames of an element",
                         "choose a smaller hop_length, or center=True")
    out = total / weight
    if length is None or length == count:
        return out
    return pad(out, [(0, 0)] * (out.ndim - 1) + [(0, length - count)])
