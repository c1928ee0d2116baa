"""Losses of values, probabilities and likelihoods, as layers."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.losses import REDUCTIONS
from .base import Loss, WeightedLoss

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "GaussianNLLLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MSELoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
]


class MSELoss(Loss):
    """The mean ("sum": the sum) of (input - target) ** 2, a number; both of one shape."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """The mean of |input - target|, a number; both of one shape."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(Loss):
    """The mean of |d| - beta / 2, below `beta` of d ** 2 / (2 beta), for d = input - target."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(Loss):
    """The mean of d ** 2 / 2, above `delta` of delta * (|d| - delta / 2): d = input - target."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SoftMarginLoss(Loss):
    """The mean of log(1 + exp(-target * input)), for targets 1 and -1."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, self.reduction)


class BCELoss(WeightedLoss):
    """The mean cross entropy of probabilities input and target of two classes; both of one shape.

    For logits there is BCEWithLogitsLoss, which is exact where sigmoid(x) is nearly 0 or 1.
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """The mean cross entropy of sigmoid(input) and target; `pos_weight` counts targets of 1."""

    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean",
                 pos_weight: Tensor | None = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction,
                                                  self.pos_weight)


class KLDivLoss(Loss):
    """The mean of target * (log(target) - input): input log probabilities, target probabilities.

    "batchmean" is the Kullback-Leibler divergence: the sum divided by the size of axis 0.
    """

    reductions = (*REDUCTIONS, "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class PoissonNLLLoss(Loss):
    """The mean of exp(log_input) - target * log_input, where log_input is the log of a rate."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
                 reduction: str = "mean") -> None:
        super().__init__(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps,
                                  self.reduction)


class GaussianNLLLoss(Loss):
    """The mean of (log(var) + (input - target) ** 2 / var) / 2, with var at least `eps`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
