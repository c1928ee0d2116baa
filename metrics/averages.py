"""Averages the values of classes."""

from __future__ import annotations

import fusewire as fw

AVERAGES = ("micro", "macro", "weighted", None)


def ratio(numerator: fw.Tensor, denominator: fw.Tensor, otherwise: float) -> fw.Tensor:
    """numerator / denominator in float64; `otherwise` where the denominator is zero."""
    is_zero = denominator == 0
    safe = fw.where(is_zero, fw.ones_like(denominator), denominator)
    return fw.where(is_zero, otherwise, numerator.astype(fw.float64) / safe.astype(fw.float64))


def averaged(values: fw.Tensor, weights: fw.Tensor, average: str | None) -> fw.Tensor:
    """The average of the values of classes, float64.

    Args:
        values: float64 (classes,). With average "macro" and "weighted", values that are nan are
            left out.
        weights: samples of each class, (classes,).
        average: "macro" is the mean, "weighted" the mean by weights; None gives the values.
    """
    if average is None:
        return values
    is_defined = ~fw.isnan(values)
    chosen = weights.astype(fw.float64) if average == "weighted" else fw.ones_like(values)
    chosen = fw.where(is_defined, chosen, 0.0)
    total = (fw.where(is_defined, values, 0.0) * chosen).sum()
    return ratio(total, chosen.sum(), fw.nan)
