"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from .base.formulas import axpby, axpy
from .base.optimizer import Optimizer, Settings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import choose, is_zero


class SGD(Optimizer):
    """p -= lr * b, with b = momentum * b + (1 - dampening) * g, and b = g at the first step.

    g is the gradient plus weight_decay * p. With `nesterov` p -= lr * (g + momentum * b).
    """

    hidden = ("step",)  # in PyTorch a momentum_buffer that is there means that a step was made

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float | Tensor = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        # foreach and fused choose between implementations in PyTorch; here there is one
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(f"SGD: nesterov needs a momentum and no dampening, got momentum="
                                f"{momentum}, dampening={dampening}")
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {} if is_zero(group["momentum"]) else {"momentum_buffer": 0.0, "step": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
        momentum = group["momentum"]
        p, g = apply_weight_decay(p, g, group)
        if is_zero(momentum):
            return axpy(p, -group["lr"], g), {}
        share = choose(state["step"] == 0, 1.0, 1.0 - group["dampening"])
        buffer = axpby(state["momentum_buffer"], momentum, share, g)
        step = axpy(g, momentum, buffer) if group["nesterov"] else buffer
        return axpy(p, -group["lr"], step), {"momentum_buffer": buffer, "step": state["step"] + 1}
