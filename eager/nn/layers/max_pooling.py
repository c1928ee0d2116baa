"""Max pooling layers and their inverses."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number
from ...core.tensor import Tensor
from ...errors import ArgumentError
from .pooling_base import Pool

__all__ = [
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPool(Pool):
    function = "max_pool"

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._pooled(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPool):
    """The largest element of each window: (n, c, l) -> (n, c, l_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    Args:
        kernel_size: size of a window.
        stride: step between windows. Default None: kernel_size.
        padding: number of elements added at both ends of each axis, which are never the largest; at
            most half of the window. Default 0.
        dilation: distance between the elements of a window. Default 1.
        return_indices: True also returns the int64 positions of the results along l. Default False.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of the window, or a size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.MaxPool1d(2, return_indices=True)(fw.tensor([[1.0, 5.0, 2.0, 0.0]]))
        (tensor([[5., 2.]]), tensor([[1, 2]]))
    """

    axes = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window: (n, c, h, w) -> (n, c, h_out, w_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    Args:
        kernel_size: size of a window; one number, or 2 of them.
        stride: step between windows. Default None: kernel_size.
        padding: number of elements added at both ends of each axis, which are never the largest; at
            most half of the window. Default 0.
        dilation: distance between the elements of a window. Default 1.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of the window, or a size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.MaxPool2d(2)(fw.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """

    axes = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window: (n, c, d, h, w) -> (n, c, d_out, h_out, w_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    Args:
        kernel_size: size of a window; one number, or 3 of them.
        stride: step between windows. Default None: kernel_size.
        padding: number of elements added at both ends of each axis, which are never the largest; at
            most half of the window. Default 0.
        dilation: distance between the elements of a window. Default 1.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.
        ceil_mode: True rounds the division up, so that a last window may reach beyond the end.
            Default False.

    Raises:
        ShapeError: the input has other axes, or is smaller than a window.
        ArgumentError: padding is more than half of the window, or a size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.MaxPool3d((1, 2, 2))(fw.zeros(1, 8, 4, 6, 6)).shape
        (1, 8, 4, 3, 3)
    """

    axes = 3


class _MaxUnpool(Pool):
    function = "max_unpool"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = self._each("kernel_size", kernel_size)
        self.stride = self._each("stride", kernel_size if stride is None else stride)
        self.padding = self._each("padding", padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        out: Tensor = self._pooled(input, indices, self.kernel_size, self.stride, self.padding,
                                   output_size)
        return out

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d, with 0 for lost elements: (n, c, l_out) -> (n, c, l).

    The call takes the results and the indices of MaxPool1d, and optionally output_size, the sizes
    of space or the whole shape. By default a size s of space becomes
    (s - 1) * stride - 2 * padding + kernel_size.

    Args:
        kernel_size: size of a window.
        stride: step between windows. Default None: kernel_size.
        padding: the padding of MaxPool1d. Default 0.

    Raises:
        ShapeError: input and indices differ in shape, or output_size is not possible.
        IndexingError: an index is outside of the result.

    Example:
        >>> import fusewire as fw
        >>> y, i = fw.nn.MaxPool1d(2, return_indices=True)(fw.tensor([[1.0, 5.0, 2.0, 0.0]]))
        >>> fw.nn.MaxUnpool1d(2)(y, i)
        tensor([[0., 5., 2., 0.]])
    """

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d, with 0 for lost elements: (n, c, h_out, w_out) -> (n, c, h, w).

    The call takes the results and the indices of MaxPool2d, and optionally output_size, the sizes
    of space or the whole shape. By default a size s of space becomes
    (s - 1) * stride - 2 * padding + kernel_size.

    Args:
        kernel_size: size of a window; one number, or 2 of them.
        stride: step between windows. Default None: kernel_size.
        padding: the padding of MaxPool2d. Default 0.

    Raises:
        ShapeError: input and indices differ in shape, or output_size is not possible.
        IndexingError: an index is outside of the result.

    Example:
        >>> import fusewire as fw
        >>> y, i = fw.nn.MaxPool2d(2, return_indices=True)(fw.arange(4.0).reshape(1, 2, 2))
        >>> fw.nn.MaxUnpool2d(2)(y, i)
        tensor([[[0., 0.],
                 [0., 3.]]])
    """

    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d, with 0 for lost elements.

    (n, c, d_out, h_out, w_out) -> (n, c, d, h, w). The call takes the results and the indices of
    MaxPool3d, and optionally output_size, the sizes of space or the whole shape. By default a size
    s of space becomes (s - 1) * stride - 2 * padding + kernel_size.

    Args:
        kernel_size: size of a window; one number, or 3 of them.
        stride: step between windows. Default None: kernel_size.
        padding: the padding of MaxPool3d. Default 0.

    Raises:
        ShapeError: input and indices differ in shape, or output_size is not possible.
        IndexingError: an index is outside of the result.

    Example:
        >>> import fusewire as fw
        >>> y, i = fw.nn.MaxPool3d(2, return_indices=True)(fw.zeros(1, 4, 4, 4))
        >>> fw.nn.MaxUnpool3d(2)(y, i).shape
        (1, 4, 4, 4)
    """

    axes = 3


class _AdaptiveMaxPool(Pool):
    function = "adaptive_max_pool"

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self._pooled(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest of each of output_size windows: (n, c, l) -> (n, c, output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: size of the result; None keeps the size of the input.
        return_indices: True also returns the int64 positions of the results along l. Default False.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveMaxPool1d(2)(fw.tensor([[1.0, 5.0, 2.0]]))
        tensor([[5., 5.]])
    """

    axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of each of output_size windows: (n, c, h, w) -> (n, c, *output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: sizes of the result; one number, or 2 of them; None keeps the size of an axis.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveMaxPool2d((3, None))(fw.zeros(1, 8, 7, 5)).shape
        (1, 8, 3, 5)
    """

    axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of each of output_size windows: (n, c, d, h, w) -> (n, c, *output_size).

    The input may lack n. Window i of m along an axis of size s goes from floor(i * s / m) to
    ceil((i + 1) * s / m).

    Args:
        output_size: sizes of the result; one number, or 3 of them; None keeps the size of an axis.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.

    Raises:
        ShapeError: the input has other axes.
        ArgumentError: output_size is below 1.
        DTypeError: the input is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AdaptiveMaxPool3d(2)(fw.zeros(1, 8, 5, 6, 7)).shape
        (1, 8, 2, 2, 2)
    """

    axes = 3


class _FractionalMaxPool(Pool):
    function = "fractional_max_pool"
    _random_samples: Tensor | None

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name}: needs output_size or output_ratio, and not both, got "
                                f"{output_size} and {output_ratio}",
                                "as in output_size=7, or output_ratio=0.5 for half the size")
        self.kernel_size = self._each("kernel_size", kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self._each("output_size", output_size)
        self.output_ratio = None if output_ratio is None else \
            self._each("output_ratio", output_ratio)
        if self.output_ratio is not None and not all(
                0 < check_number(name, "output_ratio", r) < 1 for r in self.output_ratio):
            raise ArgumentError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")

    def forward(self, input: Tensor) -> Any:
        return self._pooled(input, self.kernel_size, self.output_size, self.output_ratio,
                            self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest of windows at random positions: (n, c, h, w) -> (n, c, *output_size).

    The input may lack n. Every call draws new positions. Graham, arXiv 1412.6071.

    Args:
        kernel_size: size of a window; one number, or 2 of them.
        output_size: sizes of the result; one number, or 2 of them. Default None: output_ratio.
        output_ratio: sizes of the result as fractions of those of the input, between 0 and 1.
            Default None: output_size.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.

    Raises:
        ArgumentError: output_size and output_ratio are both None or both set, or a ratio is not
            between 0 and 1.
        ShapeError: the input has other axes, or output_size + kernel_size - 1 is above its sizes.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.FractionalMaxPool2d(2, output_ratio=0.5)(fw.zeros(1, 8, 6, 8)).shape
        (1, 8, 3, 4)
    """

    axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest of windows at random positions: (n, c, d, h, w) -> (n, c, *output_size).

    The input may lack n. Every call draws new positions. Graham, arXiv 1412.6071.

    Args:
        kernel_size: size of a window; one number, or 3 of them.
        output_size: sizes of the result; one number, or 3 of them. Default None: output_ratio.
        output_ratio: sizes of the result as fractions of those of the input, between 0 and 1.
            Default None: output_size.
        return_indices: True also returns the int64 positions of the results, in row-major order of
            space. Default False.

    Raises:
        ArgumentError: output_size and output_ratio are both None or both set, or a ratio is not
            between 0 and 1.
        ShapeError: the input has other axes, or output_size + kernel_size - 1 is above its sizes.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.FractionalMaxPool3d(2, output_ratio=0.5)(fw.zeros(1, 8, 6, 8, 10)).shape
        (1, 8, 3, 4, 5)
    """

    axes = 3
