"""Base classes of loss layers."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice
from ...core.tensor import Tensor
from ..base.module import Module
from ..functional.losses import REDUCTIONS


class Loss(Module):
    """Base of loss layers: checks `reduction` and sets an attribute for each setting."""

    reductions: tuple[str, ...] = REDUCTIONS  # the choices of this loss

    def __init__(self, reduction: str = "mean", **settings: Any) -> None:
        super().__init__()
        self.reduction: str = check_choice(
            type(self).__name__, "reduction", reduction, self.reductions)
        for name, value in settings.items():
            setattr(self, name, value)


class WeightedLoss(Loss):
    """Base of losses with a buffer `weight`: a factor for each class or each element."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", **settings: Any
                 ) -> None:
        super().__init__(reduction, **settings)
        self.register_buffer("weight", weight)
