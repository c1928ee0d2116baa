"""Dropout layers."""

from __future__ import annotations

from ..tensor import Tensor
from ..utils.arguments import check_fraction
from . import functional as F
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """x, while training with elements set to 0 with probability p and the others / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = check_fraction("Dropout", "p", p), inplace

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
