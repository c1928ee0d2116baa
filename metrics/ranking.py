"""Measures how well scores rank the samples of a class before others, without a threshold.

All scores are kept, since the exact values depend on the order of all of them.
"""

from __future__ import annotations

import fusewire as fw

from .averages import averaged
from .labels import check_choice, check_same_shape, is_float
from .metric import Metric


class _Ranking(Metric):
    """Keeps the scores and whether each is of a positive, (n,) or (n, classes)."""

    scores: list[fw.Tensor]
    positives: list[fw.Tensor]

    def __init__(self, average: str | None = "macro") -> None:
        check_choice(type(self).__name__, "average", average, ("macro", "weighted", None))
        self.average = average
        super().__init__(scores=[], positives=[])

    def update(self, scores: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            scores: of class 1 (n,); or of each class or label (n, classes). No nan.
            targets: 0 and 1 in the shape of the scores, or the class of each sample (n,).

        Raises:
            ShapeError: the shapes do not fit, or they are not those of earlier batches.
            DTypeError: the targets are floats.
        """
        name = type(self).__name__
        if is_float(targets):
            raise fw.DTypeError(f"{name}: targets are integers, got {targets.dtype}",
                                "cast them: targets.astype(fw.int64)")
        if scores.ndim == 2 and targets.shape == scores.shape[:1]:
            targets = targets.expand_dims(1) == fw.arange(scores.shape[1], device=scores.device)
        check_same_shape(name, scores, targets)
        if scores.ndim not in (1, 2) or (self.scores
                                         and self.scores[0].shape[1:] != scores.shape[1:]):
            raise fw.ShapeError(f"{name}: scores {scores.shape} are not (n,) or (n, classes), or "
                                "not as in earlier batches", "reshape them")
        self.scores = [*self.scores, scores.detach()]
        self.positives = [*self.positives, targets > 0]

    def compute(self) -> fw.Tensor:
        """The value (), or of each class (classes,), float64; nan where it is not defined.

        Raises:
            StateError: there is no sample yet.
            ArgumentError: a score is nan, which has no rank.
        """
        name = type(self).__name__
        if not sum(len(part) for part in self.scores):
            raise fw.StateError(f"{name}: there is no sample yet", "call update before compute")
        device = self.scores[0].device
        scores = fw.concat([part.to(device) for part in self.scores])
        positives = fw.concat([part.to(device) for part in self.positives])
        if bool(fw.isnan(scores).any()):
            raise fw.ArgumentError(f"{name}: {int(fw.isnan(scores).sum())} scores are nan, which "
                                   "have no rank", "find the layer that makes them: "
                                   "fw.autograd.detect_anomaly()")
        if scores.ndim == 1:
            return self._of_class(scores, positives)
        values = fw.stack([self._of_class(scores[:, i], positives[:, i])
                           for i in range(scores.shape[1])])
        if self.average == "macro":
            return values.mean()
        weights = positives.sum(axis=0)
        return values if self.average is None else averaged(values, weights, "weighted")

    def _of_class(self, scores: fw.Tensor, positives: fw.Tensor) -> fw.Tensor:
        raise NotImplementedError


class AUROC(_Ranking):
    """The area under the ROC curve, float64: how often a positive scores higher than a negative.

    Pairs of equal scores count half. The value is nan if there is no positive or no negative. It
    is computed from counts of pairs, which are exact.

    Args:
        average: for several classes, one against the rest, or several labels: "macro" is the mean,
            nan if a class is not defined; "weighted" the mean by positives, without such classes;
            None gives all values. Default "macro".

    Example:
        >>> import fusewire as fw
        >>> auroc = fw.metrics.AUROC()
        >>> auroc.update(fw.tensor([0.1, 0.4, 0.35, 0.8]), fw.tensor([0, 0, 1, 1]))
        >>> auroc.compute()
        tensor(0.75, dtype=float64)
    """

    def _of_class(self, scores: fw.Tensor, positives: fw.Tensor) -> fw.Tensor:
        found, others = scores[positives], fw.sort(scores[~positives])
        below = fw.searchsorted(others, found, "left").sum()
        not_above = fw.searchsorted(others, found, "right").sum()
        pairs = len(found) * len(others)
        if not pairs:
            return fw.full((), fw.nan, dtype=fw.float64, device=scores.device)
        return (below + not_above).astype(fw.float64) / (2 * pairs)


class AveragePrecision(_Ranking):
    """The mean of the precision at each positive, float64: the area under precision by recall.

    Precision at a positive is that of all samples whose score is at least as high. The value is nan
    if there is no positive, where scikit-learn warns and says 0.

    Args:
        average: as of `AUROC`. Default "macro".

    Example:
        >>> import fusewire as fw
        >>> precision = fw.metrics.AveragePrecision()
        >>> precision.update(fw.tensor([0.1, 0.4, 0.35, 0.8]), fw.tensor([0, 0, 1, 1]))
        >>> round(float(precision.compute()), 4)
        0.8333
    """

    def _of_class(self, scores: fw.Tensor, positives: fw.Tensor) -> fw.Tensor:
        found = fw.sort(scores[positives])
        if not len(found):
            return fw.full((), fw.nan, dtype=fw.float64, device=scores.device)
        right = len(found) - fw.searchsorted(found, found, "left")
        at_least = len(scores) - fw.searchsorted(fw.sort(scores), found, "left")
        return (right.astype(fw.float64) / at_least.astype(fw.float64)).mean()
