"""Upsampling layers: they resize images and other tensors with channels."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice, check_number
from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module
from ..functional.image import MODES

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """x (n, channels, *space) resized to `size`, or to scale_factor times its sizes.

    Args:
        size: new sizes of space: one number, or one for each axis. Default None: scale_factor.
        scale_factor: factor of the sizes of space: one number, or one for each axis. Default None:
            size.
        mode: "nearest", "nearest-exact" or "area" for 1 to 3 axes of space, "linear" for one,
            "bilinear" or "bicubic" for two, "trilinear" for three. Default "nearest".
        align_corners: True aligns the centres of the corner elements, False or None their outer
            edges; for the linear and cubic modes. Default None.
        recompute_scale_factor: True interpolates at the ratio of the sizes, False or None at
            scale_factor. Default None.

    Raises:
        ArgumentError: size and scale_factor are both None or both set, mode is unknown, or
            align_corners is set for another mode than the linear and cubic ones (all by the call).
        ShapeError: mode does not take the axes of x, or a size is below 1.
        DTypeError: x is not floating point, except for the nearest modes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Upsample(scale_factor=2, mode="linear")(fw.tensor([[[1.0, 2.0]]]))
        tensor([[[1.  , 1.25, 1.75, 2.  ]]])
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode = size, check_choice(self.name, "mode", mode, tuple(MODES))
        self.scale_factor: Any = None
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor = tuple(
                float(check_number(self.name, "scale_factor", f)) for f in scale_factor)
        elif scale_factor is not None:
            self.scale_factor = float(check_number(self.name, "scale_factor", scale_factor))
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
    """x (n, channels, h, w) resized to `size`; each pixel is that of the nearest input pixel.

    Args:
        size: new sizes of space: one number, or one for each axis. Default None: scale_factor.
        scale_factor: factor of the sizes of space: one number, or one for each axis. Default None:
            size.

    Raises:
        ArgumentError: size and scale_factor are both None or both set (raised by the call).

    Example:
        >>> import fusewire as fw
        >>> fw.nn.UpsamplingNearest2d(scale_factor=2)(fw.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """x (n, channels, h, w) resized by bilinear interpolation with aligned corners.

    Args:
        size: new sizes of space: one number, or one for each axis. Default None: scale_factor.
        scale_factor: factor of the sizes of space: one number, or one for each axis. Default None:
            size.

    Raises:
        ArgumentError: size and scale_factor are both None or both set (raised by the call).
        DTypeError: x is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.UpsamplingBilinear2d(size=(1, 3))(fw.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1. , 1.5, 2. ]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
