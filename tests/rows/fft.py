"""Rows of Fourier transforms: all sizes, axes and norms against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Bad, arrays, c8, c16, f4, f8, row

import fusewire as fw

COMPLEX = [arrays((5, 4), dtypes=c16), arrays((3, 4, 2), dtypes=c8), arrays((4, 3), dtypes=f8)]
REAL = [arrays((5, 4), dtypes=f8), arrays((3, 4, 2)), arrays((0, 3), dtypes=f4)]


def pair(name: str, **how: Any) -> tuple[Any, Any]:
    """A transform of ours and NumPy's."""
    ours, numpys = getattr(fw.fft, name), getattr(np.fft, name)
    return lambda x: ours(x, **how), lambda x: numpys(x, **how)


def errors(name: str) -> tuple[Bad, ...]:
    fn = getattr(fw.fft, name)
    return (Bad(lambda: fn(fw.ones(3), 0), f"{name}: 0 elements to transform"),
            Bad(lambda: fn(fw.ones(3), axis=1), f"{name}: axis 1 is out of range"),
            Bad(lambda: fn(fw.ones(3), norm="full"), f"{name}: norm 'full' is not known"),
            Bad(lambda: fn(fw.tensor([True])), f"{name}: takes numbers, not bool"))


for name, op, makers in (("fft", "fft", COMPLEX), ("ifft", "ifft", COMPLEX),
                         ("rfft", "rfft", REAL), ("irfft", "irfft", COMPLEX[:2]),
                         ("hfft", "irfft", COMPLEX[:2]), ("ihfft", "conj", REAL)):
    for n, axis, norm in ((None, -1, "backward"), (3, 0, "ortho"), (6, 1, "forward"),
                          (None, 1, "ortho")):
        ours, numpys = pair(name, n=n, axis=axis, norm=norm)
        row(op, ours, makers, numpys, label=f"{name} n={n} axis={axis} {norm}", tolerance=5e-6,
            errors=errors(name) if name == op else ())
for name, op, makers in (("fftn", "fft", COMPLEX), ("ifftn", "ifft", COMPLEX),
                         ("rfftn", "fft", REAL[:2]), ("irfftn", "irfft", COMPLEX[:2])):
    for how in ({}, {"s": (3, 6), "axes": (1, 0), "norm": "ortho"}):
        ours, numpys = pair(name, **how)
        row(op, ours, makers, numpys, label=f"{name} {how}", tolerance=5e-6)


# ---- overlapping frames
def overlapped(spectra: Any, half: bool, hop: int, window: Any) -> Any:
    """The signal by least squares, frame by frame."""
    n = window.size
    frames = np.moveaxis((np.fft.irfft if half else np.fft.ifft)(spectra, n, axis=-2), -1, 0)
    total = np.zeros((*frames.shape[1:-1], (len(frames) - 1) * hop + n), frames.dtype)
    weight = np.zeros(total.shape[-1])
    for t, frame in enumerate(frames):
        total[..., t * hop:t * hop + n] += frame * window
        weight[t * hop:t * hop + n] += window ** 2
    return total / weight


FACTORS = [0.5, 1.0, 1.5, 1.0, 0.25, 0.5]
WINDOW = np.array(FACTORS)
for hop in (1, 2, 6):
    row("add_at", lambda x, h=hop: fw.istft(x, 6, h, window=fw.tensor(FACTORS), center=False),
        [arrays((2, 4, 3), dtypes=c16), arrays((4, 2), dtypes=c16)],
        lambda x, h=hop: overlapped(x, True, h, WINDOW), label=f"istft, hop {hop}", errors=(
            Bad(lambda: fw.istft(fw.ones(3, 2), 4), "istft: takes"),
            Bad(lambda: fw.istft(fw.ones(5, 2, dtype="complex64"), 4), "istft: 5 frequencies for"),
            Bad(lambda: fw.istft(fw.ones(3, 0, dtype="complex64"), 4), "istft: takes spectra"),
            Bad(lambda: fw.istft(fw.ones(3, 2, dtype="complex64"), 4, 0), "istft: hop_length=0"),
            Bad(lambda: fw.istft(fw.ones(3, 2, dtype="complex64"), 4, win_length=5), "is above"),
            Bad(lambda: fw.istft(fw.ones(3, 2, dtype="complex64"), 4, window=fw.ones(3)),
                "istft: a window of shape (3,)"),
            Bad(lambda: fw.istft(fw.ones(3, 2, dtype="complex64"), 4, return_complex=True),
                "istft: complex signals have n_fft frequencies"),
            Bad(lambda: fw.istft(fw.ones(3, 2, dtype="complex64"), 4, 5, center=False),
                "istft: the window is 0 for all frames")))
row("add_at", lambda x: fw.istft(x, 6, 2, window=fw.tensor(FACTORS), return_complex=True,
                                 length=12), [arrays((6, 5), dtypes=c16)],
    lambda x: np.pad(overlapped(x, False, 2, WINDOW)[3:], (0, 1)), label="istft, complex")
