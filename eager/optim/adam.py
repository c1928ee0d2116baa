"""Adam and AdamW: Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter, arXiv 1711.05101."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..dtypes import float32
from ..ops.create import zeros, zeros_like
from ..ops.pointwise import maximum
from ..tensor import Tensor
from ..utils.arguments import check_at_least, check_fraction
from .formulas import adam_rate, adam_scale, adam_step, axpy, ema_square, lerp
from .optimizer import Group, Optimizer, directed, put, settings


class Adam(Optimizer):
    """p -= lr * m / (sqrt(v) + eps), m and v the corrected running means of g and g ** 2.

    g is the gradient plus weight_decay * p. With `amsgrad` v is the largest so far.
    """

    decoupled = False  # whether the weight decay acts on p itself rather than on g

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *,
        foreach: Any = None, maximize: bool = False, capturable: bool = True, fused: Any = None,
    ) -> None:
        # foreach, capturable and fused choose between implementations in PyTorch; here there is one
        name = type(self).__name__
        check_at_least(name, "eps", eps, 0)
        check_at_least(name, "weight_decay", weight_decay, 0)
        for i, beta in enumerate(betas):
            check_fraction(name, f"betas[{i}]", beta, below_one=True)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Tensor]:
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        return {"step": zeros((), dtype=float32)} | {n: zeros_like(p.detach()) for n in names}

    def _update(self, group: Group) -> None:
        beta1, beta2 = group["betas"]
        logs, decay = (_log(beta1), _log(beta2)), group["weight_decay"]
        pull = group["lr"] * -decay if decay and self.decoupled else None
        for p in group["params"]:
            if p.grad is None:
                continue
            state, g = self.state[p], directed(p, group)
            if pull is not None:
                put(p, axpy(p, *settings(p, pull), p))
            elif decay:
                g = axpy(g, decay, p)
            step = put(state["step"], state["step"] + 1.0)
            mean = put(state["exp_avg"], lerp(state["exp_avg"], g, 1.0 - beta1))
            square = put(state["exp_avg_sq"],
                            ema_square(state["exp_avg_sq"], g, beta2, 1.0 - beta2))
            if group["amsgrad"]:
                square = put(state["max_exp_avg_sq"], maximum(state["max_exp_avg_sq"], square))
            rate, scale = settings(p, adam_rate(group["lr"], step, logs[0]),
                                   adam_scale(step, logs[1]))
            put(p, adam_step(p, mean, square, rate, scale, group["eps"]))


class AdamW(Adam):
    """Adam with a decay past the means: p *= 1 - lr * weight_decay before each step."""

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, **more: Any,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **more)


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else -math.inf
