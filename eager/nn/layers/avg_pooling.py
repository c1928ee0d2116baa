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
    """The mean of each window: (n, c, l) -> (n, c, l_out).

    The input may lack n. A size s of space becomes (s + 2 * padding - kernel_size) // stride + 1.

    Args:
        kernel_size: size of a window.
        stride: step between windows. Default None: kernel_size.
        padding: number of zeros added at both ends of each axis; at most half of kernel_size.
            Default 0.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.
        count_include_pad: True counts the padding in the means. Default True.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of kernel_size, or a size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AvgPool1d(2)(fw.tensor([[1.0, 5.0, 2.0, 0.0]]))
        tensor([[3., 1.]])
    """

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
    """The mean of each window: (n, c, h, w) -> (n, c, h_out, w_out).

    The input may lack n. A size s of space becomes (s + 2 * padding - kernel_size) // stride + 1.

    Args:
        kernel_size: size of a window; one number, or 2 of them.
        stride: step between windows. Default None: kernel_size.
        padding: number of zeros added at both ends of each axis; at most half of kernel_size.
            Default 0.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.
        count_include_pad: True counts the padding in the means. Default True.
        divisor_override: divisor of the sums. Default None: the number of elements.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of kernel_size, a size is below 1, or
            divisor_override is 0.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AvgPool2d(2)(fw.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 2.5,  4.5],
                 [10.5, 12.5]]])
    """

    axes = 2


class AvgPool3d(_AvgPool):
    """The mean of each window: (n, c, d, h, w) -> (n, c, d_out, h_out, w_out).

    The input may lack n. A size s of space becomes (s + 2 * padding - kernel_size) // stride + 1.

    Args:
        kernel_size: size of a window; one number, or 3 of them.
        stride: step between windows. Default None: kernel_size.
        padding: number of zeros added at both ends of each axis; at most half of kernel_size.
            Default 0.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.
        count_include_pad: True counts the padding in the means. Default True.
        divisor_override: divisor of the sums. Default None: the number of elements.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of kernel_size, a size is below 1, or
            divisor_override is 0.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AvgPool3d((1, 2, 2))(fw.zeros(1, 8, 4, 6, 6)).shape
        (1, 8, 4, 3, 3)
    """

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
    """sum(x ** p) ** (1 / p) of each window: (n, c, l) -> (n, c, l_out).

    It is the p-norm where no element is negative. The input may lack n. A size s of space becomes
    (s - kernel_size) // stride + 1.

    Args:
        norm_type: p.
        kernel_size: size of a window.
        stride: step between windows. Default None: kernel_size.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: a size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LPPool1d(2, kernel_size=2)(fw.tensor([[3.0, 4.0, 0.0, 1.0]]))
        tensor([[5., 1.]])
    """

    axes = 1


class LPPool2d(_LPPool):
    """sum(x ** p) ** (1 / p) of each window: (n, c, h, w) -> (n, c, h_out, w_out).

    It is the p-norm where no element is negative. The input may lack n. A size s of space becomes
    (s - kernel_size) // stride + 1.

    Args:
        norm_type: p.
        kernel_size: size of a window; one number, or 2 of them.
        stride: step between windows. Default None: kernel_size.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: a size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LPPool2d(1, kernel_size=2)(fw.ones(1, 4, 4))
        tensor([[[4., 4.],
                 [4., 4.]]])
    """

    axes = 2


class LPPool3d(_LPPool):
    """sum(x ** p) ** (1 / p) of each window: (n, c, d, h, w) -> (n, c, d_out, h_out, w_out).

    It is the p-norm where no element is negative. The input may lack n. A size s of space becomes
    (s - kernel_size) // stride + 1.

    Args:
        norm_type: p.
        kernel_size: size of a window; one number, or 3 of them.
        stride: step between windows. Default None: kernel_size.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: a size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LPPool3d(2, kernel_size=2)(fw.zeros(1, 8, 4, 6, 6)).shape
        (1, 8, 2, 3, 3)
    """

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
    """The mean of each of output_size windows: (n, c, l) -> (n, c, output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: size of the result; None keeps the size of the input.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveAvgPool1d(2)(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1.5, 2.5]])
    """

    axes = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The mean of each of output_size windows: (n, c, h, w) -> (n, c, *output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: sizes of the result; one number, or 2 of them; None keeps the size of an axis.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveAvgPool2d(1)(fw.arange(8.0).reshape(2, 2, 2))
        tensor([[[1.5]],
        <BLANKLINE>
                [[5.5]]])
    """

    axes = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The mean of each of output_size windows: (n, c, d, h, w) -> (n, c, *output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: sizes of the result; one number, or 3 of them; None keeps the size of an axis.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveAvgPool3d((2, None, 1))(fw.zeros(1, 8, 5, 6, 7)).shape
        (1, 8, 2, 6, 1)
    """

    axes = 3
