"""Metrics of classes and labels are those of scikit-learn, in batches and merged as at once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import F1, Accuracy, ConfusionMatrix, IoU, Precision, Recall

sk = pytest.importorskip("sklearn.metrics")
SEEDS = range(4)
CLASSES = 5
AVERAGES = ["micro", "macro", "weighted", None]
BY_CLASS = [(Precision, "precision_score"), (Recall, "recall_score"), (F1, "f1_score")]


def random_case(seed: int) -> tuple[Any, Any]:
    """Scores (n, classes) and targets (n,) of which one class never occurs."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, CLASSES - 1, 40)
    return rng.normal(size=(40, CLASSES)).astype(np.float32), targets


def extreme_cases() -> dict[str, tuple[Any, Any]]:
    """Predicted classes and targets."""
    mixed = np.array([0, 1, 2, 3, 4, 4, 0])
    return {"one class": (np.array([0, 1, 1]), np.array([1, 1, 1])), "all right": (mixed, mixed),
            "all wrong": ((mixed + 1) % CLASSES, mixed), "one sample": (mixed[:1], mixed[:1]),
            "never predicted": (np.zeros(7, int), mixed)}


def sklearn(name: str, targets: Any, found: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that do not occur
        return getattr(sk, name)(targets, found, **options)


@pytest.mark.parametrize("seed", SEEDS)
def test_accuracy(seed: int) -> None:
    scores, targets = random_case(seed)
    same(value_of(Accuracy, scores, targets), sk.accuracy_score(targets, scores.argmax(1)))


@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_target_is_among_the_highest_scores(seed: int, top_k: int) -> None:
    """With equal scores too. scikit-learn prefers the last class, we the first as argmax: classes
    in reverse order give the same."""
    scores, targets = random_case(seed)
    scores = np.round(scores)
    expected = sk.top_k_accuracy_score(CLASSES - 1 - targets, scores[:, ::-1], k=top_k,
                                       labels=range(CLASSES))
    same(value_of(lambda: Accuracy(top_k=top_k), scores, targets), expected)


def test_equal_scores_and_nan_find_no_target() -> None:
    """A model that gives one score for all classes is not right for each of them."""
    targets = fw.arange(CLASSES)
    for score in (0.0, float("nan")):
        accuracy = Accuracy(top_k=2)
        accuracy.update(fw.full((CLASSES, CLASSES), score), targets)
        assert accuracy.correct.item() == (2 if score == 0 else 0)
    accuracy = Accuracy()
    accuracy.update(fw.tensor([[float("nan"), 1.0]]), fw.tensor([1]))
    assert accuracy.correct.item() == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_accuracy_of_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, targets = rng.random((30, 3)), rng.integers(0, 2, (30, 3))
    found = (scores >= 0.3).astype(int)
    same(value_of(lambda: Accuracy(multilabel="samples", threshold=0.3), scores, targets),
         sk.accuracy_score(targets, found))
    same(value_of(lambda: Accuracy(multilabel="labels", threshold=0.3), scores, targets),
         1 - sk.hamming_loss(targets, found))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("kind", "name"), BY_CLASS)
@pytest.mark.parametrize("seed", SEEDS)
def test_precision_recall_and_f1_of_labels(kind: Any, name: str, average: str | None, seed: int
                                           ) -> None:
    """One of the labels occurs in no sample."""
    rng = np.random.default_rng(seed)
    scores, targets = rng.random((30, 3)), rng.integers(0, 2, (30, 3)) * [1, 0, 1]
    expected = sklearn(name, targets, (scores >= 0.3).astype(int), average=average,
                       zero_division=0.0)
    same(value_of(lambda: kind(3, average, multilabel=True, threshold=0.3), scores, targets),
         expected)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("kind", "name"), BY_CLASS)
@pytest.mark.parametrize("zero", [0.0, 1.0, float("nan")])
def test_precision_recall_and_f1(kind: Any, name: str, average: str | None, zero: float) -> None:
    cases = {f"seed {seed}": (scores.argmax(1), targets) for seed in SEEDS
             for scores, targets in [random_case(seed)]}
    labels = range(CLASSES) if average is None else None  # None: those that occur
    for found, targets in (cases | extreme_cases()).values():
        expected = sklearn(name, targets, found, average=average, zero_division=zero,
                           labels=labels)
        same(value_of(lambda: kind(CLASSES, average, zero_division=zero), found, targets),
             expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "name"), BY_CLASS)
def test_one_class_of_two(kind: Any, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chances, targets = rng.random(25), rng.integers(0, 2, 25)
    expected = sklearn(name, targets, (chances >= 0.5).astype(int))
    same(value_of(lambda: kind(2, "binary"), chances, targets), expected)


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_matrices(normalize: str | None) -> None:
    cases = {f"seed {seed}": (scores.argmax(1), targets) for seed in SEEDS
             for scores, targets in [random_case(seed)]}
    for found, targets in (cases | extreme_cases()).values():
        expected = sklearn("confusion_matrix", targets, found, labels=range(CLASSES),
                           normalize=normalize)
        same(value_of(lambda: ConfusionMatrix(CLASSES, normalize), found, targets), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_intersection_over_union_of_pixels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, targets = rng.normal(size=(6, 4, 5, 3)), rng.integers(0, 3, (6, 5, 3))
    found = scores.argmax(1).reshape(-1)
    same(value_of(lambda: IoU(4), scores, targets),
         sk.jaccard_score(targets.reshape(-1), found, average="macro"))
    same(value_of(lambda: IoU(4, average=None), scores, targets),
         sk.jaccard_score(targets.reshape(-1), found, average=None, labels=range(4)))


def test_a_class_that_does_not_occur_has_no_intersection_over_union() -> None:
    iou = IoU(3, average=None)
    iou.update(fw.tensor([0, 1]), fw.tensor([0, 0]))
    np.testing.assert_array_equal(iou.compute().numpy(), [0.5, 0, np.nan])


@pytest.mark.parametrize("make", [
    lambda index: Accuracy(ignore_index=index), lambda index: IoU(CLASSES, ignore_index=index),
    lambda index: F1(CLASSES, ignore_index=index),
    lambda index: ConfusionMatrix(CLASSES, ignore_index=index)])
@pytest.mark.parametrize("index", [0, 255, -100])
def test_ignored_targets_are_as_absent(make: Any, index: int) -> None:
    rng = np.random.default_rng(abs(index))
    scores, targets = rng.normal(size=(50, CLASSES)), rng.integers(1, CLASSES, 50)
    targets[::3] = index
    kept = targets != index
    same(value_of(lambda: make(index), scores, targets),
         value_of(lambda: make(None), scores[kept], targets[kept]))


@pytest.mark.parametrize("make", [lambda: ConfusionMatrix(3), lambda: IoU(3), lambda: F1(3)])
@pytest.mark.parametrize(("found", "targets"), [([3, 0], [0, 0]), ([0, 0], [0, 3]),
                                                ([-1, 0], [0, 0]), ([0, 0], [-1, 0])])
def test_a_class_out_of_range_is_an_error(make: Any, found: list[int], targets: list[int]) -> None:
    """It is never counted as another class."""
    metric = make()
    with pytest.raises(fw.IndexingError, match="outside of the range of classes"):
        metric.update(fw.tensor(found), fw.tensor(targets))


def test_shapes_and_kinds_that_do_not_fit_are_errors() -> None:
    with pytest.raises(fw.ShapeError, match=r"\(4, 3\) and targets \(5,\)"):
        Accuracy().update(fw.zeros(4, 3), fw.zeros(5, dtype=fw.int64))
    with pytest.raises(fw.DTypeError, match="targets are classes, got float32"):
        Accuracy().update(fw.zeros(4, 3), fw.zeros(4))
    with pytest.raises(fw.ShapeError, match="num_classes=3"):
        F1(3, multilabel=True).update(fw.zeros(4, 2), fw.zeros(4, 2, dtype=fw.int64))
    with pytest.raises(fw.ArgumentError, match="average='binary'"):
        F1(3, "binary")
