"""Implements averaged SGD: Polyak and Juditsky, SIAM J. Control Optim. 30 (1992)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .base.formulas import axpy, lerp, scale
from .base.optimizer import Optimizer, OptimizerSettings, apply_weight_decay, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import choose, single


class ASGD(Optimizer):
    """Averaged SGD: p = (1 - lambd * eta) * p - eta * g, and the mean of p from step t0 on.

    The state "ax" holds the mean. eta = lr / (1 + lambd * lr * t) ** alpha after t steps. g is the
    gradient plus weight_decay * p.
    Source: Polyak and Juditsky, SIAM J. Control Optim. 30 (1992).

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-2.
        lambd: decay of p and of eta. Default 1e-4.
        alpha: power of the decay of eta. Default 0.75.
        t0: step from which on p is averaged. Default 1e6.
        weight_decay: factor of p that is added to the gradient. Default 0.
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        foreach, capturable: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: lr or weight_decay is negative.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> optimizer = fw.optim.ASGD([p], lr=0.25, lambd=0.0, t0=0)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (p * p).sum().backward()
        ...     optimizer.step()
        >>> p.tolist(), optimizer.state[p]["ax"].tolist()
        ([0.125, 0.125], [0.1875, 0.1875])
    """

    counts = ("step", "eta", "mu")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0, "ax": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        lr, lambd = group["lr"], group["lambd"]
        # a schedule may have changed the rate since the constructor stored eta
        eta = choose(state["step"] == 0, single(lr), state["eta"])
        p, g = apply_weight_decay(p, g, group)
        step = state["step"] + 1
        p = axpy(scale(p, 1 - lambd * eta), -eta, g)
        mean = lerp(p, state["ax"], 1 - state["mu"])
        beyond = step - group["t0"]
        return p, {"step": step, "ax": mean, "eta": lr / (1 + lambd * lr * step) ** group["alpha"],
                   "mu": 1 / choose(beyond > 1, beyond, 1.0)}
