"""Upsampling layers: they resize images and other tensors with channels."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """x (n, channels, *space) with another space: `size`, or the present one times `scale_factor`.

    mode: "nearest", "linear" for one axis of space, "bilinear" and "bicubic" for two, "trilinear".
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode = size, mode
        self.scale_factor: Any = None
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor = tuple(map(float, scale_factor))
        elif scale_factor is not None:
            self.scale_factor = float(scale_factor)
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self) -> str:
        target = f"size={self.size}" if self.scale_factor is None else \
            f"scale_factor={self.scale_factor}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """x (n, channels, h, w) with each pixel repeated.

    >>> import fusewire as fw
    >>> fw.nn.UpsamplingNearest2d(scale_factor=2)(fw.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """x (n, channels, h, w) read between its pixels, the corners staying where they are."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
