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
