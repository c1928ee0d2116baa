"""Layers that convert images into columns of windows and back."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """The sum of columns in an image: (n, c * kh * kw, windows) -> (n, c, *output_size).

    Every element is added at the position where Unfold reads it. The input may lack n. kh and kw
    are the sizes of a window. Every argument is one number or 2 of them.

    Args:
        output_size: sizes of the image.
        kernel_size: size of a window.
        dilation: distance between the elements of a window. Default 1.
        padding: number of elements around the image, which are dropped. Default 0.
        stride: step between windows. Default 1.

    Raises:
        ShapeError: the input does not have the rows and columns that the sizes imply.

    Example:
        >>> import fusewire as fw
        >>> columns = fw.nn.Unfold(2)(fw.ones(1, 3, 3))
        >>> fw.nn.Fold((3, 3), 2)(columns)
        tensor([[[1., 2., 1.],
                 [2., 4., 2.],
                 [1., 2., 1.]]])
    """

    def __init__(self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
                 stride: Any = 1) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
                      self.stride)

    def extra_repr(self) -> str:
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
                f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}")


class Unfold(Module):
    """The windows of an image as columns: (n, c, h, w) -> (n, c * kh * kw, windows).

    The input may lack n. kh and kw are the sizes of a window. Every argument is one number or 2 of
    them. An axis of size s has (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1
    windows.

    Args:
        kernel_size: size of a window.
        dilation: distance between the elements of a window. Default 1.
        padding: number of zeros around the image. Default 0.
        stride: step between windows. Default 1.

    Raises:
        ShapeError: the input does not have 3 or 4 axes, or is smaller than a window.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Unfold(2)(fw.arange(6.0).reshape(1, 2, 3))
        tensor([[0., 1.],
                [1., 2.],
                [3., 4.],
                [4., 5.]])
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
                 ) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")
