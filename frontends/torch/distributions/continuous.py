"""Continuous distributions of real numbers and vectors."""

from __future__ import annotations

import math
from typing import Any

from ..base.package import fw
from ..base.tensor_class import retag
from . import constraints
from .base import Distribution, broadcast

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """Base of distributions of loc + scale * noise."""

    has_rsample = True
    arg_constraints = constraints.by_name(loc=constraints.real, scale=constraints.positive)
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _noise(self, shape: Any) -> Any:
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Any:
        return retag(self.loc + self._noise(self._extended(sample_shape)) * self.scale)

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    def _noise(self, shape: Any) -> Any:
        return fw.randn(shape, dtype=self.loc.dtype)

    @property
    def variance(self) -> Any:
        return retag(self.scale ** 2)

    def log_prob(self, value: Any) -> Any:
        distance = (self._checked(value) - self.loc) ** 2
        return retag(-distance / (2 * self.scale ** 2) - fw.log(self.scale) - _LOG_SQRT_2PI)

    def entropy(self) -> Any:
        return retag(0.5 + _LOG_SQRT_2PI + fw.log(self.scale))

    def cdf(self, value: Any) -> Any:
        """The probability of values up to `value`."""
        return retag(0.5 * (1 + fw.erf((value - self.loc) / self.scale / math.sqrt(2))))

    def icdf(self, value: Any) -> Any:
        """The value up to which the probability is `value`."""
        return retag(self.loc + self.scale * fw.erfinv(2 * value - 1) * math.sqrt(2))


class LogNormal(Normal):
    """The distribution of exp(x) for a normal x."""

    support = constraints.positive

    def rsample(self, sample_shape: Any = ()) -> Any:
        return retag(fw.exp(super().rsample(sample_shape)))

    @property
    def mean(self) -> Any:
        return retag(fw.exp(self.loc + self.scale ** 2 / 2))

    @property
    def variance(self) -> Any:
        squared = self.scale ** 2
        return retag(fw.expm1(squared) * fw.exp(2 * self.loc + squared))

    def log_prob(self, value: Any) -> Any:
        log = fw.log(self._checked(value))
        return retag(-(log - self.loc) ** 2 / (2 * self.scale ** 2) - fw.log(self.scale)
                     - _LOG_SQRT_2PI - log)

    def entropy(self) -> Any:
        return retag(super().entropy() + self.loc)


class HalfNormal(Distribution):
    """The distribution of the absolute values of a normal one of mean 0."""

    has_rsample = True
    arg_constraints = constraints.by_name(scale=constraints.positive)
    support = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self.scale, = broadcast(scale)
        super().__init__(self.scale.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended(sample_shape)
        return retag(fw.abs(fw.randn(shape, dtype=self.scale.dtype) * self.scale))

    @property
    def mean(self) -> Any:
        return retag(self.scale * math.sqrt(2 / math.pi))

    @property
    def variance(self) -> Any:
        return retag(self.scale ** 2 * (1 - 2 / math.pi))

    def log_prob(self, value: Any) -> Any:
        return retag(-(self._checked(value) ** 2) / (2 * self.scale ** 2) - fw.log(self.scale)
                     - _LOG_SQRT_2PI + math.log(2))

    def entropy(self) -> Any:
        return retag(0.5 + _LOG_SQRT_2PI + fw.log(self.scale) - math.log(2))


class Laplace(_LocationScale):
    """The Laplace distribution: the distance from `loc` is exponential, of mean `scale`."""

    def _noise(self, shape: Any) -> Any:
        u = fw.rand(shape, dtype=self.loc.dtype) - 0.5
        return -fw.sign(u) * fw.log1p(-2 * fw.abs(u))

    @property
    def variance(self) -> Any:
        return retag(2 * self.scale ** 2)

    def log_prob(self, value: Any) -> Any:
        return retag(-fw.log(2 * self.scale)
                     - fw.abs(self._checked(value) - self.loc) / self.scale)

    def entropy(self) -> Any:
        return retag(1 + fw.log(2 * self.scale))


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean."""

    def _noise(self, shape: Any) -> Any:
        return fw.tan(math.pi * (fw.rand(shape, dtype=self.loc.dtype) - 0.5))

    @property
    def mean(self) -> Any:
        return retag(fw.full_like(self.loc, math.nan))

    @property
    def variance(self) -> Any:
        return retag(fw.full_like(self.loc, math.inf))

    def log_prob(self, value: Any) -> Any:
        z = (self._checked(value) - self.loc) / self.scale
        return retag(-math.log(math.pi) - fw.log(self.scale) - fw.log1p(z ** 2))

    def entropy(self) -> Any:
        return retag(math.log(4 * math.pi) + fw.log(self.scale))


class Uniform(Distribution):
    """The uniform distribution from `low` to `high`."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast(low, high)
        self.arg_constraints = {"high": constraints.Constraint("GreaterThan(lower_bound=low)",
                                                               lambda x: x > self.low)}
        super().__init__(self.low.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = fw.rand(self._extended(sample_shape), dtype=self.low.dtype)
        return retag(self.low + u * (self.high - self.low))

    @property
    def mean(self) -> Any:
        return retag((self.high + self.low) / 2)

    @property
    def variance(self) -> Any:
        return retag((self.high - self.low) ** 2 / 12)

    def log_prob(self, value: Any) -> Any:
        inside = fw.logical_and(value >= self.low, value < self.high)
        return retag(fw.where(inside, -fw.log(self.high - self.low), -math.inf))

    def entropy(self) -> Any:
        return retag(fw.log(self.high - self.low))


class Exponential(Distribution):
    """The exponential distribution of mean 1 / `rate`."""

    has_rsample = True
    arg_constraints = constraints.by_name(rate=constraints.positive)
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, = broadcast(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = fw.rand(self._extended(sample_shape), dtype=self.rate.dtype)
        return retag(-fw.log1p(-u) / self.rate)

    @property
    def mean(self) -> Any:
        return retag(1 / self.rate)

    @property
    def variance(self) -> Any:
        return retag(1 / self.rate ** 2)

    def log_prob(self, value: Any) -> Any:
        return retag(fw.log(self.rate) - self.rate * self._checked(value))

    def entropy(self) -> Any:
        return retag(1 - fw.log(self.rate))


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by one of three matrices."""

    has_rsample = True
    support = constraints.real_vector

    def __init__(self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
                 scale_tril: Any = None, validate_args: bool | None = None) -> None:
        if precision_matrix is not None:
            covariance_matrix = fw.linalg.inv(precision_matrix)
        factor = fw.linalg.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        batch = fw.broadcast_shapes(tuple(loc.shape[:-1]), tuple(factor.shape[:-2]))
        n = loc.shape[-1]
        self.loc = retag(fw.broadcast_to(loc, (*batch, n)))
        self.scale_tril = retag(fw.broadcast_to(factor, (*batch, n, n)))
        super().__init__(batch, (n,), validate_args)

    @property
    def covariance_matrix(self) -> Any:
        """The covariances of the elements."""
        return retag(fw.matmul(self.scale_tril, fw.matrix_transpose(self.scale_tril)))

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        return retag(fw.linalg.inv(self.covariance_matrix))

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        return retag(fw.sum(self.scale_tril ** 2, -1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = fw.randn(self._extended(sample_shape), dtype=self.loc.dtype)
        turned = fw.matmul(self.scale_tril, fw.expand_dims(noise, -1))
        return retag(self.loc + fw.squeeze(turned, -1))

    def _log_scale(self) -> Any:
        return fw.sum(fw.log(fw.diagonal(self.scale_tril)), -1)

    def log_prob(self, value: Any) -> Any:
        distance = self._checked(value) - self.loc
        shape = fw.broadcast_shapes(tuple(distance.shape[:-1]), tuple(self.scale_tril.shape[:-2]))
        n = self.event_shape[0]
        factor = fw.broadcast_to(self.scale_tril, (*shape, n, n))
        column = fw.expand_dims(fw.broadcast_to(distance, (*shape, n)), -1)
        z = fw.squeeze(fw.linalg.solve_triangular(factor, column, upper=False), -1)
        return retag(-0.5 * fw.sum(z ** 2, -1) - n * _LOG_SQRT_2PI - self._log_scale())

    def entropy(self) -> Any:
        n = self.event_shape[0]
        return retag(n * (0.5 + _LOG_SQRT_2PI) + self._log_scale())

    def __repr__(self) -> str:
        return f"MultivariateNormal(loc: {tuple(self.loc.shape)}, " \
               f"scale_tril: {tuple(self.scale_tril.shape)})"
