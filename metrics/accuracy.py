"""Measures the share of samples whose class, or whose labels, are right."""

from __future__ import annotations

import fusewire as fw

from .averages import ratio
from .labels import check_at_least, check_choice, check_same_shape, is_counted, predicted_classes
from .metric import Metric, counts


class Accuracy(Metric):
    """The share of right predictions, float64 ().

    Equal scores rank by their class, the lowest first, as in `argmax`. A score that is nan ranks
    before all others, so a target is never found behind it.

    Args:
        top_k: a sample is right if its target is among the k highest scores. Default 1.
        multilabel: None: each sample has one class. "samples": predictions and targets (n, labels);
            a sample is right if all of its labels are. "labels": each label counts by itself.
            Default None.
        threshold: least probability of a label, or of class 1. Default 0.5.
        ignore_index: targets with this value do not count. Default None.

    Raises:
        ArgumentError: `multilabel` has another value, `top_k` is less than 1, or more than 1 with
            labels.

    Example:
        >>> import fusewire as fw
        >>> accuracy = fw.metrics.Accuracy()
        >>> accuracy.update(fw.tensor([[0.1, 0.9], [0.8, 0.2]]), fw.tensor([1, 1]))
        >>> accuracy.compute()
        tensor(0.5, dtype=float64)
    """

    correct: fw.Tensor
    count: fw.Tensor

    def __init__(self, top_k: int = 1, multilabel: str | None = None, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:
        check_at_least("Accuracy", "top_k", top_k, 1)
        check_choice("Accuracy", "multilabel", multilabel, (None, "samples", "labels"))
        if top_k > 1 and multilabel is not None:
            raise fw.ArgumentError(f"Accuracy: top_k={top_k} is about one class for each sample, "
                                   f"and multilabel={multilabel!r}", "leave one of them out")
        self.top_k, self.multilabel, self.threshold = top_k, multilabel, threshold
        self.ignore_index = ignore_index
        super().__init__(correct=counts(), count=counts())

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            predictions: scores (n, classes, ...), or classes or probabilities of class 1 in the
                shape of the targets; with labels probabilities, or 0 and 1, (n, labels).
            targets: classes (n, ...), or labels (n, labels).

        Raises:
            ShapeError: the shapes do not fit.
        """
        self.move(targets.device)
        is_right = self._is_right(predictions, targets)
        is_used = is_counted(targets, self.ignore_index)
        if self.multilabel == "samples":
            is_right = (is_right | ~is_used).all(axis=1)
            is_used = is_used.any(axis=1)
        self.correct = self.correct + (is_right & is_used).sum()
        self.count = self.count + is_used.sum()

    def compute(self) -> fw.Tensor:
        """The share of right predictions, float64 ()."""
        return ratio(self.correct, self.needed(self.count), fw.nan)

    def _is_right(self, predictions: fw.Tensor, targets: fw.Tensor) -> fw.Tensor:
        if self.multilabel is not None:
            check_same_shape("Accuracy", predictions, targets)
            return (predictions >= self.threshold) == (targets > 0)
        if predictions.ndim == targets.ndim + 1:
            return self._is_in_top(predictions, targets)
        return predicted_classes("Accuracy", predictions, targets, self.threshold) == targets

    def _is_in_top(self, scores: fw.Tensor, targets: fw.Tensor) -> fw.Tensor:
        predicted_classes("Accuracy", scores, targets, self.threshold)  # checks the shapes
        scores = scores.moveaxis(1, -1)
        classes = fw.arange(scores.shape[-1], device=scores.device)
        is_target = classes == targets.expand_dims(-1)
        own = fw.where(is_target, scores, 0).sum(axis=-1, keepdims=True)
        is_before = classes < targets.expand_dims(-1)
        ahead = ~(scores <= own) | ((scores == own) & is_before)
        found = (ahead & ~is_target).sum(axis=-1) < self.top_k
        return found & is_target.any(axis=-1) & ~fw.isnan(own).squeeze(-1)
