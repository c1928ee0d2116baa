"""Loss layers: a prediction and a target to one number, or with reduction "none" one a sample."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from ..utils.arguments import check_choice
from . import functional as F
from .functional.losses import REDUCTIONS
from .module import Module

__all__ = ["CrossEntropyLoss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice(type(self).__name__, "reduction", reduction, REDUCTIONS)


class MSELoss(_Loss):
    """The mean ("sum": the sum) of (input - target) ** 2, a number; both of one shape."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class CrossEntropyLoss(_Loss):
    """-log softmax(input)[target], averaged: input (n, classes, ...), target (n, ...) of integers.

    A floating point target of the shape of input holds a probability for each class instead.
    """

    def __init__(
        self, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction,
                               self.label_smoothing)


class NLLLoss(_Loss):
    """-input[target], averaged: input (n, classes, ...) of log probabilities, target (n, ...)."""

    def __init__(self, weight: Any = None, ignore_index: int | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)
