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
    """x with the axes start_dim to end_dim joined: (n, c, h, w) -> (n, c * h * w).

    Args:
        start_dim: first joined axis. Default 1.
        end_dim: last joined axis. Default -1.

    Raises:
        AxisError: x does not have these axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Flatten()(fw.zeros(2, 3, 4, 5)).shape
        (2, 60)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """x with the axis `dim` split into several: (n, c * h * w) -> (n, c, h, w).

    Args:
        dim: the axis.
        unflattened_size: a tuple of the sizes of the new axes, of which one may be -1.

    Raises:
        DTypeError: unflattened_size is not a tuple or list of ints.
        ShapeError: the sizes do not multiply to that of the axis.
        AxisError: x has no axis dim.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Unflatten(1, (3, -1))(fw.zeros(2, 12)).shape
        (2, 3, 4)
    """

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
