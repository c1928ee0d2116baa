"""Layers that move elements between channels and pixels, or permute channels."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Channels moved to pixels: (..., c * r * r, h, w) -> (..., c, h * r, w * r).

    r is upscale_factor. Shi et al., 2016.

    Args:
        upscale_factor: growth of height and width.

    Raises:
        ShapeError: x has less than 3 axes, or r * r does not divide the channels.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.PixelShuffle(2)(fw.arange(4.0).reshape(4, 1, 1))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels moved to channels: (..., c, h * r, w * r) -> (..., c * r * r, h, w).

    r is downscale_factor. The inverse of PixelShuffle.

    Args:
        downscale_factor: divisor of height and width.

    Raises:
        ShapeError: x has less than 3 axes, or r does not divide height and width.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.PixelUnshuffle(2)(fw.arange(4.0).reshape(1, 2, 2)).flatten()
        tensor([0., 1., 2., 3.])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """x (n, c, ...) with permuted channels: the first of each group, the second, and so on.

    The result has the shape of x.

    Args:
        groups: the number of groups of neighbouring channels.

    Raises:
        ShapeError: x has less than 3 axes, or groups does not divide the channels.
        ArgumentError: groups is below 1.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ChannelShuffle(2)(fw.arange(6).reshape(1, 6, 1)).flatten()
        tensor([0, 3, 1, 4, 2, 5])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
