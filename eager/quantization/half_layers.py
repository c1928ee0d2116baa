"""Runs layers with 16-bit parameters and products between float32 inputs and results."""

from __future__ import annotations

from typing import Any

from ..arrays import dtypes
from ..core.tensor import Tensor
from ..nn.base.module import Module
from ..nn.layers.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from ..nn.layers.embedding import Embedding
from ..nn.layers.linear import Bilinear, Linear
from ..ops.elementwise.pointwise import cast

__all__ = ["HALVED", "InSmallFloats"]

HALVED = (Linear, Bilinear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
          ConvTranspose3d, Embedding)


class InSmallFloats(Module):
    """A layer whose parameters have 16 bits.

    It casts inputs of float32 to the 16-bit dtype and its result back to float32, so that norms,
    softmaxes and sums between layers stay in float32.

    Args:
        layer: the layer, whose parameters are cast in place.
        dtype: bfloat16 or float16.
    """

    def __init__(self, layer: Module, dtype: Any) -> None:
        super().__init__()
        self.layer = layer.to(dtype)
        self.dtype = dtype

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        out = self.layer(*map(self._small, inputs),
                         **{name: self._small(x) for name, x in named.items()})
        return cast(out, dtypes.float32)

    def _small(self, x: Any) -> Any:
        is_wide = isinstance(x, Tensor) and x.dtype == dtypes.float32
        return cast(x, self.dtype) if is_wide else x

    def extra_repr(self) -> str:
        return f"in {self.dtype.name}"


def why_not(layer: Any) -> str:
    """The reason why a layer cannot be quantized, or an empty text."""
    dtype = layer.weight.dtype
    return "" if dtype == dtypes.float32 else f"its weight is {dtype.name}, not float32"
