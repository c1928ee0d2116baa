"""Kullback-Leibler divergences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..base.package import fw
from ..base.tensor_class import retag
from .continuous import Exponential, Laplace, MultivariateNormal, Normal, Uniform
from .discrete import Bernoulli, Categorical
from .gammas import Beta, Dirichlet, Gamma
from .independent import Independent

_RULES: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """A decorator: the function computes the divergence of two classes of distributions."""
    def decorator(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _RULES[type_p, type_q] = function
        return function

    return decorator


def kl_divergence(p: Any, q: Any) -> Any:
    """The divergence of q from p.

    NotImplementedError if there is no rule for their classes.
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _RULES:
                return retag(_RULES[a, b](p, q))
    raise NotImplementedError(f"no rule for the divergence of {type(q).__name__} from "
                              f"{type(p).__name__}; register_kl adds one")


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - fw.log(ratio))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    a, b = p.probs, q.probs
    first = fw.where(a == 0, 0.0, a * (fw.log(a) - fw.log(b)))
    return first + fw.where(a == 1, 0.0, (1 - a) * (fw.log1p(-a) - fw.log1p(-b)))


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = fw.where(p.probs == 0, 0.0, p.probs * (p.logits - q.logits))
    return fw.sum(terms, -1)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    inside = fw.logical_and(q.low <= p.low, q.high >= p.high)
    return fw.where(inside, fw.log((q.high - q.low) / (p.high - p.low)), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -fw.log(ratio) + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    distance = fw.abs(p.loc - q.loc)
    ratio = p.scale / q.scale
    return -fw.log(ratio) + distance / q.scale + ratio * fw.exp(-distance / p.scale) - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return b * fw.log(p.rate / q.rate) + fw.lgamma(b) - fw.lgamma(a) \
        + (a - b) * fw.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = fw.sum(a, -1)
    mixed = fw.lgamma(total) - fw.lgamma(fw.sum(b, -1)) - fw.sum(fw.lgamma(a) - fw.lgamma(b), -1)
    return mixed + fw.sum((a - b) * (fw.digamma(a) - fw.expand_dims(fw.digamma(total), -1)), -1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    solve = fw.linalg.solve_triangular
    scaled = solve(q.scale_tril, p.scale_tril, upper=False)
    distance = solve(q.scale_tril, fw.expand_dims(q.loc - p.loc, -1), upper=False)
    logs = fw.sum(fw.log(fw.diagonal(q.scale_tril)) - fw.log(fw.diagonal(p.scale_tril)), -1)
    return logs + 0.5 * (fw.sum(scaled ** 2, (-2, -1)) + fw.sum(distance ** 2, (-2, -1))
                         - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    return p.summed(kl_divergence(p.base_dist, q.base_dist))
