"""Metrics of numbers and probabilities are those of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import R2, CalibrationError, MeanAbsoluteError, MeanSquaredError, Perplexity

sk = pytest.importorskip("sklearn.metrics")
SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_of_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, targets = rng.normal(size=(2, 40, 3)).astype(np.float32)
    same(value_of(MeanSquaredError, found, targets),
         sk.mean_squared_error(targets.astype(float), found.astype(float)))
    same(value_of(MeanAbsoluteError, found, targets),
         sk.mean_absolute_error(targets.astype(float), found.astype(float)))


@pytest.mark.parametrize(("average", "theirs"), [("uniform", "uniform_average"),
                                                 ("variance", "variance_weighted"),
                                                 (None, "raw_values")])
@pytest.mark.parametrize("seed", SEEDS)
def test_explained_variance(seed: int, average: str | None, theirs: str) -> None:
    rng = np.random.default_rng(seed)
    found, targets = rng.normal(size=(2, 40, 3))
    targets[:, 1] = 2  # a constant, whose predictions are wrong or right
    found[:, 1] = targets[:, 1] if seed % 2 else found[:, 1]
    same(value_of(lambda: R2(3, average), found, targets),
         sk.r2_score(targets, found, multioutput=theirs))


def test_a_small_variance_beside_a_large_mean_keeps_its_digits() -> None:
    rng = np.random.default_rng(0)
    targets = 1e6 + rng.normal(size=200)
    found = targets + rng.normal(size=200)
    np.testing.assert_allclose(value_of(R2, found, targets), sk.r2_score(targets, found),
                               rtol=1e-7)


def test_a_constant_that_rounds_is_a_constant() -> None:
    """The mean of many 0.1 is not 0.1, so that scikit-learn divides by about 1e-32."""
    targets = np.full(40, 0.1)
    assert value_of(R2, targets + np.arange(40) / 100, targets) == 0
    assert value_of(R2, targets, targets) == 1


def test_one_sample_explains_nothing() -> None:
    r2 = R2()
    r2.update(fw.tensor([1.0]), fw.tensor([1.0]))
    assert np.isnan(r2.compute().item())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_perplexity(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(8, 5, 7)).astype(dtype), rng.integers(0, 7, (8, 5))
    wide = logits.astype(float)
    chances = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    expected = np.exp(sk.log_loss(targets.reshape(-1), chances.reshape(-1, 7), labels=range(7)))
    whole = Perplexity()
    whole.update(fw.asarray(logits), fw.asarray(targets))
    np.testing.assert_allclose(whole.compute().item(), expected, rtol=1e-6)
    value_of(Perplexity, wide, targets)


def test_perplexity_leaves_out_padding_and_refuses_other_tokens() -> None:
    perplexity = Perplexity()
    logits = fw.tensor([[0.0, 1.0, 2.0], [9.0, 0.0, 0.0]])
    perplexity.update(logits, fw.tensor([1, -100]))
    assert perplexity.compute().item() == pytest.approx(
        np.exp(np.log(np.exp([0, 1, 2]).sum()) - 1))
    for wrong in (-1, 3):
        with pytest.raises(fw.IndexingError):
            perplexity.update(logits, fw.tensor([1, wrong]))


def expected_calibration(chances: Any, right: Any, bins: int, norm: str) -> float:
    """From scikit-learn's means of bins, and the number of samples in each."""
    from sklearn.calibration import calibration_curve

    rates, means = calibration_curve(right, chances, n_bins=bins)
    places = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], chances)
    counts = np.bincount(places, minlength=bins)
    gaps, shares = np.abs(rates - means), counts[counts > 0] / len(chances)
    return {"l1": (gaps * shares).sum(), "l2": np.sqrt((gaps ** 2 * shares).sum()),
            "max": gaps.max()}[norm]


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("seed", SEEDS)
def test_calibration_of_two_classes(seed: int, bins: int, norm: str) -> None:
    """Rounded probabilities lie on edges of bins."""
    rng = np.random.default_rng(seed)
    chances, targets = rng.random(80).round(1 + seed), rng.integers(0, 2, 80)
    chances[:3], targets[:2] = (0, 1, 0.5), (0, 1)
    same(value_of(lambda: CalibrationError(bins, norm), chances, targets),
         expected_calibration(chances, targets, bins, norm))


@pytest.mark.parametrize("seed", SEEDS)
def test_calibration_of_the_best_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chances, targets = rng.dirichlet(np.ones(4), 80), rng.integers(0, 4, 80)
    same(value_of(CalibrationError, chances, targets),
         expected_calibration(chances.max(1), chances.argmax(1) == targets, 15, "l1"))


def test_probabilities_out_of_range_are_an_error() -> None:
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(fw.IndexingError, match="CalibrationError"):
            CalibrationError().update(fw.tensor([wrong, 0.5]), fw.tensor([0, 1]))
