"""Pooling: windows of (n, channels, *space) to one element each."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError
from ...ops import conv
from ...ops.view import reshape
from ...tensor import Tensor
from ...utils.arguments import pair
from .convolution import batched

__all__ = ["max_pool2d"]


def check_pool(owner: str, ceil_mode: bool, return_indices: bool) -> None:
    """ArgumentError for what pooling cannot do yet."""
    for name, value in (("ceil_mode", ceil_mode), ("return_indices", return_indices)):
        if value:
            raise ArgumentError(f"{owner}: {name}=True is not built yet", f"use {name}=False")


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:
    """The largest element of each window: (n, c, h, w) or (c, h, w) to (n, c, h', w')."""
    check_pool("max_pool2d", ceil_mode, return_indices)
    kernel = pair("max_pool2d", "kernel_size", kernel_size)
    stride = kernel if stride is None else pair("max_pool2d", "stride", stride)
    around = pair("max_pool2d", "padding", padding)
    if any(p > k // 2 for p, k in zip(around, kernel, strict=True)):
        raise ArgumentError(f"max_pool2d: padding {around} is more than half the kernel {kernel}")
    x = batched("max_pool2d", input)
    out = conv.max_pool(x, kernel, stride, pair("max_pool2d", "dilation", dilation), around)
    return out if input.ndim == 4 else reshape(out, out.shape[1:])
