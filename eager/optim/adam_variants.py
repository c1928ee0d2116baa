"""Implements variants of Adam: Adamax, NAdam and RAdam.

Sources: Adamax: Kingma and Ba, arXiv 1412.6980; NAdam: Dozat, ICLR workshop 2016; RAdam: Liu et
al., arXiv 1908.03265.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops.elementwise.pointwise import where
from .base.formulas import adamax_norm, axpy, ema_square, lerp, ratio_step, root_step
from .base.optimizer import Optimizer, OptimizerSettings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import correction, root, single


class Adamax(Optimizer):
    """Adam by the largest gradient: p -= lr * m / u, with u = max(beta2 * u, |g| + eps).

    m is the corrected running mean of g. g is the gradient plus weight_decay * p.
    Source: Kingma and Ba, arXiv 1412.6980.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 2e-3.
        betas: share of the old value in m, and decay of u, each in [0, 1). Default (0.9, 0.999).
        eps: added to |g|. Default 1e-8.
        weight_decay: factor of p that is added to the gradient. Default 0.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or a beta outside of [0, 1).

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.Adamax([p], lr=0.5).step()
        >>> p.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_inf": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        beta1, beta2 = group["betas"]
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        mean = lerp(state["exp_avg"], g, 1 - beta1)
        norm = adamax_norm(state["exp_inf"], beta2, g, group["eps"])
        rate = group["lr"] / correction(beta1, step)
        return ratio_step(p, -rate, mean, norm), {"step": step, "exp_avg": mean, "exp_inf": norm}


class NAdam(Optimizer):
    """Adam with Nesterov's momentum: a step mixes the gradient and the mean of the next step.

    The share of the mean in step t is beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay)).
    Source: Dozat, ICLR workshop 2016.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 2e-3.
        betas: share of the old value in the means, each in [0, 1). Default (0.9, 0.999).
        eps: added to the denominator. Default 1e-8.
        weight_decay: factor of p that is added to the gradient. Default 0.
        momentum_decay: speed at which the share of the mean grows, at least 0. Default 4e-3.
        decoupled_weight_decay: scales p by 1 - lr * weight_decay instead. Default False.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or a beta outside of [0, 1).

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.NAdam([p], lr=0.5).step()
        >>> [round(x, 4) for x in p.tolist()]
        [0.4718, 0.4718]
    """

    counts = ("step", "mu_product")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "mu_product": 1.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        beta1, beta2 = group["betas"]
        lr, eps = group["lr"], group["eps"]
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        mean = lerp(state["exp_avg"], g, 1 - beta1)
        square = ema_square(state["exp_avg_sq"], g, beta2, 1 - beta2)
        now, later = [beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
                      for t in (step, step + 1)]
        product = single(state["mu_product"] * single(now))  # PyTorch keeps it in float32
        scale = root(correction(beta2, step))
        p = root_step(p, 1.0, -lr * (1 - now) / (1 - product), g, square, scale, eps)
        p = root_step(p, 1.0, -lr * later / (1 - product * later), mean, square, scale, eps)
        return p, {"step": step, "mu_product": product, "exp_avg": mean, "exp_avg_sq": square}


class RAdam(Optimizer):
    """Adam with a rectified step: momentum alone while the variance of v is intractable.

    v is the running mean of g ** 2. Its variance is tractable once v averages more than 5 steps.
    Source: Liu et al., arXiv 1908.03265.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-3.
        betas: share of the old value in the means, each in [0, 1). Default (0.9, 0.999).
        eps: added to the denominator. Default 1e-8.
        weight_decay: factor of p that is added to the gradient. Default 0.
        decoupled_weight_decay: scales p by 1 - lr * weight_decay instead. Default False.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or a beta outside of [0, 1).

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.RAdam([p], lr=0.25).step()  # the first step: lr * gradient
        >>> p.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        beta1, beta2 = group["betas"]
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        mean = lerp(state["exp_avg"], g, 1 - beta1)
        square = ema_square(state["exp_avg_sq"], g, beta2, 1 - beta2)
        rate = -group["lr"] / correction(beta1, step)
        new = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
        sma, sma_limit = _lengths(beta2, step)  # of the mean of squares, in steps
        is_tractable = sma > 5
        if is_tractable is False:
            return axpy(p, rate, mean), new
        rectification = root((sma - 4) * (sma - 2) * sma_limit
                             / ((sma_limit - 4) * (sma_limit - 2) * sma))
        rectified = rate * rectification * root(correction(beta2, step))
        adapted = root_step(p, 1.0, rectified, mean, square, 1.0, group["eps"])
        if is_tractable is True:
            return adapted, new
        return where(is_tractable, adapted, axpy(p, rate, mean)), new


def _lengths(beta2: Any, step: Any) -> tuple[Any, Any]:
    """The lengths, in steps, of the mean of squares at `step` and in the limit."""
    limit = 2 / (1 - beta2) - 1
    return limit - 2 * step * beta2 ** step / correction(beta2, step), limit
