"""Layers that flatten axes into one, or split one axis into several."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from ...errors import DTypeError
from ...ops.shape.rearrange import unflatten
from ...ops.shape.view import flatten
from ..base.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """x with the axes from start_dim to end_dim made into one: (n, c, h, w) to (n, c * h * w)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """x with the axis `dim` made into several: Unflatten(1, (c, h, w)) undoes Flatten()."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)) \
                or not all(isinstance(n, int) for n in unflattened_size):
            raise DTypeError(f"Unflatten: unflattened_size must be a tuple of ints, got "
                             f"{unflattened_size!r}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
