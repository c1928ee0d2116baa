"""Implements RMSprop: Tieleman and Hinton, "Neural Networks for Machine Learning" (2012), 6.5."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arguments import check_at_least
from ..core.tensor import Tensor
from .base.formulas import axpy, ema_square, lerp, root_step
from .base.optimizer import Optimizer, OptimizerSettings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import is_zero


class RMSprop(Optimizer):
    """RMSprop: p -= lr * g / (sqrt(v) + eps), with v the running mean of g ** 2.

    With momentum p -= lr * b, where b = momentum * b + g / (sqrt(v) + eps). g is the gradient plus
    weight_decay * p.
    Source: Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning" (2012).

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-2.
        alpha: share of the old value in v, at least 0. Default 0.99.
        eps: added to the denominator. Default 1e-8.
        weight_decay: factor of p that is added to the gradient. Default 0.
        momentum: factor of b in the next step. Default 0: no momentum.
        centered: subtracts the squared running mean of g from v. Default False.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        capturable, foreach: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.RMSprop([p], lr=0.25, alpha=0.75).step()
        >>> p.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least("RMSprop", "alpha", alpha, 0.0)
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        more = {"momentum_buffer": 0.0} if not is_zero(group["momentum"]) else {}
        return {"step": 0.0, "square_avg": 0.0, **more,
                **({"grad_avg": 0.0} if group["centered"] else {})}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        alpha, eps, momentum = group["alpha"], group["eps"], group["momentum"]
        p, g = apply_weight_decay(p, g, group)
        square = ema_square(state["square_avg"], g, alpha, 1 - alpha)
        new = {"step": state["step"] + 1, "square_avg": square}
        if group["centered"]:
            mean = new["grad_avg"] = lerp(state["grad_avg"], g, 1 - alpha)
            square = square - mean * mean
        if is_zero(momentum):
            return root_step(p, 1.0, -group["lr"], g, square, 1.0, eps), new
        buffer = new["momentum_buffer"] = root_step(
            state["momentum_buffer"], momentum, 1.0, g, square, 1.0, eps)
        return axpy(p, -group["lr"], buffer), new
