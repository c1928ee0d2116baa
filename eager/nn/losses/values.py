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
    """The mean of (input - target) ** 2.

    input and target have one shape. The result is a number, or with reduction "none" has their
    shape.

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.MSELoss()(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """The mean of |input - target|.

    input and target have one shape. The result is a number, or with reduction "none" has their
    shape.

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.L1Loss()(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        tensor(1.)
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(Loss):
    """The mean of d ** 2 / (2 * beta) where |d| < beta, else of |d| - beta / 2.

    d is input - target. input and target have one shape. The result is a number, or with reduction
    "none" has their shape. Girshick, "Fast R-CNN" (2015).

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        beta: the |d| where the parts join, at least 0; with 0 it is L1Loss. Default 1.0.

    Raises:
        ArgumentError: an unknown reduction, or beta is negative (raised by the call).
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.SmoothL1Loss(reduction="none")(fw.tensor([1.0, 2.0]), fw.tensor([1.5, 5.0]))
        tensor([0.125, 2.5  ])
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(Loss):
    """The mean of d ** 2 / 2 where |d| <= delta, else of delta * (|d| - delta / 2).

    d is input - target. input and target have one shape. The result is a number, or with reduction
    "none" has their shape. Huber, "Robust estimation of a location parameter" (1964).

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        delta: the |d| where the parts join, above 0. Default 1.0.

    Raises:
        ArgumentError: an unknown reduction, or delta is not above 0 (raised by the call).
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.HuberLoss(reduction="none", delta=2.0)
        >>> loss(fw.tensor([1.0, 2.0]), fw.tensor([2.0, 5.0]))
        tensor([0.5, 4. ])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SoftMarginLoss(Loss):
    """The mean of log(1 + exp(-target * input)), for targets 1 and -1.

    input and target have one shape. The result is a number, or with reduction "none" has their
    shape.

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.SoftMarginLoss()(fw.tensor([1000.0, 50.0]), fw.tensor([1.0, -1.0]))
        tensor(25.)
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, self.reduction)


class BCELoss(WeightedLoss):
    """The mean of -(target * log(input) + (1 - target) * log(1 - input)).

    input and target have one shape. The result is a number, or with reduction "none" has their
    shape. input is a probability in [0, 1]; logarithms are at least -100. BCEWithLogitsLoss takes
    logits, and is accurate where the probability is nearly 0 or 1.

    Args:
        weight: factors of the losses, which broadcast to them. Default None.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction, or an input outside of [0, 1].
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.BCELoss(reduction="none")(fw.tensor([1.0, 0.0]), fw.tensor([1.0, 1.0]))
        tensor([ -0., 100.])
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """The mean binary cross entropy of sigmoid(input) and target, without overflow.

    input and target have one shape. The result is a number, or with reduction "none" has their
    shape.

    Args:
        weight: factors of the losses, which broadcast to them. Default None.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        pos_weight: factors of the losses of target 1, which broadcast to the target. Default None.

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.BCEWithLogitsLoss()(fw.tensor([100.0, 100.0]), fw.tensor([1.0, 0.0]))
        tensor(50.)
    """

    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean",
                 pos_weight: Tensor | None = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction,
                                                  self.pos_weight)


class KLDivLoss(Loss):
    """The mean of target * (log(target) - input), for log probabilities input.

    input is (n, classes); target has its shape or broadcasts to it, as (classes,) does.

    Args:
        reduction: "mean" or "sum" of all terms, "none" for all of them, or "batchmean": the sum
            divided by n, the Kullback-Leibler divergence. Default "mean".
        log_target: True if the target holds log probabilities. Default False.

    Raises:
        ArgumentError: an unknown reduction.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.KLDivLoss(reduction="batchmean")
        >>> loss(fw.full((2, 3), -2.0), fw.tensor([1.0, 0.0, 0.0]))
        tensor(2.)
    """

    reductions = (*REDUCTIONS, "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class PoissonNLLLoss(Loss):
    """The mean of exp(log_input) - target * log_input, for the logarithm of a Poisson rate.

    log_input and target have one shape. The result is a number, or with reduction "none" has their
    shape.

    Args:
        log_input: False if the input is the rate itself: input - target * log(input + eps). Default
            True.
        full: True adds Stirling's approximation of log(target!) for targets above 1. Default False.
        eps: added in the logarithm of a rate. Default 1e-08.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.PoissonNLLLoss()(fw.tensor([0.0, 0.0]), fw.tensor([3.0, 5.0]))
        tensor(1.)
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
                 reduction: str = "mean") -> None:
        super().__init__(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps,
                                  self.reduction)


class GaussianNLLLoss(Loss):
    """The mean of (log(var) + (input - target) ** 2 / var) / 2, for a mean and a variance.

    The call takes input (..., d), target of its shape, and var of its shape, (..., 1), (...) or a
    number. The result is a number, or with reduction "none" has the shape of the input.

    Args:
        full: True adds the constant log(2 * pi) / 2. Default False.
        eps: the smallest variance; smaller ones count as eps. Default 1e-06.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction, or var is a negative number.
        ShapeError: var has another shape, or input and target differ in the number of axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.GaussianNLLLoss()(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]), fw.ones(2))
        tensor(1.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
