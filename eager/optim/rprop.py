"""Implements Rprop: Riedmiller and Braun, ICNN 1993."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError
from ..ops.create import full_like
from ..ops.elementwise.pointwise import cast, sign, where
from .base.formulas import rprop_kept, rprop_size
from .base.optimizer import Optimizer, OptimizerSettings, constructor_settings
from .base.state_dicts import State


class Rprop(Optimizer):
    """Rprop: p -= s * sign(g), with a step size s for each element that ignores the size of g.

    s is multiplied by etas[1] while the sign of g stays. Where the sign changes, s is multiplied by
    etas[0] and the element rests for one step.
    Source: Riedmiller and Braun, ICNN 1993.

    Args:
        params: tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: step size of the first step, at least 0. Default 1e-2.
        etas: factors that shrink and grow s: 0 < etas[0] < 1 < etas[1]. Default (0.5, 1.2).
        step_sizes: smallest and largest s. Default (1e-6, 50).
        maximize: negates the gradient. Default False.
        differentiable: records the step on the tape. Default False.
        capturable, foreach: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative lr, or etas out of range.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.tensor([1.0, -100.0]))
        >>> (p * p).sum().backward()
        >>> fw.optim.Rprop([p], lr=0.5).step()
        >>> p.tolist()
        [0.5, -99.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ArgumentError(f"Rprop: etas must be 0 < etas[0] < 1 < etas[1], got {etas}")
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"step": 0.0, "prev": 0.0, "step_size": group["lr"]}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        g = -g if group["maximize"] else g  # type: ignore[operator]
        before = state["prev"]
        size = _from_rate(state["step"] == 0, group["lr"], state["step_size"])
        size = rprop_size(size, g, before, *group["etas"], *group["step_sizes"])
        gradient = rprop_kept(g, before)
        return p - sign(gradient) * size, {
            "step": state["step"] + 1, "prev": gradient, "step_size": size}


def _from_rate(first: Any, lr: Any, size: Tensor) -> Tensor:
    """The step sizes: lr in the first step, which a schedule may have changed; else `size`."""
    if isinstance(first, Tensor):
        return where(first, cast(as_tensor("Rprop", lr), size.dtype), size)
    return full_like(size, lr) if first else size
