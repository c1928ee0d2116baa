"""Probability distributions: samples, logarithms of densities, entropies, divergences."""

from __future__ import annotations

from . import constraints
from .base import Distribution
from .continuous import (
    Cauchy,
    Exponential,
    HalfNormal,
    Laplace,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from .divergence import kl_divergence, register_kl
from .gammas import Beta, Chi2, Dirichlet, Gamma
from .independent import Independent
from .missing import __getattr__ as __getattr__

__all__ = [
    "Bernoulli", "Beta", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution",
    "Exponential", "Gamma", "Geometric", "HalfNormal", "Independent", "Laplace", "LogNormal",
    "MultivariateNormal", "Normal", "OneHotCategorical", "Poisson", "Uniform", "constraints",
    "kl_divergence", "register_kl",
]
