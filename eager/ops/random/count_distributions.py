"""Draws random counts: Poisson's and the binomial distribution, by loops with rejection.

Round r of element i uses the block of Philox at i + r * 2**40, and in it two numbers of 53 bits:
from the words 0 and 1, and from 2 and 3. Means below 10 are drawn by inversion, larger ones by
transformed rejection (Hörmann 1993).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import cpu_kernels
from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..shape.view import expand_to
from ..special.gamma import lgamma_formula
from .distributions import Draw
from .generator import Generator, drawn_from
from .philox import blocks

__all__ = ["binomial", "poisson"]

_INVERSION_MAX_MEAN = 10.0  # below this mean, counting up from 0 takes few steps
_WHY = {"vjp": "counts do not change smoothly with a parameter",
        "meaning": "rejected numbers are drawn again until all are accepted",
        "onnx": "a model would draw other random numbers"}


def _two_even(state: Any, elements: Any, round_number: int) -> tuple[Any, Any]:
    """Two uniform numbers in [0, 1) for each of `elements` in this round."""
    a, b, c, d = blocks(cpu_kernels, int(state[0]), int(state[1]), elements + (round_number << 40))
    return ((a >> 5) * 2.0 ** 26 + (b >> 6)) * 2.0 ** -53, \
        ((c >> 5) * 2.0 ** 26 + (d >> 6)) * 2.0 ** -53


def _log_factorial(n: Any) -> Any:
    return lgamma_formula(cpu_kernels, n + 1.0)


def _counted_up(state: Any, elements: Any, first: Any, ratio: Callable[[int], Any], most: int
                ) -> Any:
    """The count at which the sum of probabilities exceeds a uniform number.

    first: the probability of 0. ratio(k): the probability of k + 1 divided by that of k.
    """
    u, _ = _two_even(state, elements, 0)
    out, summed, p = np.zeros(len(elements)), first.copy(), first
    for k in range(most):
        beyond = u >= summed
        if not beyond.any():
            break
        p = p * ratio(k)
        summed = summed + p
        out[beyond] = k + 1
    return out


def _rejected_until_accepted(
    state: Any, elements: Any, proposal: Callable[..., tuple[Any, Any]]
) -> Any:
    """The first accepted proposal(elements, u, v) -> (count, accepted) of each element."""
    out, pending, round_number = np.zeros(len(elements)), np.arange(len(elements)), 1
    while len(pending):
        k, accepted = proposal(pending, *_two_even(state, elements[pending], round_number))
        out[pending[accepted]] = k[accepted]
        pending = pending[~accepted]
        round_number += 1
    return out


def _of_both(mean: Any, few: Callable[[Any], Any], many: Callable[[Any], Any]) -> Any:
    """few(elements) where the mean is small, many(elements) elsewhere."""
    out = np.zeros(len(mean))
    for mask, draw in ((mean < _INVERSION_MAX_MEAN, few), (mean >= _INVERSION_MAX_MEAN, many)):
        elements = np.flatnonzero(mask)
        if len(elements):
            out[elements] = draw(elements)
    return out


# ---- Poisson
def _poisson_impl(xp: Any, state: Any, rate: Any) -> Any:
    mu = rate.astype(np.float64).ravel()
    if not (mu >= 0).all() or np.isinf(mu).any():
        raise ArgumentError("poisson: rates are finite and not negative", "take their exp or abs")
    with np.errstate(all="ignore"):
        drawn = _of_both(
            mu, lambda at: _counted_up(state, at, np.exp(-mu[at]), lambda k: mu[at] / (k + 1), 200),
            lambda at: _rejected_until_accepted(state, at, _poisson_proposal(mu[at])))
    return drawn.reshape(rate.shape).astype(rate.dtype)


def _poisson_proposal(every_mu: Any) -> Callable[..., tuple[Any, Any]]:
    def propose(elements: Any, u: Any, v: Any) -> tuple[Any, Any]:
        mu = every_mu[elements]
        b = 0.931 + 2.53 * np.sqrt(mu)
        a = -0.059 + 0.02483 * b
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + mu + 0.43)
        quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        height = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
        slow = height <= -mu + k * np.log(mu) - _log_factorial(np.maximum(k, 0))
        return k, quick | (slow & (k >= 0) & ~((us < 0.013) & (v > us)))

    return propose


poisson_op = define(Op("poisson", "opaque", lambda state, rate: rate, _poisson_impl, why=_WHY,
                       raises=True, draws=True))


def poisson(rate: Any, size: Any = None, *, dtype: Any = None,
            generator: Generator | None = None, device: Any = None) -> Tensor:
    """Poisson-distributed random counts with mean `rate`, as floats.

    Args:
        rate: means, finite and not negative.
        size: of the result. Default None: the shape of `rate`.
        dtype: of the result, a real float. Default: that of `rate`, or float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of `rate`, else the current device.

    Raises:
        ArgumentError: a rate is negative, nan or infinite.
        ShapeError: `rate` does not broadcast to `size`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.poisson(fw.tensor([0.0, 0.0]))
        tensor([0., 0.])
    """
    d = Draw("poisson", (rate,), size, dtype, generator, device)
    state = drawn_from(generator, d.device)
    return d.result(apply(poisson_op, (state, expand_to(d.parameters[0], d.shape).detach())))


# ---- binomial
def _binomial_impl(xp: Any, state: Any, count: Any, p: Any) -> Any:
    n, chance = (v.astype(np.float64).ravel() for v in (count, p))
    if not ((n >= 0) & (n == np.floor(n)) & (chance >= 0) & (chance <= 1)).all():
        raise ArgumentError("binomial: counts are whole numbers from 0 on, probabilities from 0 "
                            "to 1", "clip them")
    q = np.minimum(chance, 1 - chance)
    with np.errstate(all="ignore"):
        drawn = _of_both(
            n * q, lambda at: _counted_up(
                state, at, np.exp(n[at] * np.log1p(-q[at])),
                lambda k: np.maximum(n[at] - k, 0) / (k + 1) * (q[at] / (1 - q[at])), 200),
            lambda at: _rejected_until_accepted(state, at, _binomial_proposal(n[at], q[at])))
    drawn = np.minimum(drawn, n)
    return np.where(chance > 0.5, n - drawn, drawn).reshape(p.shape).astype(p.dtype)


def _binomial_proposal(every_n: Any, every_q: Any) -> Callable[..., tuple[Any, Any]]:
    def propose(elements: Any, u: Any, v: Any) -> tuple[Any, Any]:
        n, q = every_n[elements], every_q[elements]
        deviation = np.sqrt(n * q * (1 - q))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * q
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + n * q + 0.5)
        quick = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        height = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b))
        m, inside = np.floor((n + 1) * q), np.clip(k, 0, n)
        slow = height <= _log_factorial(m) + _log_factorial(n - m) - _log_factorial(inside) \
            - _log_factorial(n - inside) + (inside - m) * np.log(q / (1 - q))
        return k, (quick | slow) & (k >= 0) & (k <= n)

    return propose


binomial_op = define(Op("binomial", "opaque", lambda state, count, p: TensorType(p.shape, p.dtype),
                        _binomial_impl, why=_WHY, raises=True, draws=True))


def binomial(count: Any, p: Any, size: Any = None, *, dtype: Any = None,
             generator: Generator | None = None, device: Any = None) -> Tensor:
    """The numbers of successes in `count` tries with probability `p`, as floats.

    Args:
        count: numbers of tries, whole and not negative.
        p: probabilities, from 0 to 1.
        size: of the result. Default None: the common shape of `count` and `p`.
        dtype: of the result, a real float. Default: that of the parameters, or float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of the parameters, else the current device.

    Raises:
        ArgumentError: a count or a probability is out of range.
        ShapeError: the parameters do not broadcast to `size`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.binomial(10, fw.tensor([0.0, 1.0]))
        tensor([ 0., 10.])
    """
    d = Draw("binomial", (count, p), size, dtype, generator, device)
    state = drawn_from(generator, d.device)
    both = [expand_to(x, d.shape).detach() for x in d.parameters]
    return d.result(apply(binomial_op, (state, *both)))
