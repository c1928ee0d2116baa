"""Losses of values: each compares a prediction with a target element by element.

Tensors of a loss have one shape. PyTorch broadcasts (n, 1) and (n,), which compares every element
of one with every element of the other and trains to something else. The target of `kl_div` may
broadcast.
"""

from __future__ import annotations

import math
from typing import Any

from ... import interpreter
from ...arguments import check_at_least, check_choice, check_number, names_itself
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ...ops.declare import prepare
from ...ops.elementwise.activation import softplus
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.clip import clip
from ...ops.elementwise.composite import call
from ...ops.elementwise.pointwise import abs, exp, log, maximum, square, where
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
    """The mean or the sum of `losses`, a scalar, or for "none" `losses` itself."""
    if reduction == "mean":
        return mean(losses)
    check_choice("loss", "reduction", reduction, REDUCTIONS)
    return sum(losses) if reduction == "sum" else losses


def check_same(loss: str, input: Tensor, target: Tensor, name: str = "target") -> None:
    """Raises a ShapeError unless `input` and `target`, called `name`, have one shape."""
    if input._data.shape != target._data.shape:
        raise ShapeError(
            f"{loss}: input {input.shape} and {name} {target.shape} have different shapes, which "
            "would compare every element of one with several of the other",
            "bring one to the shape of the other first: reshape, x[:, None] or broadcast_to")


@names_itself
@in_float32
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
             ) -> Tensor:
    """Mean of (input - target) ** 2: a scalar, or the shape of `input` for "none".

    Args:
        input: floating point predictions of any shape.
        target: values of the shape of `input`.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.
        weight: a factor for each loss, of the shape of `input`; "mean" divides by their sum.
            Default None: no factors.

    Raises:
        ShapeError: `target` or `weight` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.mse_loss(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        tensor(2.)
    """
    check_same("mse_loss", input, target)
    return _weighted("mse_loss", square(input - target), weight, reduction)


@names_itself
@in_float32
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
            ) -> Tensor:
    """Mean of |input - target|: a scalar, or the shape of `input` for "none".

    Args:
        input: floating point predictions of any shape.
        target: values of the shape of `input`.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.
        weight: a factor for each loss, of the shape of `input`; "mean" divides by their sum.
            Default None: no factors.

    Raises:
        ShapeError: `target` or `weight` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.l1_loss(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        tensor(1.)
    """
    check_same("l1_loss", input, target)
    return _weighted("l1_loss", abs(input - target), weight, reduction)


def _weighted(name: str, losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return reduced(losses, reduction)
    check_same(name, losses, weight, "weight")
    if reduction == "mean":
        return sum(losses * weight) / sum(weight)
    return reduced(losses * weight, reduction)


def check_weight(loss: str, input: Tensor, weight: Any, name: str = "weight") -> None:
    """Raises an error unless `weight` is a tensor that broadcasts to the shape of `input`."""
    if weight is None:
        return
    sizes = as_tensor(loss, weight).shape
    fits = len(sizes) <= input.ndim and all(
        n in (1, m) for n, m in zip(reversed(sizes), reversed(input.shape)))
    if not fits:
        raise ShapeError(f"{loss}: {name} {sizes} does not broadcast to the input {input.shape}",
                         "it has a factor for each of the last axes, or the shape of the input")


@names_itself
@in_float32
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
                   ) -> Tensor:
    """Mean of d ** 2 / (2 * beta) where |d| < beta, else of |d| - beta / 2: a scalar.

    d is input - target. Girshick, "Fast R-CNN" (2015).

    Args:
        input: floating point predictions of any shape.
        target: values of the shape of `input`.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.
        beta: the difference at which the loss becomes linear, at least 0. Default 1.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `beta` is negative, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.smooth_l1_loss(fw.zeros(2), fw.tensor([1.0, 3.0]), "none")
        tensor([0.5, 2.5])
    """
    check_same("smooth_l1_loss", input, target)
    check_at_least("smooth_l1_loss", "beta", beta, 0)
    if beta == 0:
        return l1_loss(input, target, reduction)
    d = input - target
    near = clip(d, -beta, beta)
    return reduced(near / beta * (d - 0.5 * near), reduction)


@names_itself
@in_float32
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """Mean of d ** 2 / 2 where |d| <= delta, else of delta * (|d| - delta / 2): a scalar.

    d is input - target. Huber, "Robust estimation of a location parameter" (1964).

    Args:
        input: floating point predictions of any shape.
        target: values of the shape of `input`.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.
        delta: the difference at which the loss becomes linear, above 0. Default 1.
        weight: a factor for each loss, of the shape of `input`; "mean" divides by the number of
            elements. Default None: no factors.

    Raises:
        ShapeError: `target` or `weight` has another shape than `input`.
        ArgumentError: `delta` is not above 0, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.huber_loss(fw.zeros(2), fw.tensor([1.0, 3.0]), "none", delta=2.0)
        tensor([0.5, 4. ])
    """
    check_same("huber_loss", input, target)
    if not check_number("huber_loss", "delta", delta) > 0:
        raise ArgumentError(f"huber_loss: delta must be above 0, got {delta}",
                            "l1_loss has no quadratic part")
    d = input - target
    near = clip(d, -delta, delta)  # no squares of far ones, whose gradients are nan at infinity
    losses = near * (d - 0.5 * near)
    if weight is not None:
        check_same("huber_loss", losses, weight, "weight")
        losses = losses * weight
    return reduced(losses, reduction)


@names_itself
@in_float32
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Mean of log(1 + exp(-target * input)): a scalar, or the shape of `input` for "none".

    Args:
        input: floating point scores of any shape.
        target: 1 or -1 for each score.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([200.0, 200.0]), fw.tensor([1.0, -1.0])
        >>> fw.nn.functional.soft_margin_loss(x, target, "none")
        tensor([  0., 200.])
    """
    check_same("soft_margin_loss", input, target)
    return reduced(softplus(-target * input), reduction)


# ---- of probabilities
@names_itself
@in_float32
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         reduction: str = "mean") -> Tensor:
    """Mean of -(target * log(input) + (1 - target) * log(1 - input)): a scalar.

    Logarithms are at least -100, so that the loss is finite.

    Args:
        input: probabilities from 0 to 1, of any shape.
        target: probabilities of the shape of `input`.
        weight: a factor for each loss, which broadcasts to `input`. Default None: no factors.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `input` is outside of [0, 1] (compiled code gives nan instead), or
            `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> p, target = fw.tensor([0.0, 1.0]), fw.tensor([1.0, 0.0])
        >>> fw.nn.functional.binary_cross_entropy(p, target)
        tensor(100.)
    """
    check_same("binary_cross_entropy", input, target)
    check_weight("binary_cross_entropy", input, weight)
    input, target = prepare("binary_cross_entropy", (input, target), "real float")
    losses = call(binary_op, input, target)
    return reduced(losses if weight is None else losses * weight, reduction)


@names_itself
@in_float32
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(input) and `target`, without overflow: a scalar.

    Args:
        input: real floating point logits of any shape.
        target: probabilities of the shape of `input`.
        weight: a factor for each loss, which broadcasts to `input`. Default None: no factors.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.
        pos_weight: a factor for the loss of a target of 1, which broadcasts to `input`. Default
            None: no factor.

    Raises:
        ShapeError: `target` has another shape than `input`, or a weight does not broadcast.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([200.0, 200.0]), fw.tensor([1.0, 0.0])
        >>> fw.nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none")
        tensor([  0., 200.])
    """
    check_same("binary_cross_entropy_with_logits", input, target)
    check_weight("binary_cross_entropy_with_logits", input, weight)
    check_weight("binary_cross_entropy_with_logits", input, pos_weight, "pos_weight")
    if pos_weight is None:
        losses = softplus(input) - target * input
    else:
        losses = (1 - target) * input + ((pos_weight - 1) * target + 1) * softplus(-input)
    return reduced(losses if weight is None else losses * weight, reduction)


@names_itself
@in_float32
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
           ) -> Tensor:
    """Mean of target * (log(target) - input), the Kullback-Leibler divergence: a scalar.

    Args:
        input: logarithms of probabilities, of any shape.
        target: probabilities whose shape broadcasts with that of `input`.
        reduction: "mean" (default), "sum", "none", or "batchmean", which divides the sum by the
            size of axis 0: the divergence per sample.
        log_target: True if `target` holds logarithms, too. Default False.

    Raises:
        ShapeError: the shapes do not broadcast.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> target = fw.tensor([[0.25, 0.75]])
        >>> fw.nn.functional.kl_div(target.log(), target, "batchmean")
        tensor(0.)
    """
    losses = exp(target) * (target - input) if log_target \
        else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(losses) / (input.shape[0] if input.ndim else 1)
    return reduced(losses, reduction)


# ---- likelihoods
@names_itself
@in_float32
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     eps: float = 1e-8, reduction: str = "mean") -> Tensor:
    """Mean of exp(input) - target * input, for counts with Poisson distributions: a scalar.

    Args:
        input: logarithms of rates, of any shape.
        target: counts of the shape of `input`.
        log_input: False if `input` holds rates; losses are then
            input - target * log(input + eps). Default True.
        full: True adds Stirling's approximation of log(target!) for targets above 1. Default
            False.
        eps: added to rates before the logarithm. Default 1e-8.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.poisson_nll_loss(fw.tensor([0.0]), fw.tensor([3.0]))
        tensor(1.)
    """
    check_number("poisson_nll_loss", "eps", eps)
    check_same("poisson_nll_loss", input, target)
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    return reduced(losses + _stirling(target) if full else losses, reduction)


def _stirling(n: Tensor) -> Tensor:
    safe = where(n > 1, n, 2.0)
    term = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
    return where(n > 1, term, 0.0)


@names_itself
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False,
                      eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Mean of (log(var) + (input - target) ** 2 / var) / 2, for normal distributions: a scalar.

    Args:
        input: predicted means, of any shape.
        target: values with as many axes as `input`.
        var: variances of the shape of `input`, of that shape with a last axis of 1 or without the
            last axis; or one number. Values below `eps` count as `eps`.
        full: True adds the constant log(2 pi) / 2. Default False.
        eps: the least variance. Default 1e-6.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: `target` has another number of axes than `input`, or `var` does not fit it.
        ArgumentError: `var` holds a negative number, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([1.0]), fw.tensor([3.0])
        >>> fw.nn.functional.gaussian_nll_loss(x, target, fw.ones(1))
        tensor(2.)
    """
    if input.ndim != target.ndim:
        check_same("gaussian_nll_loss", input, target)
    var = _variance(input, var)
    _check_variance(var)
    check_number("gaussian_nll_loss", "eps", eps)
    bounded = var + (maximum(var, eps) - var).detach()  # the gradient passes where it is limited
    losses = (log(bounded) + square(input - target) / bounded) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


def _check_variance(var: Tensor) -> None:
    """Raises an ArgumentError for a negative variance; a trace has no values to check."""
    if not interpreter.in_use and bool((var.detach() < 0).any()):
        raise ArgumentError("gaussian_nll_loss: var holds negative numbers",
                            "pass a variance, such as exp or softplus of a network's output")


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
