"""Windows against their definitions in NumPy, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import ArgumentError, DTypeError, ShapeError

WINDOWS = fw.signal.windows
DEFINITIONS: dict[str, Callable[[Any], Any]] = {  # of the positions t from 0 to 1, and their number
    "bartlett": lambda t: 1 - np.abs(2 * t - 1),
    "blackman": lambda t: 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t),
    "cosine": lambda t: np.sin(np.pi * (t * (t.size - 1) + 0.5) / t.size),
    "exponential": lambda t: np.exp(-np.abs(t - 0.5) * (t.size - 1)),
    "gaussian": lambda t: np.exp(-0.5 * ((t - 0.5) * (t.size - 1)) ** 2),
    "general_hamming": lambda t: 0.54 - 0.46 * np.cos(2 * np.pi * t),
    "hamming": lambda t: np.hamming(t.size), "hann": lambda t: np.hanning(t.size),
    "kaiser": lambda t: np.kaiser(t.size, 12.0),
    "nuttall": lambda t: sum(a * np.cos(2 * np.pi * k * t) for k, a in enumerate(
        (0.3635819, -0.4891775, 0.1365995, -0.0106411))),
}


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("size", [2, 3, 8, 257])
def test_symmetric_windows_are_as_defined(name: str, size: int) -> None:
    found = getattr(WINDOWS, name)(size, dtype=fw.float64)
    expected = DEFINITIONS[name](np.arange(size) / (size - 1))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_periodic_window_lacks_the_last_factor(name: str) -> None:
    window = getattr(WINDOWS, name)
    np.testing.assert_allclose(window(8, sym=False).numpy(), window(9).numpy()[:8], atol=1e-7)


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("sym", [True, False])
def test_small_windows(name: str, sym: bool) -> None:
    window = getattr(WINDOWS, name)
    assert window(0, sym=sym).shape == (0,)
    assert window(1, sym=sym).tolist() == [1.0]
    assert window(4, sym=sym, dtype="float16").dtype == fw.float16


@pytest.mark.parametrize("name", DEFINITIONS)
def test_windows_are_compiled(name: str) -> None:
    window = getattr(WINDOWS, name)
    compiled = fw.compile(lambda x: x * window(7))
    x = fw.ones(7)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), window(7).numpy(), atol=1e-7)


def test_general_cosine_alternates_signs() -> None:
    found = WINDOWS.general_cosine(9, a=[0.42, 0.5, 0.08])
    np.testing.assert_allclose(found.numpy(), WINDOWS.blackman(9).numpy(), atol=1e-7)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: WINDOWS.hann(-1), ShapeError, "hann: a window of -1 factors"),
    (lambda: WINDOWS.hann(2.5), ShapeError, "hann: a window of 2.5 factors"),
    (lambda: WINDOWS.hann(3, dtype="int64"), DTypeError, "hann: windows are real floats"),
    (lambda: WINDOWS.gaussian(3, std=0), ArgumentError, "gaussian: std=0 is not positive"),
    (lambda: WINDOWS.exponential(3, tau=-1), ArgumentError, "exponential: tau=-1 is not"),
    (lambda: WINDOWS.exponential(3, center=1), ArgumentError, "a symmetric window with center"),
    (lambda: WINDOWS.kaiser(3, beta=-1), ArgumentError, "kaiser: beta=-1 is negative"),
    (lambda: WINDOWS.general_cosine(3, a=[]), ArgumentError, "general_cosine: no coefficients"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
