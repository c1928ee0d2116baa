"""Adam and AdamW: Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter, arXiv 1711.05101."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops.elementwise.pointwise import maximum
from .base.formulas import ema_square, lerp, root_step
from .base.optimizer import (
    Optimizer,
    Settings,
    constructor_settings,
    decay_factor,
    regularized_gradient,
)
from .base.state_dicts import State
from .base.step_numbers import correction, root


class Adam(Optimizer):
    """p -= lr * m / (sqrt(v) + eps), m and v the corrected running means of g and g ** 2.

    g is the gradient plus weight_decay * p; with `decoupled_weight_decay` p *= 1 - lr *
    weight_decay instead. With `amsgrad` v is the largest so far.
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:
        # foreach, capturable and fused choose between implementations in PyTorch; here there is one
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        state = {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**state, "max_exp_avg_sq": 0.0} if group["amsgrad"] else state

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
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
    """Adam with a decay past the means: p *= 1 - lr * weight_decay before each step."""

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
