"""Losses of pairs and triples, as layers."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ...errors import ArgumentError
from .. import functional as F
from ..layers.distance import PairwiseDistance
from .base import Loss

__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class MarginRankingLoss(Loss):
    """The mean of max(0, -target * (input1 - input2) + margin), for targets 1 and -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(Loss):
    """The mean of input, a distance, where target is 1, and of max(0, margin - input) where -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(Loss):
    """The mean of 1 - cos(input1, input2) where target is 1, of max(0, cos - margin) where -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(Loss):
    """The mean of max(0, margin + |anchor - positive|_p - |anchor - negative|_p), of rows."""

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 reduction: str = "mean") -> None:
        _check_margin("TripletMarginLoss", margin)
        super().__init__(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps,
                                     self.swap, self.reduction)


class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss with a `distance_function` of two tensors, by default PairwiseDistance."""

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0, swap: bool = False, reduction: str = "mean",
    ) -> None:
        _check_margin("TripletMarginWithDistanceLoss", margin)
        super().__init__(reduction, margin=margin, swap=swap,
                         distance_function=distance_function or PairwiseDistance())

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction)


def _check_margin(name: str, margin: float) -> None:
    if not margin > 0:
        raise ArgumentError(f"{name}: margin must be above 0, got {margin}")
