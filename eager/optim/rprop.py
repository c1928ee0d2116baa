"""Rprop: Riedmiller and Braun, ICNN 1993."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError
from ..ops.create import full_like
from ..ops.elementwise.pointwise import cast, sign, where
from .base.formulas import rprop_gradient, rprop_size
from .base.optimizer import Optimizer, Settings, constructor_settings
from .base.state_dicts import State


class Rprop(Optimizer):
    """p -= s * sign(g): each element has a step size s of its own, whatever the size of g.

    s grows by etas[1] while the sign of g stays, and shrinks by etas[0] where it has changed; such
    an element rests for one step. `step_sizes` are the least and the largest s.
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        # capturable and foreach choose between implementations in PyTorch; here there is one
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ArgumentError(f"Rprop: etas must be 0 < etas[0] < 1 < etas[1], got {etas}")
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"step": 0.0, "prev": 0.0, "step_size": group["lr"]}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
        g = -g if group["maximize"] else g  # type: ignore[operator]
        before = state["prev"]
        size = _from_rate(state["step"] == 0, group["lr"], state["step_size"])
        size = rprop_size(size, g, before, *group["etas"], *group["step_sizes"])
        gradient = rprop_gradient(g, before)
        return p - sign(gradient) * size, {
            "step": state["step"] + 1, "prev": gradient, "step_size": size}


def _from_rate(first: Any, lr: Any, size: Tensor) -> Tensor:
    """Step sizes; the first step takes the rate as it is now, a schedule may have changed it."""
    if isinstance(first, Tensor):
        return where(first, cast(as_tensor("Rprop", lr), size.dtype), size)
    return full_like(size, lr) if first else size
