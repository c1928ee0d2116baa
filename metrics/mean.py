"""Defines the base of metrics that are the mean of one number for each sample."""

from __future__ import annotations

import fusewire as fw

from .averages import ratio
from .metric import Metric, counts


class MeanMetric(Metric):
    """The mean over all samples, float64 (): `update` calls `add`."""

    total: fw.Tensor
    count: fw.Tensor

    def __init__(self) -> None:
        super().__init__(total=fw.zeros((), dtype=fw.float64), count=counts())

    def add(self, values: fw.Tensor, count: int | fw.Tensor) -> None:
        """Adds the float64 numbers of `count` samples, of any shape."""
        self.total = self.total + values.sum()
        self.count = self.count + count

    def compute(self) -> fw.Tensor:
        """The mean, float64 ()."""
        return ratio(self.total, self.needed(self.count), fw.nan)
