"""Collects the random numbers of all distributions under NumPy's names: `fw.random`."""

from __future__ import annotations

from ..ops.random.count_distributions import binomial, poisson
from ..ops.random.distributions import (
    bernoulli,
    beta,
    cauchy,
    choice,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    log_normal,
    normal,
    shuffle,
    student_t,
    uniform,
)
from ..ops.random.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from ..ops.random.multinomial import multinomial
from ..ops.random.truncated_normal import truncated_normal

__all__ = [
    "Generator", "bernoulli", "beta", "binomial", "cauchy", "choice", "default_generator",
    "dirichlet", "exponential", "fork_rng", "gamma", "get_rng_state", "gumbel", "initial_seed",
    "laplace", "log_normal", "manual_seed", "multinomial", "normal", "poisson", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state", "shuffle", "student_t", "truncated_normal", "uniform",
]
