"""Observes the inputs of layers over calibration data and derives their grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .qparams import QuantParams, grid_over

_BINS = 2048  # of a histogram
_RANGE_FRACTIONS = np.linspace(0.2, 1.0, 81)  # that "mse" tries


class Seen:
    """The range of a layer's inputs, including 0, and a histogram over it."""

    def __init__(self) -> None:
        self.any, self.low, self.high = False, 0.0, 0.0
        self.counts = np.zeros(_BINS, np.int64)

    def look(self, x: Any, where: str) -> None:
        """Extends the range by numbers; `where` is their origin, for the error."""
        if not x.size:
            return
        low, high = float(x.min()), float(x.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            bad = "nan" if np.isnan(x).any() else "inf"
            raise ArgumentError(f"quantize: {bad} in {where}",
                                "a range cannot be taken from it: look at the data, or skip the "
                                "layer")
        self.any, self.low, self.high = True, min(self.low, low), max(self.high, high)

    def count(self, x: Any) -> None:
        """Adds numbers to the histogram; the range must be final."""
        if self.low < self.high:
            counts, _ = np.histogram(x.astype(np.float64), _BINS, (self.low, self.high))
            self.counts += counts

    @property
    def middles(self) -> Any:
        """The numbers in the middle of each bin."""
        edges = np.linspace(self.low, self.high, _BINS + 1)
        return (edges[1:] + edges[:-1]) / 2


def _minmax(seen: Seen, symmetric: bool, percentile: float) -> QuantParams:
    return grid_over(seen.low, seen.high, symmetric)


def _percentile(seen: Seen, symmetric: bool, percentile: float) -> QuantParams:
    """The grid without the given share of numbers at each end."""
    share = np.cumsum(seen.counts) / max(1, seen.counts.sum())
    edges = np.linspace(seen.low, seen.high, _BINS + 1)
    out = (100 - percentile) / 100
    low = edges[np.searchsorted(share, out, "right")]
    high = edges[min(_BINS, np.searchsorted(share, 1 - out) + 1)]
    return grid_over(float(low), float(high), symmetric)


def _mse(seen: Seen, symmetric: bool, percentile: float) -> QuantParams:
    """The grid over a part of the range with the least mean square error."""
    middles, weights = seen.middles, seen.counts

    def error(grid: QuantParams) -> float:
        return float((weights * (grid.nearest(middles) - middles) ** 2).sum())

    grids = [grid_over(seen.low * f, seen.high * f, symmetric) for f in _RANGE_FRACTIONS[::-1]]
    return min(grids, key=error)


OBSERVERS: dict[str, Callable[[Seen, bool, float], QuantParams]] = {
    "minmax": _minmax, "percentile": _percentile, "mse": _mse}
