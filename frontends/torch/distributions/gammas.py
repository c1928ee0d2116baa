"""The gamma distribution and those that are made of it."""

from __future__ import annotations

from typing import Any

from ....eager.autograd.function import Function
from ..base.package import fw
from ..base.tensor_class import retag
from . import constraints
from .base import Distribution, broadcast

_STEP = 1e-4  # of the difference quotient, relative to the parameter


class _StandardGamma(Function):
    """Samples of the gamma distribution of scale 1. Their gradient follows from the probability of
    smaller values, which stays the same when the parameter changes."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        sample = fw.random.gamma(a)
        smallest = float(fw.finfo(sample.dtype).smallest_normal)
        sample = fw.maximum(sample, fw.tensor(smallest, sample.dtype))
        ctx.save_for_backward(a, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        a, x = ctx.saved_tensors
        return gradients[0] * fw.astype(gradient_of_gamma(a, x), gradients[0].dtype)


def gradient_of_gamma(a: Any, x: Any) -> Any:
    """The derivative of samples `x` of the gamma distribution by its parameter `a`."""
    a, x = fw.astype(a, fw.float64), fw.astype(x, fw.float64)
    h = _STEP * fw.where(a < 1, a, fw.sqrt(fw.maximum(a, fw.ones_like(a))))
    special = fw.special
    below = special.gammainc(a + h, x) - special.gammainc(a - h, x)
    above = special.gammaincc(a - h, x) - special.gammaincc(a + h, x)
    change = fw.where(x < a, below, above) / (2 * h)
    log_density = (a - 1) * fw.log(x) - x - fw.lgamma(a)
    return -change * fw.exp(-log_density)


def _log_norm(concentration: Any) -> Any:
    return fw.sum(fw.lgamma(concentration), -1) - fw.lgamma(fw.sum(concentration, -1))


class Gamma(Distribution):
    """The gamma distribution of mean `concentration` / `rate`."""

    has_rsample = True
    arg_constraints = constraints.by_name(
        concentration=constraints.positive, rate=constraints.positive)
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        return retag(self.concentration / self.rate)

    @property
    def variance(self) -> Any:
        return retag(self.concentration / self.rate ** 2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        a = fw.broadcast_to(self.concentration, self._extended(sample_shape))
        return retag(_StandardGamma.apply(a) / self.rate)

    def log_prob(self, value: Any) -> Any:
        a, value = self.concentration, self._checked(value)
        return retag(fw.xlogy(a, self.rate) + fw.xlogy(a - 1, value) - self.rate * value
                     - fw.lgamma(a))

    def entropy(self) -> Any:
        a = self.concentration
        return retag(a - fw.log(self.rate) + fw.lgamma(a) + (1 - a) * fw.digamma(a))


class Chi2(Gamma):
    """The distribution of the sum of `df` squares of normal numbers."""

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        half, = broadcast(df)
        super().__init__(0.5 * half, 0.5, validate_args)

    @property
    def df(self) -> Any:
        """The number of squares."""
        return retag(2 * self.concentration)


class Dirichlet(Distribution):
    """The Dirichlet distribution of vectors of sum 1."""

    has_rsample = True
    arg_constraints = constraints.by_name(concentration=constraints.positive)
    support = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        self.concentration, = broadcast(concentration)
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        a = self.concentration
        return retag(a / fw.sum(a, -1, True))

    @property
    def variance(self) -> Any:
        a = self.concentration
        total = fw.sum(a, -1, True)
        return retag(a * (total - a) / (total ** 2 * (total + 1)))

    def rsample(self, sample_shape: Any = ()) -> Any:
        a = fw.broadcast_to(self.concentration, self._extended(sample_shape))
        parts = _StandardGamma.apply(a)
        return retag(parts / fw.sum(parts, -1, True))

    def log_prob(self, value: Any) -> Any:
        a = self.concentration
        return retag(fw.sum(fw.xlogy(a - 1, self._checked(value)), -1) - _log_norm(a))

    def entropy(self) -> Any:
        a = self.concentration
        n, total = a.shape[-1], fw.sum(self.concentration, -1)
        return retag(_log_norm(a) - (n - total) * fw.digamma(total)
                     - fw.sum((a - 1) * fw.digamma(a), -1))


class Beta(Distribution):
    """The beta distribution of numbers between 0 and 1."""

    has_rsample = True
    arg_constraints = constraints.by_name(
        concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
                 ) -> None:
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(fw.stack([self.concentration1, self.concentration0], -1),
                         validate_args=False)

    @property
    def mean(self) -> Any:
        return retag(self.concentration1 / (self.concentration1 + self.concentration0))

    @property
    def variance(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return retag(a * b / ((a + b) ** 2 * (a + b + 1)))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return retag(self._dirichlet.rsample(sample_shape)[..., 0])

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return self._dirichlet.log_prob(fw.stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()
