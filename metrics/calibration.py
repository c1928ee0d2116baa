"""Measures whether predictions are right as often as their probabilities say."""

from __future__ import annotations

import fusewire as fw

from .averages import ratio
from .labels import check_at_least, check_choice, counted_at, is_counted, predicted_classes
from .metric import Metric, counts


class CalibrationError(Metric):
    """The expected calibration error, float64 (): confidence against accuracy, by bins.

    Bins have equal widths; bin i has confidences above i / bins, up to (i + 1) / bins.
    Source: Guo et al., On Calibration of Modern Neural Networks, 2017.

    Args:
        bins: number of bins. Default 15.
        norm: "l1" is the mean difference by samples (ECE), "l2" the root of the mean square, "max"
            the largest difference (MCE). Default "l1".
        ignore_index: targets with this value do not count. Default None.

    Raises:
        ArgumentError: `bins` is less than 1, or another norm.

    Example:
        >>> import fusewire as fw
        >>> error = fw.metrics.CalibrationError(bins=2)
        >>> error.update(fw.tensor([0.75, 1.0]), fw.tensor([1, 0]))
        >>> error.compute()
        tensor(0.375, dtype=float64)
    """

    count: fw.Tensor
    right: fw.Tensor
    confidence: fw.Tensor

    def __init__(self, bins: int = 15, norm: str = "l1", ignore_index: int | None = None) -> None:
        check_at_least("CalibrationError", "bins", bins, 1)
        check_choice("CalibrationError", "norm", norm, ("l1", "l2", "max"))
        self.bins, self.norm, self.ignore_index = bins, norm, ignore_index
        super().__init__(count=counts(bins), right=counts(bins),
                         confidence=fw.zeros(bins, dtype=fw.float64))

    def update(self, probabilities: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            probabilities: of each class (n, classes, ...), where the highest is the confidence; or
                of class 1 in the shape of the targets, which is then compared with the share of
                class 1.
            targets: classes (n, ...).

        Raises:
            ShapeError: the shapes do not fit.
            IndexingError: a probability is not from 0 to 1.
        """
        self.move(targets.device)
        if probabilities.ndim == targets.ndim + 1:
            is_right = predicted_classes("CalibrationError", probabilities, targets, 0.5) == targets
            confidence = probabilities.max(axis=1)
        else:
            predicted_classes("CalibrationError", probabilities, targets, 0.5)  # checks the shapes
            is_right, confidence = targets == 1, probabilities
        used = is_counted(targets, self.ignore_index)
        confidence = confidence.detach().astype(fw.float64)
        edges = fw.linspace(0, 1, self.bins + 1, dtype=fw.float64, device=targets.device)[1:-1]
        allowed = ((confidence >= 0) & (confidence <= 1)) | ~used
        # Ignored elements go to a bin of their own, which is cut off.
        places = fw.where(used, fw.searchsorted(edges, confidence), self.bins)
        counted = counted_at("CalibrationError", places, allowed, self.bins + 1)
        self.count = self.count + counted[:-1]
        self.right = self.right + self._summed(places, (is_right & used).astype(fw.int64))
        self.confidence = self.confidence + self._summed(places, fw.where(used, confidence, 0.0))

    def compute(self) -> fw.Tensor:
        """The error, float64 ()."""
        count = self.needed(self.count)
        gaps = ratio(self.right.astype(fw.float64) - self.confidence, count, 0.0).abs()
        if self.norm == "max":
            return gaps.max()
        shares = ratio(count, count.sum().broadcast_to(count.shape), 0.0)
        return (gaps * shares).sum() if self.norm == "l1" else (gaps ** 2 * shares).sum().sqrt()

    def _summed(self, places: fw.Tensor, values: fw.Tensor) -> fw.Tensor:
        start = fw.zeros(self.bins + 1, dtype=values.dtype, device=values.device)
        return start.index_add(0, places.reshape(-1), values.reshape(-1))[:-1]
