"""Counts which classes are taken for which."""

from __future__ import annotations

import fusewire as fw

from .averages import averaged, ratio
from .labels import check_at_least, check_choice, pair_counts, predicted_classes
from .metric import Metric, counts


class ConfusionMatrix(Metric):
    """How often each class was predicted for each target, (target, prediction).

    Args:
        num_classes: number of classes.
        normalize: None gives counts. "true" divides by the sums of rows, "pred" of columns, "all"
            by the number of samples; a sum of zero gives zeros. Default None.
        threshold: least probability of class 1, for predictions in the shape of the targets.
            Default 0.5.
        ignore_index: targets with this value do not count. Default None.

    Raises:
        ArgumentError: `num_classes` is less than 1, or another `normalize`.

    Example:
        >>> import fusewire as fw
        >>> matrix = fw.metrics.ConfusionMatrix(2)
        >>> matrix.update(fw.tensor([0, 1, 1]), fw.tensor([0, 0, 1]))
        >>> matrix.compute()
        tensor([[1, 1],
                [0, 1]])
    """

    matrix: fw.Tensor

    def __init__(self, num_classes: int, normalize: str | None = None, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:
        check_at_least(type(self).__name__, "num_classes", num_classes, 1)
        check_choice(type(self).__name__, "normalize", normalize, (None, "true", "pred", "all"))
        self.num_classes, self.normalize, self.threshold = num_classes, normalize, threshold
        self.ignore_index = ignore_index
        super().__init__(matrix=counts(num_classes, num_classes))

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            predictions: scores (n, classes, ...), or classes or probabilities of class 1 in the
                shape of the targets.
            targets: classes (n, ...).

        Raises:
            ShapeError: the shapes do not fit.
            IndexingError: a class is not from 0 to num_classes - 1.
        """
        self.move(targets.device)
        name = type(self).__name__
        predicted = predicted_classes(name, predictions, targets, self.threshold)
        self.matrix = self.matrix + pair_counts(name, predicted, targets, self.num_classes,
                                                self.ignore_index)

    def compute(self) -> fw.Tensor:
        """The matrix (classes, classes): int64 counts, or float64 shares."""
        matrix = self.needed(self.matrix)
        sums = {None: None, "true": matrix.sum(axis=1, keepdims=True),
                "pred": matrix.sum(axis=0, keepdims=True), "all": matrix.sum()}[self.normalize]
        return matrix if sums is None else ratio(matrix, sums.broadcast_to(matrix.shape), 0.0)


class IoU(ConfusionMatrix):
    """Intersection over union of the pixels of each class (Jaccard index), float64.

    Args:
        num_classes: number of classes.
        average: "macro" is the mean over the classes that occur in targets or predictions; None
            gives a value for each class, nan for those that do not occur. Default "macro".
        threshold: least probability of class 1, for predictions in the shape of the targets.
            Default 0.5.
        ignore_index: pixels whose target has this value do not count. Default None.

    Example:
        >>> import fusewire as fw
        >>> iou = fw.metrics.IoU(2)
        >>> iou.update(fw.tensor([[[0, 1], [1, 1]]]), fw.tensor([[[0, 0], [1, 1]]]))
        >>> round(float(iou.compute()), 4)
        0.5833
    """

    def __init__(self, num_classes: int, average: str | None = "macro", threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:
        check_choice("IoU", "average", average, ("macro", None))
        self.average = average
        super().__init__(num_classes, None, threshold, ignore_index)

    def compute(self) -> fw.Tensor:
        """The mean (), or the value of each class (classes,)."""
        self.needed(self.matrix)
        both = self.matrix.diagonal()
        either = self.matrix.sum(axis=0) + self.matrix.sum(axis=1) - both
        return averaged(ratio(both, either, fw.nan), either, self.average)
