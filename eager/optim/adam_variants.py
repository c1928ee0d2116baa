"""Variants of Adam: Adamax (Kingma and Ba, arXiv 1412.6980), NAdam (Dozat, ICLR workshop 2016),
RAdam (Liu et al., arXiv 1908.03265)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops.elementwise.pointwise import where
from .base.formulas import adamax_norm, axpy, ema_square, lerp, ratio_step, root_step
from .base.optimizer import Optimizer, Settings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import correction, root, single


class Adamax(Optimizer):
    """p -= lr * m / u: m is the corrected running mean of g, u = max(beta2 * u, |g| + eps).

    g is the gradient plus weight_decay * p.
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        # foreach and capturable choose between implementations in PyTorch; here there is one
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_inf": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
        beta1, beta2 = group["betas"]
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        mean = lerp(state["exp_avg"], g, 1 - beta1)
        norm = adamax_norm(state["exp_inf"], beta2, g, group["eps"])
        rate = group["lr"] / correction(beta1, step)
        return ratio_step(p, -rate, mean, norm), {"step": step, "exp_avg": mean, "exp_inf": norm}


class NAdam(Optimizer):
    """Adam with Nesterov's momentum: the mean that the next step would use, and the gradient.

    The share of the mean grows over the steps: beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay)).
    """

    counts = ("step", "mu_product")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        # foreach and capturable choose between implementations in PyTorch; here there is one
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"step": 0.0, "mu_product": 1.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
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
    """Adam whose step is made smaller while the variance is known badly: at first only momentum."""

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:
        # foreach and capturable choose between implementations in PyTorch; here there is one
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
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
    """How many steps the mean of squares is made of now, and in the long run."""
    limit = 2 / (1 - beta2) - 1
    return limit - 2 * step * beta2 ** step / correction(beta2, step), limit
