"""Computes the Fourier transforms of overlapping frames of a signal, and the signal from them."""

from __future__ import annotations

from typing import Any

from ..arguments import check_whole, names_itself
from ..arrays import dtypes
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, ShapeError
from ..ops.create import iota, ones
from ..ops.elementwise.complex import conj_of, real
from ..ops.shape.padding import pad
from ..ops.shape.take import add_at
from ..ops.shape.view import broadcast_to, matrix_transpose, reshape, slice_axes
from ..ops.shape.window import unfold
from .fft import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]


@names_itself
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
    hop, width = _lengths("stft", n_fft, hop_length, win_length)
    if not return_complex:
        raise ArgumentError("stft: the result is complex, return_complex cannot be False",
                            "fw.view_as_real(fw.stft(...)) has pairs of real numbers")
    if x.ndim == 0:
        raise ShapeError("stft: takes signals (..., n), got a 0-d tensor", "give it an axis")
    window = _padded("stft", window, n_fft, width, x)
    if center:
        x = pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad_mode)
    if x.shape[-1] < n_fft:
        raise ShapeError(f"stft: a signal of {x.shape[-1]} elements is shorter than a frame of "
                         f"{n_fft}", "pad the signal, or choose a smaller n_fft")
    frames = unfold(x, -1, n_fft, hop) * window
    half = frames.dtype.kind != "c" if onesided is None else onesided
    transform = rfft if half else fft
    return matrix_transpose(transform(frames, norm="ortho" if normalized else None))


@names_itself
def istft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:
    """The signals with the spectra `x` of `stft`: (..., frequencies, frames) -> (..., n).

    Where frames overlap, their sum is divided by that of the squared windows. It is nan where all
    windows are 0.

    Args:
        x: spectra, complex.
        n_fft, hop_length, win_length, window, center, normalized: as `stft` was called.
        onesided: True for n_fft // 2 + 1 frequencies. Default None: by the number of frequencies.
        length: n; a longer signal is cut, zeros follow a shorter one. Default None: up to the
            centre of the last frame, or to its end without `center`.
        return_complex: True returns complex numbers, for spectra of all frequencies only.
            Default False.

    Raises:
        ArgumentError: a length is not a whole number of 1 or more, win_length is above n_fft, or
            `return_complex` is True for half spectra.
        ShapeError: `x` has fewer than two axes or another number of frequencies, or `window` has
            another length.

    Example:
        >>> import fusewire as fw
        >>> fw.istft(fw.stft(fw.ones(8), n_fft=4), n_fft=4)
        tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    x = as_tensor("istft", x)
    hop, width = _lengths("istft", n_fft, hop_length, win_length)
    if length is not None:
        check_whole("istft", "length", length, 0)
    half = _is_half(x, n_fft, onesided, return_complex)
    window = _padded("istft", window, n_fft, width, x)
    rows, norm = matrix_transpose(x), "ortho" if normalized else None
    frames = irfft(rows, n_fft, norm=norm) if half else ifft(rows, norm=norm)
    frames = frames if half or return_complex else real(frames)
    squares = broadcast_to(window * conj_of(window), frames.shape[-2:])
    signal = _overlapped(frames * conj_of(window), hop) / _overlapped(squares, hop)
    return _cut(signal, n_fft // 2 if center else 0, length)


def _is_half(x: Tensor, n_fft: int, onesided: bool | None, return_complex: bool) -> bool:
    """True for spectra of half the frequencies, as of real signals."""
    if x.ndim < 2:
        raise ShapeError(f"istft: takes spectra (..., frequencies, frames), got shape {x.shape}",
                         "fw.stft makes them")
    half = x.shape[-2] != n_fft if onesided is None else onesided
    count = n_fft // 2 + 1 if half else n_fft
    if x.shape[-2] != count:
        raise ShapeError(f"istft: {x.shape[-2]} frequencies of frames of n_fft={n_fft}",
                         f"there are {count}, along the second to last axis")
    if half and return_complex:
        raise ArgumentError("istft: half spectra are those of real signals",
                            "leave return_complex out")
    return half


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum of frames (..., count, n), each `hop` elements after the last one."""
    *lead, count, n = frames.shape
    start = iota((count, n), 0, device=frames.device) * hop
    index = reshape(start + iota((count, n), 1, device=frames.device), (-1,))
    flat = reshape(frames, (*lead, count * n))
    return add_at(flat, index, (count - 1) * hop + n, len(lead))


def _cut(signal: Tensor, start: int, length: int | None) -> Tensor:
    """The signal from `start` on: `length` elements, by default up to `start` before the end."""
    n = signal.shape[-1]
    count = n - 2 * start if length is None else min(length, n - start)
    lead = signal.ndim - 1
    out = slice_axes(signal, (*(0,) * lead, start), (1,) * (lead + 1), (*signal.shape[:-1], count))
    if length is None or length <= count:
        return out
    return pad(out, [(0, 0)] * lead + [(0, length - count)])


def _lengths(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[Any, Any]:
    """The distance of two frames and the length of the window."""
    check_whole(name, "n_fft", n_fft, 1)
    hop = check_whole(name, "hop_length", n_fft // 4 if hop_length is None else hop_length, 1)
    width = check_whole(name, "win_length", n_fft if win_length is None else win_length, 1)
    if width > n_fft:
        raise ArgumentError(f"{name}: win_length={width} is above n_fft={n_fft}",
                            "the window lies inside a frame")
    return hop, width


def _padded(name: str, window: Any, n_fft: int, width: int, x: Tensor) -> Tensor:
    """The window with zeros at both ends, as long as a frame."""
    if window is None:
        window = ones((width,), dtype=dtypes.real_of(x.dtype), device=x.device)
    window = as_tensor(name, window)
    if window.shape != (width,):
        raise ShapeError(f"{name}: a window of shape {window.shape}",
                         f"it has the shape ({width},)")
    before = (n_fft - width) // 2
    return pad(window, (before, n_fft - width - before)) if width < n_fft else window
