"""Defines Fourier transforms, and the mel weight matrix."""

from __future__ import annotations

import numpy as np

from .....eager.core.tensor import tensor
from .....eager.namespaces import fft
from .....eager.ops.elementwise import complex as of_complex
from .....eager.ops.shape import view
from .....eager.ops.shape.join import stack
from ..runtime.table import Number, Tensor, operator
from ..runtime.values import check_room, np_dtype, type_name
from .shapes import along, axes_of

__all__: list[str] = []


def _as_complex(x: Tensor) -> Tensor:
    """The tensor without its last axis, which holds real numbers, or real and imaginary parts."""
    return of_complex.complex(x[..., 0], x[..., 1]) if x.shape[-1] == 2 else x[..., 0]


def _as_pairs(x: Tensor) -> Tensor:
    return stack([of_complex.real(x), of_complex.imag(x)], -1)


@operator("DFT", since=20)
def _dft(x: Tensor, length: Number = None, axis: Number = -2, inverse: int = 0,
         onesided: int = 0) -> Tensor:
    at = axes_of([int(axis)], x.ndim)[0]
    n = None if length is None else int(length)
    signal = _as_complex(x)
    if inverse and onesided:
        return view.expand_dims(fft.irfft(signal, n, axis=at), -1).astype(x.dtype)
    spectrum = fft.ifft(signal, n, axis=at) if inverse else fft.fft(signal, n, axis=at)
    if onesided:
        spectrum = along(spectrum, at, slice(0, spectrum.shape[at] // 2 + 1))
    return _as_pairs(spectrum).astype(x.dtype)


@operator("DFT", since=17)
def _dft_by_attribute(x: Tensor, length: Number = None, axis: int = 1, inverse: int = 0,
                      onesided: int = 0) -> Tensor:
    return _dft(x, length, axis, inverse, onesided)


@operator("STFT")
def _stft(x: Tensor, step: Number, window: Tensor | None = None, length: Number = None,
          onesided: int = 1) -> Tensor:
    size = window.shape[0] if length is None and window is not None else int(length)
    frames = (x.shape[1] - size) // int(step) + 1
    signal = _as_complex(x)
    parts = stack([signal[:, i * int(step):i * int(step) + size] for i in range(frames)], 1)
    if window is not None:
        parts = parts * window
    spectrum = fft.fft(parts, axis=-1)
    return _as_pairs(spectrum[..., :size // 2 + 1] if onesided else spectrum).astype(x.dtype)


@operator("MelWeightMatrix")
def _mel_weights(bins: Number, length: Number, rate: Number, low: Number, high: Number,
                 output_datatype: int = 1) -> Tensor:
    """Triangular filters over the frequencies of a spectrum, evenly spaced in mel, of height 1."""
    count, spectrum = int(bins), int(length) // 2 + 1
    check_room((spectrum, count), np.float32)
    least, most = (2595 * np.log10(1 + f / 700) for f in (float(low), float(high)))
    edges = 700 * (10 ** ((np.arange(count + 2) * ((most - least) / (count + 2)) + least) / 2595)
                   - 1)
    positions = ((int(length) + 1) * edges // int(rate)).astype(int)
    out = np.zeros((spectrum, count), np.float32)
    for i in range(count):
        low_, middle, high_ = positions[i:i + 3]
        if low_ == middle:
            out[middle, i] = 1
        else:
            at = np.arange(low_, middle + 1)
            out[low_:middle + 1, i] = (at - low_) / (middle - low_)
        if high_ > middle:
            at = np.arange(middle, high_)
            out[middle:high_, i] = (high_ - at) / (high_ - middle)
    return tensor(out.astype(np_dtype(type_name(output_datatype))))
