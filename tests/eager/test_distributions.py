"""Distributions: their numbers against their distribution functions, and what they promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import random
from fusewire.eager.errors import FusewireError
from fusewire.eager.ops.random.generator import Generator

COUNT = 20_000


def distance(x: Any, cdf: Callable[[Any], Any]) -> float:
    """Kolmogorov and Smirnov's: how far the share of numbers below each is from its chance."""
    values = np.sort(x.numpy().astype(float).ravel())
    chances = cdf(values)
    steps = np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - chances).max(), (chances - steps[:-1]).max()))


def of(name: str, *parameters: float) -> Callable[[Any], Any]:
    """A function of `fw.special` as one of NumPy arrays, its first arguments given."""
    function = getattr(fw.special, name)
    return lambda x: function(*map(float, parameters), fw.tensor(x)).numpy()


def normal(x: Any) -> Any:
    return of("ndtr")(np.asarray(x, float))


def between(low: float, high: float) -> Callable[[Any], Any]:
    return lambda x: (normal(x) - normal(low)) / (normal(high) - normal(low))


def laplace(x: Any) -> Any:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


CONTINUOUS = {
    "uniform": ((-1.0, 3.0), lambda x: (x + 1) / 4),
    "normal": ((2.0, 3.0), lambda x: normal((x - 2) / 3)),
    "log_normal": ((0.0, 0.5), lambda x: normal(np.log(x) / 0.5)),
    "truncated_normal": ((0.0, 1.0, -1.0, 2.0), between(-1, 2)),
    "exponential": ((2.0,), lambda x: 1 - np.exp(-x / 2)),
    "laplace": ((1.0, 2.0), lambda x: laplace((x - 1) / 2)),
    "cauchy": ((1.0, 2.0), lambda x: 0.5 + np.arctan((x - 1) / 2) / math.pi),
    "gumbel": ((1.0, 2.0), lambda x: np.exp(-np.exp(-(x - 1) / 2))),
    "gamma": ((2.5, 2.0), lambda x: of("gammainc", 2.5)(x / 2)),
    "beta": ((0.5, 0.5), lambda x: 2 / math.pi * np.arcsin(np.sqrt(x))),
    "student_t": ((3.0,), lambda x: 0.5 + (np.arctan(x / 3 ** 0.5) + x / 3 ** 0.5 / (
        1 + x * x / 3)) / math.pi),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_follow_their_distribution(name: str, dtype: str) -> None:
    parameters, cdf = CONTINUOUS[name]
    x = getattr(random, name)(*parameters, size=(COUNT,), dtype=dtype, generator=Generator(4))
    assert (x.dtype, x.shape) == (dtype, (COUNT,))
    assert distance(x, cdf) < 1.63 / COUNT ** 0.5  # exceeded by chance once in a hundred seeds


@pytest.mark.parametrize("concentration", [0.1, 0.7, 1.0, 40.0])
def test_gamma_of_any_concentration(concentration: float) -> None:
    x = random.gamma(concentration, size=(COUNT,), dtype="float64", generator=Generator(2))
    assert distance(x, of("gammainc", concentration)) < 1.63 / COUNT ** 0.5


def test_a_far_tail_is_as_good_as_the_middle() -> None:
    x = random.truncated_normal(0.0, 1.0, 8.0, 9.0, (COUNT,), dtype="float64",
                                generator=Generator(1))
    tail = of("ndtr")(np.array([-8.0, -9.0]))
    cdf = distance(x, lambda v: (tail[0] - normal(-v)) / (tail[0] - tail[1]))
    assert cdf < 1.63 / COUNT ** 0.5


def chances(low: int, high: int, log_chance: Callable[[int], float]) -> Any:
    return np.exp([log_chance(k) for k in range(low, high)])


def poisson_log(mean: float) -> Callable[[int], float]:
    return lambda k: k * math.log(mean) - mean - math.lgamma(k + 1)


def binomial_log(n: int, p: float) -> Callable[[int], float]:
    return lambda k: (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
                      + k * math.log(p) + (n - k) * math.log1p(-p))


@pytest.mark.parametrize(("draw", "log_chance"), [
    (lambda g: random.poisson(0.3, (COUNT,), generator=g), poisson_log(0.3)),
    (lambda g: random.poisson(9.9, (COUNT,), generator=g), poisson_log(9.9)),
    (lambda g: random.poisson(10.0, (COUNT,), generator=g), poisson_log(10.0)),
    (lambda g: random.poisson(75.0, (COUNT,), generator=g), poisson_log(75.0)),
    (lambda g: random.binomial(10, 0.3, (COUNT,), generator=g), binomial_log(10, 0.3)),
    (lambda g: random.binomial(100, 0.45, (COUNT,), generator=g), binomial_log(100, 0.45)),
    (lambda g: random.binomial(1000, 0.9, (COUNT,), generator=g), binomial_log(1000, 0.9)),
])
def test_counts_follow_their_chances(draw: Any, log_chance: Any) -> None:
    x = draw(Generator(6)).numpy().astype(int)
    low, high = x.min(), x.max() + 1
    expected = COUNT * chances(low, high, log_chance)
    counted = np.bincount(x - low, minlength=high - low)
    often = expected > 5
    squares = ((counted - expected)[often] ** 2 / expected[often]).sum()
    assert squares < often.sum() + 3.5 * (2 * often.sum()) ** 0.5 + 3  # chi-squared


def test_counts_that_are_certain() -> None:
    assert random.poisson(0.0, (3,)).tolist() == [0, 0, 0]
    assert random.binomial(fw.tensor([5.0, 5.0, 0.0]), fw.tensor([0.0, 1.0, 0.5])).tolist() == [
        0, 5, 0]


def test_bernoulli() -> None:
    p = fw.tensor([0.0, 1.0, 0.25])
    x = random.bernoulli(p, (COUNT, 3), generator=Generator(0))
    assert x.dtype == fw.float32
    np.testing.assert_allclose(x.numpy().mean(0), p.numpy(), atol=0.012)
    assert fw.bernoulli(0.5, (2,), dtype=fw.bool).dtype == fw.bool


def test_dirichlet_is_positive_with_sum_one_and_the_right_means() -> None:
    concentration = fw.tensor([0.5, 1.0, 2.5], dtype=fw.float64)
    x = random.dirichlet(concentration, (COUNT,), generator=Generator(0)).numpy()
    assert x.shape == (COUNT, 3) and (x > 0).all()
    np.testing.assert_allclose(x.sum(-1), 1)
    np.testing.assert_allclose(x.mean(0), concentration.numpy() / 4, atol=0.01)
    assert np.isfinite(random.dirichlet(fw.full((4,), 1e-4)).numpy()).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_draws_by_weight(replacement: bool) -> None:
    weights = fw.tensor([1.0, 0.0, 4.0, 5.0])
    many = fw.broadcast_to(weights, (COUNT, 4))
    x = fw.multinomial(many, 2, replacement, generator=Generator(0)).numpy()
    assert x.shape == (COUNT, 2)
    shares = np.bincount(x[:, 0], minlength=4) / COUNT
    np.testing.assert_allclose(shares, [0.1, 0, 0.4, 0.5], atol=0.012)
    assert (x[:, 0] == x[:, 1]).any() == replacement


@pytest.mark.parametrize(("weights", "count", "words"), [
    ([1.0, -1.0], 1, "the weights must be finite"), ([0.0, 0.0], 1, "the weights must be finite"),
    ([1.0, math.nan], 1, "the weights must be finite"),
    ([1.0, 0.0], 2, "cannot draw 2 classes without"), ([[[1.0]]], 1, "takes weights"),
])
def test_multinomial_refuses(weights: Any, count: int, words: str) -> None:
    with pytest.raises(FusewireError, match=words):
        fw.multinomial(fw.tensor(weights), count)


def test_choice_and_shuffle() -> None:
    x = fw.tensor([[1, 2], [3, 4], [5, 6]])
    assert random.choice(x, (4, 5)).shape == (4, 5, 2)
    assert sorted(random.choice(5, 5, replace=False).tolist()) == list(range(5))
    assert random.choice(3, 4, p=fw.tensor([0.0, 1.0, 0.0])).tolist() == [1] * 4
    assert sorted(random.shuffle(x).tolist()) == x.tolist()
    with pytest.raises(FusewireError, match="cannot draw 4 of 3 without replacement"):
        random.choice(x, 4, replace=False)


# ---- parameters
def test_parameters_broadcast_and_give_the_dtype() -> None:
    x = random.normal(fw.zeros(2, 1, dtype=fw.float64), fw.ones(3))
    assert (x.shape, x.dtype) == ((2, 3), fw.float64)
    assert random.normal(0, 1, (2,), dtype=fw.bfloat16).dtype == fw.bfloat16
    with pytest.raises(FusewireError, match="do not broadcast to the size"):
        random.normal(fw.zeros(3), 1.0, (2, 1))
    with pytest.raises(FusewireError, match="its numbers are real floating point"):
        random.normal(0, 1, (2,), dtype=fw.int64)


@pytest.mark.parametrize("name", ["uniform", "normal", "laplace", "cauchy", "gumbel", "log_normal"])
def test_gradients_flow_through_the_formula(name: str) -> None:
    first, second = (fw.tensor(v, requires_grad=True, dtype=fw.float64) for v in (0.5, 2.0))

    def draw(a: Any, b: Any) -> Any:
        return getattr(random, name)(a, b, (5,), generator=Generator(1)).sum()

    gradients = fw.grad(draw(first, second), [first, second])
    step = 1e-6
    for i, got in enumerate(gradients):
        high, low = (draw(*[fw.tensor(v.item() + sign * step * (i == j), dtype=fw.float64)
                            for j, v in enumerate((first, second))]).item() for sign in (1, -1))
        assert got.item() == pytest.approx((high - low) / (2 * step), rel=1e-5)


def test_gamma_says_where_no_gradient_flows() -> None:
    scale = fw.tensor(2.0, requires_grad=True)
    assert fw.grad(random.gamma(1.5, scale, (3,)).sum(), [scale])[0].item() > 0
    with pytest.raises(FusewireError, match="gamma: no gradient flows to the concentration"):
        random.gamma(fw.tensor(2.0, requires_grad=True))


# ---- recordings and documentation
def test_compiled_numbers_are_eager_numbers() -> None:
    def draw() -> list[fw.Tensor]:
        return [fw.rand(5), fw.randn(3), fw.randint(0, 2 ** 40, (3,)), random.gamma(0.5, size=(4,)),
                random.truncated_normal(size=(3,)), random.bernoulli(0.5, (9,)),
                random.student_t(3.0, size=(3,))]

    compiled = fw.compile(draw)
    runs = []
    for function in (draw, compiled, compiled):
        fw.manual_seed(3)
        runs.append([function() for _ in range(2)])
    assert compiled.stats.replays >= 3
    for run in runs[1:]:
        for got, expected in zip(run, runs[0]):
            for a, b in zip(got, expected):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
