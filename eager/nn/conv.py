"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ArgumentError
from ..ops.create import zeros
from ..tensor import Tensor
from ..utils.arguments import pair
from . import functional as F
from . import init
from .functional.convolution import check_groups
from .module import Module
from .parameter import Parameter

__all__ = ["Conv2d"]


class Conv2d(Module):
    """x (n, in_channels, h, w), or one without n, to (n, out_channels, h_out, w_out).

    weight is (out_channels, in_channels, *kernel_size), bias (out_channels,).
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_mode(padding_mode)
        check_groups("Conv2d", groups)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = pair("Conv2d", "kernel_size", kernel_size)
        self.stride = pair("Conv2d", "stride", stride)
        self.padding = padding if isinstance(padding, str) else pair("Conv2d", "padding", padding)
        self.dilation = pair("Conv2d", "dilation", dilation)
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels, *self.kernel_size)
        self.weight = Parameter(zeros(shape, dtype=dtype, device=device))
        self.bias = Parameter(zeros(out_channels, dtype=dtype, device=device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias evenly from +-1 / sqrt(in_channels * kernel elements)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.bias_uniform_(self.bias, self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation,
                        self.groups)

    def extra_repr(self) -> str:
        text = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}")
        text += f", padding={self.padding}" if self.padding != (0, 0) else ""
        text += f", dilation={self.dilation}" if self.dilation != (1, 1) else ""
        return text + ("" if self.bias is not None else ", bias=False")


def _check_mode(mode: str) -> None:
    if mode != "zeros":
        raise ArgumentError(f"Conv2d: padding_mode {mode!r} is not built yet",
                            "use padding_mode='zeros', or pad the input yourself first")
