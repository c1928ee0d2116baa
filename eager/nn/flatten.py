"""Layers that change shapes only."""

from __future__ import annotations

from ..ops.view import flatten
from ..tensor import Tensor
from .module import Module

__all__ = ["Flatten"]


class Flatten(Module):
    """x with the axes from start_dim to end_dim made into one: (n, c, h, w) to (n, c * h * w)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
