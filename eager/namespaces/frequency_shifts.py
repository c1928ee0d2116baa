"""Moves the frequency 0 of a transform to the middle, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays.shapes import axes_of
from ..core.tensor import Tensor, as_tensor
from ..ops.shape.rearrange import roll

__all__ = ["fftshift", "ifftshift"]


def fftshift(x: Tensor, axes: Any = None) -> Tensor:
    """`x` with the frequency 0 moved to the middle along `axes`: the shape of `x`.

    Args:
        x: a tensor in the order of `fftfreq` along `axes`.
        axes: one axis or several. Default None: all.

    Raises:
        AxisError: `x` has no such axis.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftshift(fw.tensor([0, 1, 2, -2, -1]))
        tensor([-2, -1,  0,  1,  2])
    """
    return _rolled("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Tensor, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`: the middle element along `axes` comes first.

    Arguments and errors are those of `fftshift`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifftshift(fw.tensor([-2, -1, 0, 1, 2]))
        tensor([ 0,  1,  2, -2, -1])
    """
    return _rolled("ifftshift", x, axes, lambda n: -(n // 2))


def _rolled(name: str, x: Tensor, axes: Any, by: Callable[[int], int]) -> Tensor:
    x = as_tensor(name, x)
    found = axes_of(name, axes, x.ndim)
    return roll(x, tuple(by(x.shape[a]) for a in found), found)
