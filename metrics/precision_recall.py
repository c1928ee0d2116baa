"""Measures precision, recall and F1, from counts for each class."""

from __future__ import annotations

import fusewire as fw

from .averages import AVERAGES, averaged, ratio
from .labels import (
    check_at_least,
    check_choice,
    check_same_shape,
    class_counts,
    is_counted,
    predicted_classes,
)
from .metric import Metric, counts


class _ByClass(Metric):
    """Counts for each class: right predictions, predictions, and targets."""

    right: fw.Tensor
    predicted: fw.Tensor
    actual: fw.Tensor

    def __init__(self, num_classes: int, average: str | None = "macro", multilabel: bool = False,
                 threshold: float = 0.5, ignore_index: int | None = None,
                 zero_division: float = 0.0) -> None:
        check_at_least(type(self).__name__, "num_classes", num_classes, 1)
        check_choice(type(self).__name__, "average", average, (*AVERAGES, "binary"))
        if average == "binary" and (num_classes != 2 or multilabel):
            raise fw.ArgumentError(f"{type(self).__name__}: average='binary' is the value of class "
                                   f"1 of 2, and num_classes={num_classes}, "
                                   f"multilabel={multilabel}", "average=None has all classes")
        self.num_classes, self.average, self.multilabel = num_classes, average, multilabel
        self.threshold, self.ignore_index = threshold, ignore_index
        self.zero_division = str(zero_division)  # a text, so that nan equals nan in `merge`
        super().__init__(right=counts(num_classes), predicted=counts(num_classes),
                         actual=counts(num_classes))

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            predictions: scores (n, classes, ...), or classes or probabilities of class 1 in the
                shape of the targets; with labels probabilities, or 0 and 1, (n, labels).
            targets: classes (n, ...), or labels (n, labels).

        Raises:
            ShapeError: the shapes do not fit.
            IndexingError: a class is not from 0 to num_classes - 1.
        """
        self.move(targets.device)
        right, predicted, actual = self._of_labels(predictions, targets) if self.multilabel \
            else self._of_classes(predictions, targets)
        self.right = self.right + right
        self.predicted = self.predicted + predicted
        self.actual = self.actual + actual

    def compute(self) -> fw.Tensor:
        """The average (), or the value of each class (classes,), float64."""
        self.needed(self.actual + self.predicted)
        otherwise = float(self.zero_division)
        if self.average == "micro":
            return ratio(*self._fraction(self.right.sum(), self.predicted.sum(),
                                         self.actual.sum()), otherwise)
        values = ratio(*self._fraction(self.right, self.predicted, self.actual), otherwise)
        if self.average == "binary":
            return values[1]
        if self.average == "macro" and not self.multilabel:
            values = fw.where(self.predicted + self.actual > 0, values, fw.nan)
        return averaged(values, self.actual, self.average)

    def _fraction(self, right: fw.Tensor, predicted: fw.Tensor, actual: fw.Tensor
                  ) -> tuple[fw.Tensor, fw.Tensor]:
        raise NotImplementedError

    def _of_classes(self, predictions: fw.Tensor, targets: fw.Tensor) -> tuple[fw.Tensor, ...]:
        name, classes = type(self).__name__, self.num_classes
        found = predicted_classes(name, predictions, targets, self.threshold)
        used = is_counted(targets, self.ignore_index)
        return (class_counts(name, targets, classes, used & (found == targets)),
                class_counts(name, found, classes, used),
                class_counts(name, targets, classes, used))

    def _of_labels(self, predictions: fw.Tensor, targets: fw.Tensor) -> tuple[fw.Tensor, ...]:
        name = type(self).__name__
        check_same_shape(name, predictions, targets)
        if targets.shape[1:] != (self.num_classes,):
            raise fw.ShapeError(f"{name}: targets {targets.shape} are not (n, labels) with "
                                f"num_classes={self.num_classes} labels")
        used = is_counted(targets, self.ignore_index)
        found, wanted = (predictions >= self.threshold) & used, (targets > 0) & used
        return tuple(x.sum(axis=0) for x in (found & wanted, found, wanted))


class Precision(_ByClass):
    """The share of the predictions of a class that are right, float64.

    Args:
        num_classes: number of classes, or of labels.
        average: "macro" is the mean over the classes that occur in targets or predictions,
            "weighted" the mean by the targets of each class, "micro" counts all classes together,
            "binary" is the value of class 1 of 2, None gives all values. Default "macro".
        multilabel: predictions and targets are (n, labels). Default False.
        threshold: least probability of a label, or of class 1. Default 0.5.
        ignore_index: targets with this value do not count. Default None.
        zero_division: the value of a class that is never predicted; classes with nan are left out
            of averages. Default 0.

    Example:
        >>> import fusewire as fw
        >>> precision = fw.metrics.Precision(2, average=None)
        >>> precision.update(fw.tensor([0, 1, 1]), fw.tensor([0, 0, 1]))
        >>> precision.compute()
        tensor([1. , 0.5], dtype=float64)
    """

    def _fraction(self, right: fw.Tensor, predicted: fw.Tensor, actual: fw.Tensor
                  ) -> tuple[fw.Tensor, fw.Tensor]:
        return right, predicted


class Recall(_ByClass):
    """The share of the targets of a class that are found, float64.

    The arguments are those of `Precision`.

    Example:
        >>> import fusewire as fw
        >>> recall = fw.metrics.Recall(2, average=None)
        >>> recall.update(fw.tensor([0, 1, 1]), fw.tensor([0, 0, 1]))
        >>> recall.compute()
        tensor([0.5, 1. ], dtype=float64)
    """

    def _fraction(self, right: fw.Tensor, predicted: fw.Tensor, actual: fw.Tensor
                  ) -> tuple[fw.Tensor, fw.Tensor]:
        return right, actual


class F1(_ByClass):
    """The harmonic mean of precision and recall, float64.

    The arguments are those of `Precision`.

    Example:
        >>> import fusewire as fw
        >>> f1 = fw.metrics.F1(2, average="micro")
        >>> f1.update(fw.tensor([0, 1, 1]), fw.tensor([0, 0, 1]))
        >>> round(float(f1.compute()), 4)
        0.6667
    """

    def _fraction(self, right: fw.Tensor, predicted: fw.Tensor, actual: fw.Tensor
                  ) -> tuple[fw.Tensor, fw.Tensor]:
        return 2 * right, predicted + actual
