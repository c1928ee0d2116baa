"""Average pooling layers, and pooling by p-norms."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .pooling_base import Pool

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
]


class AvgPool1d(Pool):
    """The mean of each window: (n, c, length) or (c, length) to (..., out)."""

    axes, function = 1, "avg_pool"

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = self._each("kernel_size", kernel_size)
        self.stride = self._each("stride", kernel_size if stride is None else stride)
        self.padding = self._each("padding", padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._pooled(input, self.kernel_size, self.stride, self.padding,
                                   self.ceil_mode, self.count_include_pad)
        return out

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Pool):
    function = "avg_pool"

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._pooled(input, self.kernel_size, self.stride, self.padding,
                                   self.ceil_mode, self.count_include_pad, self.divisor_override)
        return out

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window: (n, c, h, w) or (c, h, w) to (..., h_out, w_out)."""

    axes = 2


class AvgPool3d(_AvgPool):
    """The mean of each window: (n, c, d, h, w) or (c, d, h, w) to (..., *out)."""

    axes = 3


class _LPPool(Pool):
    function = "lp_pool"

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._pooled(input, float(self.norm_type), self.kernel_size, self.stride,
                                   self.ceil_mode)
        return out

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}, ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPool):
    """The p-norm of each window: (n, c, length) or (c, length) to (..., out)."""

    axes = 1


class LPPool2d(_LPPool):
    """The p-norm of each window: (n, c, h, w) or (c, h, w) to (..., h_out, w_out)."""

    axes = 2


class LPPool3d(_LPPool):
    """The p-norm of each window: (n, c, d, h, w) or (c, d, h, w) to (..., *out)."""

    axes = 3


class _AdaptiveAvgPool(Pool):
    function = "adaptive_avg_pool"

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._pooled(input, self.output_size)
        return out

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of `output_size` windows: (n, c, length) or (c, length) to (..., output_size)."""

    axes = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of so many windows: (n, c, h, w) or (c, h, w) to (..., *output_size).

    `output_size` is a number or one for each axis; None keeps the size of the input.
    """

    axes = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of so many windows: (n, c, d, h, w) or (c, d, h, w) to (..., *output_size)."""

    axes = 3
