"""Computes the Fourier transforms of overlapping windows of a signal."""

from __future__ import annotations

from typing import Any

from ..arrays import dtypes
from ..arrays.shapes import whole
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, ShapeError
from ..ops.create import ones
from ..ops.shape.padding import pad
from ..ops.shape.view import matrix_transpose
from ..ops.shape.window import unfold
from .fft import fft, rfft

__all__ = ["stft"]


def stft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool = True,
) -> Tensor:
    """The spectra of overlapping frames of signals: (..., n) -> (..., frequencies, frames).

    Args:
        x: signals, real or complex.
        n_fft: length of a frame.
        hop_length: distance of the starts of two frames. Default None: n_fft // 4.
        win_length: length of the window, which lies in the middle of a frame. Default None: n_fft.
        window: a vector (win_length,) by which frames are multiplied. Default None: ones.
        center: True pads the signal by n_fft // 2 at both ends, so that frame t is centred at
            element t * hop_length. Default True.
        pad_mode: the `mode` of `fw.pad`. Default "reflect".
        normalized: True divides by the root of n_fft. Default False.
        onesided: True returns the n_fft // 2 + 1 frequencies from 0 on, False all n_fft. Default
            None: True if `x` and `window` are real.
        return_complex: accepted for compatibility: the result is complex.

    Raises:
        ArgumentError: a length is not a whole number of 1 or more, win_length is above n_fft, or
            `return_complex` is False.
        ShapeError: the signal is shorter than a frame, or `window` has another length.
        DTypeError: `onesided` is True for complex numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.stft(fw.ones(8), n_fft=4).shape
        (3, 9)
    """
    x = as_tensor("stft", x)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _check(x, n_fft, hop, width, return_complex)
    window = _padded(window, n_fft, width, x)
    if center:
        x = pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad_mode)
    if x.shape[-1] < n_fft:
        raise ShapeError(f"stft: a signal of {x.shape[-1]} elements is shorter than a frame of "
                         f"{n_fft}", "pad the signal, or choose a smaller n_fft")
    frames = unfold(x, -1, n_fft, hop) * window
    half = frames.dtype.kind != "c" if onesided is None else onesided
    transform = rfft if half else fft
    return matrix_transpose(transform(frames, norm="ortho" if normalized else None))


def _check(x: Tensor, n_fft: Any, hop: Any, width: Any, return_complex: bool) -> None:
    for name, n in (("n_fft", n_fft), ("hop_length", hop), ("win_length", width)):
        if whole(n) is None or n < 1:
            raise ArgumentError(f"stft: {name}={n!r}", "it is a whole number of 1 or more")
    if width > n_fft:
        raise ArgumentError(f"stft: win_length={width} is above n_fft={n_fft}",
                            "the window lies inside a frame")
    if not return_complex:
        raise ArgumentError("stft: the result is complex, return_complex cannot be False",
                            "fw.view_as_real(fw.stft(...)) has pairs of real numbers")
    if x.ndim == 0:
        raise ShapeError("stft: takes signals (..., n), got a 0-d tensor", "give it an axis")


def _padded(window: Any, n_fft: int, width: int, x: Tensor) -> Tensor:
    """The window with zeros at both ends, as long as a frame."""
    if window is None:
        window = ones((width,), dtype=dtypes.real_of(x.dtype), device=x.device)
    window = as_tensor("stft", window)
    if window.shape != (width,):
        raise ShapeError(f"stft: a window of shape {window.shape}", f"it has the shape ({width},)")
    before = (n_fft - width) // 2
    return pad(window, (before, n_fft - width - before)) if width < n_fft else window
