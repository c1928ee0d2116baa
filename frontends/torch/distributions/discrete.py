"""Distributions of whole numbers: coins, categories, counts."""

from __future__ import annotations

from typing import Any

from ....eager.errors import ArgumentError
from ..base.package import fw
from ..base.tensor_class import retag
from . import constraints
from .base import Distribution, broadcast

_SMALLEST = 1.1920928955078125e-07  # float32's; probabilities stay as far from 0 and 1


def _one_of(owner: str, probs: Any, logits: Any) -> None:
    if (probs is None) is (logits is None):
        raise ArgumentError(f"{owner}: takes either probs or logits, got "
                            f"{'both' if probs is not None else 'neither'}")


class Bernoulli(Distribution):
    """1 with the probability `probs`, else 0; `logits` are the logarithms of the odds."""

    arg_constraints = constraints.by_name(_given_probs=constraints.unit_interval)
    support = constraints.boolean

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
                 ) -> None:
        _one_of("Bernoulli", probs, logits)
        self._given_probs = self._given_logits = None
        if probs is not None:
            self._given_probs, = broadcast(probs)
        else:
            self._given_logits, = broadcast(logits)
            self.arg_constraints = {}
        super().__init__(self._param.shape, (), validate_args)

    @property
    def _param(self) -> Any:
        return self._given_logits if self._given_probs is None else self._given_probs

    @property
    def probs(self) -> Any:
        """The probabilities of 1."""
        return retag(fw.sigmoid(self._given_logits)) if self._given_probs is None else \
            self._given_probs

    @property
    def logits(self) -> Any:
        """The logarithms of the odds."""
        if self._given_logits is not None:
            return self._given_logits
        p = fw.clip(self._given_probs, _SMALLEST, 1 - _SMALLEST)
        return retag(fw.log(p) - fw.log1p(-p))

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return retag(self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        with fw.no_grad():
            return retag(fw.bernoulli(fw.broadcast_to(self.probs, self._extended(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        logits = self.logits
        value = self._checked(value)
        # value * logits - log(1 + exp(logits)), in a form that does not overflow
        return retag(value * logits - (fw.maximum(logits, fw.zeros_like(logits))
                                       + fw.log1p(fw.exp(-fw.abs(logits)))))

    def entropy(self) -> Any:
        logits = self.logits
        log_sum = fw.maximum(logits, fw.zeros_like(logits)) + fw.log1p(fw.exp(-fw.abs(logits)))
        return retag(log_sum - self.probs * logits)

    def __repr__(self) -> str:
        name = "logits" if self._given_probs is None else "probs"
        return f"Bernoulli({name}: {tuple(self._param.shape)})"


class Categorical(Distribution):
    """A category 0, 1, ..., n - 1, by probabilities or their logarithms along the last axis."""

    arg_constraints = constraints.by_name(_weights=constraints.nonnegative)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
                 ) -> None:
        _one_of("Categorical", probs, logits)
        if probs is not None:
            self._weights = probs
            self.probs = retag(probs / fw.sum(probs, -1, True))
            p = fw.clip(self.probs, _SMALLEST, 1 - _SMALLEST)
            self.logits = retag(fw.log(p))
        else:
            self.logits = retag(logits - fw.logsumexp(logits, -1, True))
            self.probs = retag(fw.softmax(self.logits, -1))
        shape = self.logits.shape
        self._num_events = shape[-1]
        super().__init__(shape[:-1], (), validate_args)

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self.logits.shape

    @property
    def mean(self) -> Any:
        return retag(fw.full(tuple(self.batch_shape), float("nan")))

    variance = mean

    @property
    def mode(self) -> Any:
        """The most probable category."""
        return retag(fw.argmax(self.probs, -1))

    def sample(self, sample_shape: Any = ()) -> Any:
        with fw.no_grad():
            sums = fw.cumsum(self.probs, -1)
            u = fw.rand((*self._extended(sample_shape), 1), dtype=self.probs.dtype)
            # times the last sum, which may differ from 1: no category after it is drawn
            return retag(fw.sum(u * sums[..., -1:] >= sums, -1))

    def log_prob(self, value: Any) -> Any:
        index = fw.expand_dims(fw.astype(value, fw.int64), -1)
        shape = fw.broadcast_shapes(tuple(value.shape), tuple(self.batch_shape))
        logits = fw.broadcast_to(self.logits, (*shape, self._num_events))
        index = fw.broadcast_to(index, (*shape, 1))
        return retag(fw.squeeze(fw.gather(logits, -1, index), -1))

    def entropy(self) -> Any:
        finite = fw.maximum(self.logits, fw.tensor(fw.finfo(self.logits.dtype).min,
                                                   self.logits.dtype))
        return retag(-fw.sum(finite * self.probs, -1))

    def __repr__(self) -> str:
        name = "probs" if "_weights" in self.__dict__ else "logits"
        return f"Categorical({name}: {tuple(self.logits.shape)})"


class OneHotCategorical(Categorical):
    """A category as a vector with a single 1."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
                 ) -> None:
        super().__init__(probs, logits, validate_args)
        self.event_shape = type(self.batch_shape)((self._num_events,))

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return retag(self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        plain = Categorical(logits=self.logits).sample(sample_shape)
        return retag(fw.astype(fw.nn.functional.one_hot(plain, self._num_events),
                               self.logits.dtype))

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(fw.argmax(value, -1))


class Geometric(Distribution):
    """The number of failures before the first success, which has the probability `probs`."""

    arg_constraints = constraints.by_name(probs=constraints.unit_interval)
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
                 ) -> None:
        _one_of("Geometric", probs, logits)
        self.probs, = broadcast(fw.sigmoid(logits) if probs is None else probs)
        super().__init__(self.probs.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        return retag(1 / self.probs - 1)

    @property
    def variance(self) -> Any:
        return retag((1 / self.probs - 1) / self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fw.no_grad():
            u = fw.rand(self._extended(sample_shape), dtype=self.probs.dtype)
            return retag(fw.floor(fw.log1p(-u) / fw.log1p(-self.probs)))

    def log_prob(self, value: Any) -> Any:
        return retag(self._checked(value) * fw.log1p(-self.probs) + fw.log(self.probs))

    def entropy(self) -> Any:
        p = self.probs
        return retag(-((1 - p) * fw.log1p(-p) + p * fw.log(p)) / p)


class Poisson(Distribution):
    """The number of events of mean `rate`."""

    arg_constraints = constraints.by_name(rate=constraints.nonnegative)
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, = broadcast(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Any:
        with fw.no_grad():
            return retag(fw.poisson(fw.broadcast_to(self.rate, self._extended(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return retag(fw.xlogy(value, self.rate) - self.rate - fw.lgamma(value + 1))
