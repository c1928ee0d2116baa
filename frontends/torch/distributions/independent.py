"""Batch axes as axes of events."""

from __future__ import annotations

from typing import Any

from ..base.package import fw
from ..base.tensor_class import retag
from .base import Distribution


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes are axes of its events."""

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = count = reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        at = len(shape) - count
        self.has_rsample = base_distribution.has_rsample
        super().__init__(shape[:at], (*shape[at:], *base_distribution.event_shape), validate_args)

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return self.summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self.summed(self.base_dist.entropy())

    def summed(self, values: Any) -> Any:
        """The sums over the axes that belong to the events."""
        count = self.reinterpreted_batch_ndims
        return retag(fw.sum(values, tuple(range(-count, 0)))) if count else values

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
