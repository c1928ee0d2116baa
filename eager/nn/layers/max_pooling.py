"""Max pooling layers and their inverses."""

from __future__ import annotations

from typing import Any

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
    """The largest element of each window: (n, c, length) or (c, length) to (..., out).

    With `return_indices` also where each stands in its row, as MaxUnpool1d takes it.
    """

    axes = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window: (n, c, h, w) or (c, h, w) to (..., h_out, w_out).

    With `return_indices` also where each stands in its plane, as MaxUnpool2d takes it.
    """

    axes = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window: (n, c, d, h, w) or (c, d, h, w) to (..., *out).

    With `return_indices` also where each stands in its volume, as MaxUnpool3d takes it.
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
    """What MaxPool1d gave, (n, c, out), put back to its indices: (n, c, length), 0 elsewhere."""

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """What MaxPool2d gave, (n, c, h_out, w_out), put back to its indices: (n, c, h, w)."""

    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """What MaxPool3d gave, (n, c, *out), put back to its indices: (n, c, d, h, w)."""

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
    """The largest of each of `output_size` windows: (n, c, length) to (n, c, output_size)."""

    axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of each of so many windows: (n, c, h, w) to (n, c, *output_size).

    `output_size` is a number or one for each axis; None keeps the size of the input.
    """

    axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of each of so many windows: (n, c, d, h, w) to (n, c, *output_size)."""

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
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ArgumentError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")

    def forward(self, input: Tensor) -> Any:
        return self._pooled(input, self.kernel_size, self.output_size, self.output_ratio,
                            self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest of windows that begin at random places: (n, c, h, w) to (n, c, *out).

    Graham, arXiv 1412.6071.
    """

    axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest of windows that begin at random places: (n, c, d, h, w) to (n, c, *out)."""

    axes = 3
