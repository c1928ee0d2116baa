"""Implements Adagrad (Duchi, Hazan, Singer, JMLR 12, 2011), Adadelta (Zeiler, arXiv 1212.5701)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .base.formulas import adadelta_step, axpy, ema_square, root_step
from .base.optimizer import Optimizer, OptimizerSettings, apply_weight_decay, constructor_settings
from .base.state_dicts import State


class Adagrad(Optimizer):
    """Adagrad: p -= rate * g / (sqrt(s) + eps), with s the sum of all g ** 2 so far.

    rate is lr / (1 + (t - 1) * lr_decay) in step t = 1, 2, ...
    g is the gradient plus weight_decay * p.
    Source: Duchi, Hazan and Singer, JMLR 12 (2011).

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-2.
        lr_decay: decay of the rate per step, at least 0. Default 0.
        weight_decay: factor of p that is added to the gradient. Default 0.
        initial_accumulator_value: s before the first step, at least 0. Default 0.
        eps: added to the denominator. Default 1e-10.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, fused: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.Adagrad([p], lr=0.5).step()
        >>> p.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "sum": group["initial_accumulator_value"]}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        p, g = apply_weight_decay(p, g, group)
        total = state["sum"] + g * g
        rate = group["lr"] / (1 + state["step"] * group["lr_decay"])
        return root_step(p, 1.0, -rate, g, total, 1.0, group["eps"]), {
            "step": state["step"] + 1, "sum": total}


class Adadelta(Optimizer):
    """Adadelta: p -= lr * d, with d = sqrt(u + eps) / sqrt(v + eps) * g.

    v and u are the running means of g ** 2 and of d ** 2. g is the gradient plus weight_decay * p.
    Source: Zeiler, arXiv 1212.5701.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1.0.
        rho: share of the old value in the means, in [0, 1]. Default 0.9.
        eps: added below both roots. Default 1e-6.
        weight_decay: factor of p that is added to the gradient. Default 0.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, or rho outside of [0, 1].

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> (p * p).sum().backward()
        >>> fw.optim.Adadelta([p]).step()
        >>> [round(x, 4) for x in p.tolist()]
        [0.9968, 0.9968]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "square_avg": 0.0, "acc_delta": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        rho = group["rho"]
        p, g = apply_weight_decay(p, g, group)
        square = ema_square(state["square_avg"], g, rho, 1 - rho)
        delta = adadelta_step(state["acc_delta"], square, g, group["eps"])
        return axpy(p, -group["lr"], delta), {
            "step": state["step"] + 1, "square_avg": square,
            "acc_delta": ema_square(state["acc_delta"], delta, rho, 1 - rho)}
