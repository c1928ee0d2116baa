"""Averaged SGD: Polyak and Juditsky, SIAM J. Control Optim. 30 (1992)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .base.formulas import axpy, lerp, scale
from .base.optimizer import Optimizer, Settings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import choose, single


class ASGD(Optimizer):
    """p = (1 - lambd * eta) * p - eta * g, and in the state "ax" the mean of p from step t0 on.

    eta = lr / (1 + lambd * lr * t) ** alpha after t steps; g is the gradient plus weight_decay * p.
    """

    counts = ("step", "eta", "mu")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        # foreach and capturable choose between implementations in PyTorch; here there is one
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0, "ax": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
        lr, lambd = group["lr"], group["lambd"]
        # the first step takes the rate as it is now: a schedule may have changed it
        eta = choose(state["step"] == 0, single(lr), state["eta"])
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        p = axpy(scale(p, 1 - lambd * eta), -eta, g)
        mean = lerp(p, state["ax"], 1 - state["mu"])
        beyond = step - group["t0"]
        return p, {"step": step, "ax": mean, "eta": lr / (1 + lambd * lr * step) ** group["alpha"],
                   "mu": 1 / choose(beyond > 1, beyond, 1.0)}
