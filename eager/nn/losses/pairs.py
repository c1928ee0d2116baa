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
    """The mean of max(0, -target * (input1 - input2) + margin).

    The target is 1 where input1 should be larger, -1 where input2 should. All have one shape. The
    result is a number, or with reduction "none" has their shape.

    Args:
        margin: the least difference without a loss. Default 0.0.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: the inputs and the target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.MarginRankingLoss(margin=1.0)
        >>> loss(fw.tensor([3.0, 2.0]), fw.tensor([1.0, 2.0]), fw.tensor([1.0, 1.0]))
        tensor(0.5)
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(Loss):
    """The mean of distances where target is 1, of max(0, margin - distance) where it is -1.

    input holds distances; it and target have one shape. The result is a number, or with reduction
    "none" has their shape.

    Args:
        margin: the least distance without a loss for target -1. Default 1.0.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.HingeEmbeddingLoss()(fw.tensor([2.0, 0.5]), fw.tensor([1.0, -1.0]))
        tensor(1.25)
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(Loss):
    """The mean of 1 - cos where target is 1, of max(0, cos - margin) where it is -1.

    cos is the cosine of the angle between rows of input1 and input2, (n, d), and target is (n,); or
    they are (d,) and (). With reduction "none" the result has the shape of the target.

    Args:
        margin: the largest cosine without a loss for target -1. Default 0.0.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: the inputs differ in shape, or the target does not fit.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.CosineEmbeddingLoss()
        >>> loss(fw.tensor([[1.0, 0.0]]), fw.tensor([[0.0, 1.0]]), fw.tensor([1.0]))
        tensor(1.)
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(Loss):
    """The mean of max(0, margin + |anchor - positive|_p - |anchor - negative|_p).

    anchor, positive and negative are (n, d), or (d,). With reduction "none" the result is (n,).

    Args:
        margin: the least difference of distances without a loss. Default 1.0.
        p: order of the norm. Default 2.0.
        eps: added to the differences. Default 1e-06.
        swap: True takes the smaller distance of the negative, to the anchor or to the positive:
            Balntas et al., "Learning local feature descriptors with triplets" (2016). Default
            False.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction, or margin is not above 0.
        ShapeError: the inputs differ in the number of axes, or do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.TripletMarginLoss(eps=0.0)
        >>> loss(fw.tensor([[0.0]]), fw.tensor([[2.0]]), fw.tensor([[1.0]]))
        tensor(2.)
    """

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 reduction: str = "mean") -> None:
        _check_margin("TripletMarginLoss", margin)
        super().__init__(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps,
                                     self.swap, self.reduction)


class TripletMarginWithDistanceLoss(Loss):
    """The mean of max(0, margin + f(anchor, positive) - f(anchor, negative)).

    f is distance_function. anchor, positive and negative are (n, d), or (d,). With reduction "none"
    the result has the shape of the distances.

    Args:
        distance_function: a function of two tensors. Default None: PairwiseDistance().
        margin: the least difference of distances without a loss. Default 1.0.
        swap: True takes the smaller distance of the negative, to the anchor or to the positive.
            Default False.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction, or margin is not above 0.
        ShapeError: the inputs differ in the number of axes, or do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> distance = fw.nn.PairwiseDistance(p=1.0, eps=0.0)
        >>> loss = fw.nn.TripletMarginWithDistanceLoss(distance_function=distance)
        >>> loss(fw.tensor([[0.0]]), fw.tensor([[2.0]]), fw.tensor([[1.0]]))
        tensor(2.)
    """

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
