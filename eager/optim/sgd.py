"""Implements stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from .base.formulas import axpby, axpy
from .base.optimizer import Optimizer, OptimizerSettings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import choose, is_zero


class SGD(Optimizer):
    """Gradient descent: p -= lr * b, with b = momentum * b + (1 - dampening) * g.

    b is g in the first step. g is the gradient plus weight_decay * p.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-3.
        momentum: factor of b in the next step, at least 0. Default 0: no momentum.
        dampening: reduces the share of g in b, from the second step on. Default 0.
        weight_decay: factor of p that is added to the gradient. Default 0.
        nesterov: steps along g + momentum * b. Default False.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, fused: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting; `nesterov` without momentum or with dampening.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> optimizer = fw.optim.SGD([p], lr=0.25, momentum=0.5)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     (p * p).sum().backward()
        ...     optimizer.step()
        >>> p.tolist()
        [0.0, 0.0]
    """

    hidden = ("step",)  # PyTorch's state has none: a momentum_buffer tells that a step was made

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float | Tensor = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(f"SGD: nesterov needs a momentum and no dampening, got momentum="
                                f"{momentum}, dampening={dampening}")
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {} if is_zero(group["momentum"]) else {"momentum_buffer": 0.0, "step": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        momentum = group["momentum"]
        p, g = apply_weight_decay(p, g, group)
        if is_zero(momentum):
            return axpy(p, -group["lr"], g), {}
        share = choose(state["step"] == 0, 1.0, 1.0 - group["dampening"])
        buffer = axpby(state["momentum_buffer"], momentum, share, g)
        step = axpy(g, momentum, buffer) if group["nesterov"] else buffer
        return axpy(p, -group["lr"], step), {"momentum_buffer": buffer, "step": state["step"] + 1}
