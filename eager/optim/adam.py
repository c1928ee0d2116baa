"""Implements Adam (Kingma and Ba, arXiv 1412.6980), AdamW (Loshchilov and Hutter, 1711.05101)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops.elementwise.pointwise import maximum
from .base.formulas import ema_square, lerp, root_step
from .base.optimizer import (
    Optimizer,
    OptimizerSettings,
    constructor_settings,
    decay_factor,
    regularized_gradient,
)
from .base.state_dicts import State
from .base.step_numbers import correction, root


class Adam(Optimizer):
    """Adam: p -= lr * m / (sqrt(v) + eps), with m and v the running means of g and g ** 2.

    Both means are corrected for their start at 0. g is the gradient plus weight_decay * p.
    Source: Kingma and Ba, arXiv 1412.6980.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-3.
        betas: share of the old value in m and in v, each in [0, 1). Default (0.9, 0.999).
        eps: added to the denominator. Default 1e-8.
        weight_decay: factor of p that is added to the gradient. Default 0.
        amsgrad: divides by the largest v so far. Default False.
        maximize: negates the gradient. Default False.
        decoupled_weight_decay: scales p by 1 - lr * weight_decay instead. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable, fused: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or a beta outside of [0, 1).

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.Adam([p], lr=0.5).step()
        >>> [round(x, 4) for x in p.tolist()]
        [0.5, 0.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        state = {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**state, "max_exp_avg_sq": 0.0} if group["amsgrad"] else state

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        beta1, beta2 = group["betas"]
        g = regularized_gradient(p, g, group)
        step = state["step"] + 1
        mean = lerp(state["exp_avg"], g, 1 - beta1)
        square = ema_square(state["exp_avg_sq"], g, beta2, 1 - beta2)
        new = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
        if group["amsgrad"]:
            square = new["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], square)
        rate, scale = group["lr"] / correction(beta1, step), root(correction(beta2, step))
        return root_step(p, decay_factor(group), -rate, mean, square, scale, group["eps"]), new


class AdamW(Adam):
    """Adam with decoupled decay: p *= 1 - lr * weight_decay before each step of `Adam`.

    Source: Loshchilov and Hutter, arXiv 1711.05101.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-3.
        betas: share of the old value in the means, each in [0, 1). Default (0.9, 0.999).
        eps: added to the denominator. Default 1e-8.
        weight_decay: share of p that a step removes, times lr. Default 1e-2.
        amsgrad: divides by the largest mean square so far. Default False.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable, fused: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or a beta outside of [0, 1).

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> p.sum().backward()
        >>> fw.optim.AdamW([p], lr=0.5, weight_decay=0.5).step()
        >>> [round(x, 4) for x in p.tolist()]
        [0.25, 0.25]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize,
                         foreach=foreach, capturable=capturable, differentiable=differentiable,
                         fused=fused, decoupled_weight_decay=True)
