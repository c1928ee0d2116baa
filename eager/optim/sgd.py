"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..dtypes import float32
from ..errors import ArgumentError
from ..ops.create import ones, zeros, zeros_like
from ..ops.pointwise import where
from ..tensor import Tensor
from ..utils.arguments import check_at_least
from .formulas import axpby, axpy
from .optimizer import Group, Optimizer, directed, put, settings


class SGD(Optimizer):
    """p -= lr * b, with b = momentum * b + (1 - dampening) * g, and b = g at the first step.

    g is the gradient plus weight_decay * p. With `nesterov` p -= lr * (g + momentum * b).
    """

    def __init__(
        self, params: Iterable[Any], lr: Any = 1e-3, momentum: float = 0.0,
        dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *,
        maximize: bool = False, foreach: Any = None, fused: Any = None,
    ) -> None:
        # foreach and fused choose between implementations in PyTorch; here there is one
        check_at_least("SGD", "momentum", momentum, 0)
        check_at_least("SGD", "weight_decay", weight_decay, 0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(f"SGD: nesterov needs a momentum and no dampening, got momentum="
                                f"{momentum}, dampening={dampening}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Tensor]:
        if group["momentum"] == 0:
            return {}
        state = {"momentum_buffer": zeros_like(p.detach())}
        if group["dampening"] != 0:  # the first step differs from the others
            state["step"] = zeros((), dtype=float32)
        return state

    def _load_state(self, p: Tensor, group: Group, saved: dict[str, Any]) -> None:
        if saved.get("momentum_buffer") is not None and "step" not in saved:
            saved = {**saved, "step": ones((), dtype=float32)}  # PyTorch's: a buffer means a step
        super()._load_state(p, group, saved)

    def _update(self, group: Group) -> None:
        down, momentum, decay = -group["lr"], group["momentum"], group["weight_decay"]
        for p in group["params"]:
            if p.grad is None:
                continue
            g = directed(p, group)
            if decay:
                g = axpy(g, decay, p)
            if momentum:
                g = self._with_momentum(p, g, group)
            put(p, axpy(p, *settings(p, down), g))

    def _with_momentum(self, p: Tensor, g: Tensor, group: Group) -> Tensor:
        momentum, state = group["momentum"], self.state[p]
        if "momentum_buffer" not in state or (group["dampening"] and "step" not in state):
            state.update(self._new_state(p, group) | state)  # the setting was changed meanwhile
        buffer = state["momentum_buffer"]
        if not group["dampening"]:  # then 0 * momentum + g is the first step already
            put(buffer, axpy(g, momentum, buffer))
        else:
            part = where(state["step"] == 0, 1.0, 1.0 - group["dampening"])
            put(buffer, axpby(momentum, buffer, *settings(p, part), g))
            put(state["step"], state["step"] + 1.0)
        return axpy(g, momentum, buffer) if group["nesterov"] else buffer
