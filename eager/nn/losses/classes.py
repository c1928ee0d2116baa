"""Losses of class numbers and label sequences, as layers."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least, check_choice, check_fraction
from ...arrays.shapes import product
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.layers.entropy import NOTHING
from ...ops.shape.view import reshape
from .. import functional as F
from ..functional.losses_of_classes import LinearCrossEntropyOptions
from ..layers.linear import Linear
from .base import Loss, WeightedLoss

__all__ = [
    "CTCLoss", "CrossEntropyLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
]


class CrossEntropyLoss(WeightedLoss):
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


class NLLLoss(WeightedLoss):
    """-input[target], averaged: input (n, classes, ...) of log probabilities, target (n, ...)."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = NOTHING,
                 reduction: str = "mean") -> None:
        super().__init__(weight, reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class LinearCrossEntropyLoss(WeightedLoss):
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


class MultiMarginLoss(WeightedLoss):
    """The mean over rows of sum_i max(0, margin - input[target] + input[i]) ** p / classes."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                 reduction: str = "mean") -> None:
        check_choice("MultiMarginLoss", "p", p, (1, 2))
        super().__init__(weight, reduction, p=p, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(Loss):
    """The mean over rows of sum_ij max(0, 1 - input[target[j]] + input[i]) / classes, for class
    numbers up to the first negative one of target, which has the shape of input."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """The mean over rows and classes of the cross entropy of sigmoid(input) and target."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class CTCLoss(Loss):
    """-log of the probability of targets: log_probs (time, n, classes), targets (n, s)."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
                 ) -> None:
        check_at_least("CTCLoss", "blank", blank, 0)
        super().__init__(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
                ) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank,
                          self.reduction, self.zero_infinity)
