"""Loss layers: a prediction and a target to one number, or with reduction "none" one a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arguments import check_at_least, check_choice, check_fraction
from ...arrays.shapes import product
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.layers.entropy import NOTHING
from ...ops.shape.view import reshape
from .. import functional as F
from ..base.module import Module
from ..functional.losses import REDUCTIONS
from ..functional.losses_of_classes import LinearCrossEntropyOptions
from ..layers.distance import PairwiseDistance
from ..layers.linear import Linear

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    reductions: tuple[str, ...] = REDUCTIONS  # those that there are

    def __init__(self, reduction: str = "mean", **settings: Any) -> None:
        super().__init__()
        self.reduction: str = check_choice(
            type(self).__name__, "reduction", reduction, self.reductions)
        for name, value in settings.items():
            setattr(self, name, value)


class _WeightedLoss(_Loss):
    """One with a buffer `weight`: how much each class, or each element, counts."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", **settings: Any
                 ) -> None:
        super().__init__(reduction, **settings)
        self.register_buffer("weight", weight)


# ---- of values
class MSELoss(_Loss):
    """The mean ("sum": the sum) of (input - target) ** 2, a number; both of one shape."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """The mean of |input - target|, a number; both of one shape."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """The mean of |d| - beta / 2, below `beta` of d ** 2 / (2 beta), for d = input - target."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """The mean of d ** 2 / 2, above `delta` of delta * (|d| - delta / 2): d = input - target."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SoftMarginLoss(_Loss):
    """The mean of log(1 + exp(-target * input)), for targets 1 and -1."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, self.reduction)


class BCELoss(_WeightedLoss):
    """The mean cross entropy of probabilities input and target of two classes; both of one shape.

    For logits there is BCEWithLogitsLoss, which is exact where sigmoid(x) is nearly 0 or 1.
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The mean cross entropy of sigmoid(input) and target; `pos_weight` counts targets of 1."""

    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean",
                 pos_weight: Tensor | None = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction,
                                                  self.pos_weight)


class KLDivLoss(_Loss):
    """The mean of target * (log(target) - input): input log probabilities, target probabilities.

    "batchmean" is the Kullback-Leibler divergence: the sum divided by the size of axis 0.
    """

    reductions = (*REDUCTIONS, "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class PoissonNLLLoss(_Loss):
    """The mean of exp(log_input) - target * log_input, where log_input is the log of a rate."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
                 reduction: str = "mean") -> None:
        super().__init__(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps,
                                  self.reduction)


class GaussianNLLLoss(_Loss):
    """The mean of (log(var) + (input - target) ** 2 / var) / 2, with var at least `eps`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


# ---- of classes
class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(input)[target], averaged: input (n, classes, ...), target (n, ...) of integers.

    A floating point target of the shape of input holds a probability for each class instead.
    """

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = NOTHING, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction, ignore_index=ignore_index,
                         label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction,
                               self.label_smoothing)


class NLLLoss(_WeightedLoss):
    """-input[target], averaged: input (n, classes, ...) of log probabilities, target (n, ...)."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = NOTHING,
                 reduction: str = "mean") -> None:
        super().__init__(weight, reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear map of input (n, in_features) with a weight of its own.

    target (n, *out_features) of class numbers, or (n, num_classes, *out_features) of probabilities.
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(f"LinearCrossEntropyLoss: weight {weight.shape} must be "
                             f"{(num_classes,)}, one number for each class")
        check_fraction("LinearCrossEntropyLoss", "label_smoothing", label_smoothing)
        super().__init__(weight, reduction, num_classes=num_classes, out_features=out_features,
                         ignore_index=ignore_index, label_smoothing=label_smoothing,
                         options=options)
        rows = num_classes * product(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        sizes, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, reshape(self.linear.weight, (*sizes, self.linear.in_features)), target,
            linear_bias=None if bias is None else reshape(bias, sizes), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self) -> str:
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
                f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")


class MultiMarginLoss(_WeightedLoss):
    """The mean over rows of sum_i max(0, margin - input[target] + input[i]) ** p / classes."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                 reduction: str = "mean") -> None:
        check_choice("MultiMarginLoss", "p", p, (1, 2))
        super().__init__(weight, reduction, p=p, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The mean over rows of sum_ij max(0, 1 - input[target[j]] + input[i]) / classes, for class
    numbers up to the first negative one of target, which has the shape of input."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over rows and classes of the cross entropy of sigmoid(input) and target."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class CTCLoss(_Loss):
    """-log of the probability of targets: log_probs (time, n, classes), targets (n, s)."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
                 ) -> None:
        check_at_least("CTCLoss", "blank", blank, 0)
        super().__init__(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
                ) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank,
                          self.reduction, self.zero_infinity)


# ---- of pairs and triples
class MarginRankingLoss(_Loss):
    """The mean of max(0, -target * (input1 - input2) + margin), for targets 1 and -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The mean of input, a distance, where target is 1, and of max(0, margin - input) where -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """The mean of 1 - cos(input1, input2) where target is 1, of max(0, cos - margin) where -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(_Loss):
    """The mean of max(0, margin + |anchor - positive|_p - |anchor - negative|_p), of rows."""

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 reduction: str = "mean") -> None:
        _check_margin("TripletMarginLoss", margin)
        super().__init__(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps,
                                     self.swap, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
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
