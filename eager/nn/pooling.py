"""Pooling layers."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .functional.pooling import check_pool
from .module import Module

__all__ = ["MaxPool2d"]


class MaxPool2d(Module):
    """The largest element of each window: x (n, c, h, w) or (c, h, w) to (n, c, h_out, w_out)."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        check_pool("MaxPool2d", ceil_mode, return_indices)
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")
