"""Losses of values: what each element of a prediction should have been.

Tensors of a loss have one shape: PyTorch makes one of (n, 1) and (n,), which compares every element
of one with every element of the other and trains to something else. Distributions of `kl_div` may
be repeated.
"""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_at_least, check_choice
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.declare import prepare
from ...ops.elementwise.activation import softplus
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.composite import call
from ...ops.elementwise.pointwise import abs, clip, exp, log, maximum, square, where
from ...ops.layers.entropy import binary_op
from ...ops.reduction.reduce import mean, sum
from ...ops.shape.view import expand_dims
from ...ops.special.special import xlogy

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
]

REDUCTIONS = ("mean", "sum", "none")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of `losses`, a number, or the losses themselves for "none"."""
    if reduction == "mean":
        return mean(losses)
    check_choice("loss", "reduction", reduction, REDUCTIONS)
    return sum(losses) if reduction == "sum" else losses


def check_same(loss: str, input: Tensor, target: Tensor, name: str = "target") -> None:
    """ShapeError unless `input` and `target`, called `name`, have one shape."""
    if input._data.shape != target._data.shape:
        raise ShapeError(
            f"{loss}: input {input.shape} and {name} {target.shape} have different shapes, which "
            "would compare every element of one with several of the other",
            "bring one to the shape of the other first: reshape, x[:, None] or broadcast_to")


@in_float32
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
             ) -> Tensor:
    """The mean (or sum) of (input - target) ** 2, a number; with "none" all of them.

    With a `weight` for each element the squares times it, and their sum divided by its sum.
    """
    check_same("mse_loss", input, target)
    return _weighted("mse_loss", square(input - target), weight, reduction)


@in_float32
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
            ) -> Tensor:
    """The mean (or sum) of |input - target|, a number; with "none" all of them."""
    check_same("l1_loss", input, target)
    return _weighted("l1_loss", abs(input - target), weight, reduction)


def _weighted(name: str, losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return reduced(losses, reduction)
    check_same(name, losses, weight, "weight")
    if reduction == "mean":
        return sum(losses * weight) / sum(weight)
    return reduced(losses * weight, reduction)


@in_float32
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
                   ) -> Tensor:
    """The mean of |d| - beta / 2, below `beta` of d ** 2 / (2 beta), for d = input - target.

    Girshick, "Fast R-CNN" (2015).
    """
    check_same("smooth_l1_loss", input, target)
    check_at_least("smooth_l1_loss", "beta", beta, 0)
    if beta == 0:
        return l1_loss(input, target, reduction)
    d = input - target
    near = clip(d, -beta, beta)
    return reduced(near / beta * (d - 0.5 * near), reduction)


@in_float32
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """The mean of delta * (|d| - delta / 2), up to `delta` of d ** 2 / 2, for d = input - target.

    Huber, "Robust estimation of a location parameter" (1964). With a `weight` for each element the
    mean of the losses times it.
    """
    check_same("huber_loss", input, target)
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be above 0, got {delta}",
                            "l1_loss has no quadratic part")
    d = input - target
    near = clip(d, -delta, delta)  # no squares of far ones, whose gradients are nan at infinity
    losses = near * (d - 0.5 * near)
    if weight is not None:
        check_same("huber_loss", losses, weight, "weight")
        losses = losses * weight
    return reduced(losses, reduction)


@in_float32
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The mean of log(1 + exp(-target * input)), for targets 1 and -1."""
    check_same("soft_margin_loss", input, target)
    return reduced(softplus(-target * input), reduction)


# ---- of probabilities
@in_float32
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         reduction: str = "mean") -> Tensor:
    """The mean of -(target * log(input) + (1 - target) * log(1 - input)), input from 0 to 1.

    Logarithms are at least -100. ArgumentError for other inputs (compiled: nan).
    """
    check_same("binary_cross_entropy", input, target)
    input, target = prepare("binary_cross_entropy", (input, target), "real float")
    losses = call(binary_op, input, target)
    return reduced(losses if weight is None else losses * weight, reduction)


@in_float32
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(input), without overflow; shapes as the target's.

    `pos_weight` is how much a target of 1 counts; `weight` and it broadcast to the target.
    """
    check_same("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        losses = softplus(input) - target * input
    else:
        losses = (1 - target) * input + ((pos_weight - 1) * target + 1) * softplus(-input)
    return reduced(losses if weight is None else losses * weight, reduction)


@in_float32
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
           ) -> Tensor:
    """The mean of target * (log(target) - input): input log probabilities, target probabilities.

    "batchmean" divides the sum by the size of axis 0, as the Kullback-Leibler divergence is
    defined; "mean" by that of all axes. With `log_target` the target is a logarithm too. A target
    (classes,) is one for all rows.
    """
    losses = exp(target) * (target - input) if log_target \
        else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(losses) / (input.shape[0] if input.ndim else 1)
    return reduced(losses, reduction)


# ---- likelihoods
@in_float32
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     eps: float = 1e-8, reduction: str = "mean") -> Tensor:
    """The mean of exp(input) - target * input, where input is the logarithm of a Poisson rate.

    Without `log_input` it is the rate: input - target * log(input + eps). `full` adds Stirling's
    approximation of log(target!) for targets above 1.
    """
    check_same("poisson_nll_loss", input, target)
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    return reduced(losses + _stirling(target) if full else losses, reduction)


def _stirling(n: Tensor) -> Tensor:
    safe = where(n > 1, n, 2.0)
    term = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
    return where(n > 1, term, 0.0)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False,
                      eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """The mean of (log(var) + (input - target) ** 2 / var) / 2, with var at least `eps`.

    var has the shape of input, or 1 in the last axis, or lacks it; or is a number. `full` adds the
    constant log(2 pi) / 2.
    """
    if input.ndim != target.ndim:
        check_same("gaussian_nll_loss", input, target)
    var = _variance(input, var)
    bounded = var + (maximum(var, eps) - var).detach()  # the gradient passes where it is limited
    losses = (log(bounded) + square(input - target) / bounded) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


def _variance(input: Tensor, var: Any) -> Tensor:
    if not isinstance(var, Tensor):
        check_at_least("gaussian_nll_loss", "var", var, 0)
        return input.detach() * 0.0 + var
    if var.ndim and var.shape == input.shape[:-1]:
        return expand_dims(var, -1)
    differ = [v for n, v in zip(input.shape, var.shape) if n != v]
    if var.ndim != input.ndim or differ not in ([], [1]):
        raise ShapeError(f"gaussian_nll_loss: var {var.shape} does not fit the input {input.shape}",
                         f"it has that shape, or {(*input.shape[:-1], 1)}")
    return var
