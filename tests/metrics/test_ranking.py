"""AUROC and average precision are those of scikit-learn, with equal scores too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import AUROC, AveragePrecision

sk = pytest.importorskip("sklearn.metrics")
SEEDS = range(5)
KINDS = [(AUROC, sk.roc_auc_score), (AveragePrecision, sk.average_precision_score)]


@pytest.mark.parametrize("decimals", [8, 1, 0])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "expected"), KINDS)
def test_two_classes(kind: Any, expected: Any, seed: int, decimals: int) -> None:
    """Rounded scores have many ties."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=60), decimals).astype(np.float32)
    targets = rng.integers(0, 2, 60)
    same(value_of(kind, scores, targets), expected(targets, scores))


@pytest.mark.parametrize("average", ["macro", "weighted", None])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "expected"), KINDS)
def test_labels_and_classes(kind: Any, expected: Any, seed: int, average: str | None) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.random((50, 4)).round(1), rng.integers(0, 2, (50, 4))
    same(value_of(lambda: kind(average), scores, labels),
         expected(labels, scores, average=average))
    classes = rng.integers(0, 4, 50)
    same(value_of(lambda: kind(average), scores, classes),
         expected(np.eye(4)[classes], scores, average=average))


@pytest.mark.parametrize(("kind", "expected"), KINDS)
def test_extreme_scores(kind: Any, expected: Any) -> None:
    targets = np.array([0, 1, 1, 0, 1])
    for scores in (targets * 1.0, -targets * 1.0, np.zeros(5),
                   np.array([-np.inf, np.inf, 0, 0, np.inf])):
        if np.isfinite(scores).all():  # scikit-learn refuses infinity
            same(value_of(kind, scores, targets), expected(targets, scores))
        else:
            finite = np.clip(scores, -9, 9)
            same(value_of(kind, scores, targets), expected(targets, finite))


def test_one_class_only() -> None:
    """What is not defined is nan; scikit-learn warns, and says nan or 0."""
    scores, ones = np.array([0.1, 0.7, 0.4]), np.ones(3, int)
    assert np.isnan(value_of(AUROC, scores, ones)) and np.isnan(value_of(AUROC, scores, ones - 1))
    assert value_of(AveragePrecision, scores, ones) == 1
    assert np.isnan(value_of(AveragePrecision, scores, ones - 1))


def test_a_weighted_mean_leaves_out_classes_without_samples() -> None:
    rng = np.random.default_rng(0)
    scores, classes = rng.random((30, 3)), rng.integers(0, 2, 30)
    alone = [sk.roc_auc_score(classes == i, scores[:, i]) for i in range(2)]
    expected = np.average(alone, weights=np.bincount(classes))
    same(value_of(lambda: AUROC("weighted"), scores, classes), expected)
    assert np.isnan(value_of(AUROC, scores, classes))


def test_a_million_pairs_are_counted_exactly() -> None:
    """Half of the pairs are in order, with one more pair: sums in float32 would lose it."""
    scores = np.concatenate([np.zeros(1000), np.zeros(999), [1.0]])
    targets = np.repeat([0, 1], 1000)
    auroc = AUROC()
    auroc.update(fw.asarray(scores), fw.asarray(targets))
    assert auroc.compute().item() == (999 * 1000 * 0.5 + 1000) / 1e6


def test_errors_say_what_happened() -> None:
    auroc = AUROC()
    with pytest.raises(fw.StateError, match="no sample yet"):
        auroc.compute()
    auroc.update(fw.tensor([float("nan"), 1.0]), fw.tensor([0, 1]))
    with pytest.raises(fw.ArgumentError, match="1 scores are nan"):
        auroc.compute()
    with pytest.raises(fw.ShapeError, match="not as in earlier batches"):
        auroc.update(fw.zeros(2, 3), fw.tensor([0, 1]))
