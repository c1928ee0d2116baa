"""Defines the int8 layers, which replace the float layers they are built from.

They hold buffers: `codes`, the weight in int8; `weight_scale` for each channel; `shift`, added to
each channel; and, for static activations, `input_scale` and `input_zero`. The attributes `weight`
and `bias` are the floats that these stand for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..arrays import dtypes
from ..arrays.shapes import product
from ..autograd.function import Function
from ..core.dispatch import apply
from ..core.tensor import Tensor, tensor
from ..nn import functional as F
from ..nn.base.module import Module
from ..nn.functional.inputs import like_input, with_samples
from ..nn.layers.conv import Conv1d, Conv2d, Conv3d, _Conv
from ..nn.layers.embedding import Embedding
from ..nn.layers.linear import Linear
from ..nn.utils import lora
from ..ops.elementwise.pointwise import cast
from ..ops.layers.conv import transpose_op
from ..ops.layers.quantized import (
    MOST_PRODUCTS,
    dynamic,
    quantize_linear,
    quantized_conv,
    quantized_linear,
)
from .qparams import QuantParams, bias_codes, least_scale, weight_codes

__all__ = ["FORMS", "QuantizedConv", "QuantizedEmbedding", "QuantizedLinear"]


class _Coded(Module):
    """A layer with a weight of int8."""

    codes: Tensor
    weight_scale: Tensor

    def _hold(self, weight: Any, per_channel: bool, least: Any = 0.0) -> None:
        codes, scale = weight_codes(weight, per_channel, least)
        self.register_buffer("codes", tensor(codes))
        self.register_buffer("weight_scale", tensor(scale))

    @property
    def weight(self) -> Tensor:
        """The weight that the codes stand for, in float32."""
        return _floats(self.codes, self.weight_scale)


def _floats(codes: Tensor, scale: Tensor) -> Tensor:
    return cast(codes, dtypes.float32) * scale.reshape((-1, *[1] * (codes.ndim - 1)))


class _AsOfFloats(Function):
    """The result `out` of a product of integers, with the gradient by its input `x` of floats.

    This is the straight-through estimate: Bengio et al., "Estimating or propagating gradients
    through stochastic neurons", arXiv 1308.3432. The weight of floats is made again in the
    backward, so that it takes no memory until then.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, codes: Tensor, scale: Tensor,
                gradient: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(codes, scale)
        ctx.gradient = gradient
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.gradient(g, _floats(*ctx.saved_tensors)), None, None, None, None


class _Product(_Coded):
    """A layer that multiplies its input with a weight.

    grid: the grid of its input; None if each input has its own.
    """

    shift: Tensor | None

    def __init__(self, layer: Any, grid: QuantParams | None, per_channel: bool = True) -> None:
        super().__init__()
        bias = None if layer.bias is None else _values(layer.bias)
        least = 0.0 if bias is None or grid is None else least_scale(bias, grid.scale)
        self._hold(_values(layer.weight), per_channel, least)
        self.is_static = grid is not None
        self.register_buffer("shift", None if bias is None else tensor(bias))
        if grid is not None:
            self.register_buffer("input_scale", tensor(grid.scale, dtypes.float32))
            self.register_buffer("input_zero", tensor(grid.zero, grid.dtype))
        if grid is not None and bias is not None:
            unit = np.float32(grid.scale) * self.weight_scale.numpy()
            self.register_buffer("shift", tensor(bias_codes(bias, unit)))

    @property
    def bias(self) -> Tensor | None:
        """The bias that its codes stand for, in float32."""
        if self.shift is None or not self.is_static:
            return self.shift
        return cast(self.shift, dtypes.float32) * (self.input_scale * self.weight_scale)

    def _coded(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`x` in 8 bits, with its scale and its zero."""
        x = cast(x, dtypes.float32) if dtypes.is_small(x.dtype) else x  # as autocast makes them
        if not self.is_static:
            return dynamic(x)
        scale, zero = self.input_scale, self.input_zero
        return quantize_linear(x, scale, zero), scale, zero

    def _factors(self, x: Tensor) -> tuple[Tensor, ...]:
        shift = () if self.shift is None else (self.shift,)
        return (*self._coded(x), self.codes, self.weight_scale, *shift)

    def _with_gradient(self, x: Tensor, out: Tensor, gradient: Callable[[Tensor, Tensor], Tensor]
                       ) -> Tensor:
        """`out`, with `gradient` of its gradient and the weight as the gradient by `x`."""
        if not x.requires_grad:
            return out
        with_gradient: Tensor = _AsOfFloats.apply(x, out, self.codes, self.weight_scale, gradient)
        return with_gradient

    def _how(self) -> str:
        return "" if self.is_static else ", dynamic"


class QuantizedLinear(_Product):
    """A Linear of 8-bit products: (..., in_features) -> (..., out_features), float32.

    Args:
        layer: the Linear that it replaces.
        grid: the grid of its input; None gives each input its own.
        per_channel: True has a scale for each output, False one for all. Default True.
    """

    def __init__(self, layer: Linear, grid: QuantParams | None, per_channel: bool = True) -> None:
        super().__init__(layer, grid, per_channel)
        self.in_features, self.out_features = layer.in_features, layer.out_features

    def forward(self, input: Tensor) -> Tensor:
        out = quantized_linear(*self._factors(input))
        return self._with_gradient(input, out, operator.matmul)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}{self._how()}"


class QuantizedConv(_Product):
    """A Conv1d, Conv2d or Conv3d of 8-bit products, with exact padding; the shapes are theirs.

    Args:
        layer: the convolution that it replaces.
        grid: the grid of its input; None gives each input its own.
        per_channel: True has a scale for each output channel, False one for all. Default True.
    """

    def __init__(self, layer: Any, grid: QuantParams | None, per_channel: bool = True) -> None:
        super().__init__(layer, grid, per_channel)
        for name in ("axes", "in_channels", "out_channels", "kernel_size", "stride", "padding",
                     "dilation", "groups", "padding_mode"):
            setattr(self, name, getattr(layer, name))
        self._around = layer._pad_widths()

    def forward(self, input: Tensor) -> Tensor:
        x = with_samples("QuantizedConv", input, self.axes)
        pads = self._pads()
        if self.padding_mode != "zeros":
            x, pads = F.pad(x, self._around, self.padding_mode), ((0, 0),) * self.axes
        how = {"stride": self.stride, "dilation": self.dilation, "pad": pads,
               "groups": self.groups}
        out = quantized_conv(*self._factors(x), **how)
        gradient = partial(_gradient_by_image, space=x.shape[2:], **how)
        return like_input(self._with_gradient(x, out, gradient), input)

    def _pads(self) -> tuple[tuple[int, int], ...]:
        pairs = list(zip(self._around[::2], self._around[1::2]))
        return tuple(pairs[::-1])

    def extra_repr(self) -> str:
        groups = "" if self.groups == 1 else f", groups={self.groups}"
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}, padding={self.padding}{groups}{self._how()}")


def _gradient_by_image(g: Tensor, weight: Tensor, **how: Any) -> Tensor:
    return apply(transpose_op, (g, weight), how)


class QuantizedEmbedding(_Coded):
    """An Embedding with rows of int8: indices (...) -> (..., embedding_dim), float32.

    Args:
        layer: the Embedding that it replaces.
        per_channel: True has a scale for each row, False one for all. Default True.
    """

    def __init__(self, layer: Embedding, per_channel: bool = True) -> None:
        super().__init__()
        self._hold(_values(layer.weight), per_channel)
        self.num_embeddings, self.embedding_dim = layer.num_embeddings, layer.embedding_dim
        self.padding_idx, self.max_norm = layer.padding_idx, None
        self.scale_grad_by_freq = layer.scale_grad_by_freq

    def forward(self, input: Tensor) -> Tensor:
        rows = F.embedding(input, self.codes)
        scale = F.embedding(input, self.weight_scale.reshape(-1, 1))
        return cast(rows, dtypes.float32) * scale

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


def _values(x: Tensor) -> Any:
    return x.detach().numpy().astype(np.float32)


FORMS: dict[type, type] = {
    Linear: QuantizedLinear, Embedding: QuantizedEmbedding,
    **dict.fromkeys((Conv1d, Conv2d, Conv3d), QuantizedConv),
}


lora.register(QuantizedLinear, lora.LinearAdapter)
lora.register(QuantizedEmbedding, lora.EmbeddingAdapter)


def why_not(layer: Module) -> str:
    """The reason why a layer with an int8 form cannot be quantized, or an empty text."""
    weight = layer.weight
    if weight.dtype != dtypes.float32:
        return f"its weight is {weight.dtype.name}, not float32"
    if product(weight.shape[1:]) > MOST_PRODUCTS and not isinstance(layer, Embedding):
        return f"sums of more than {MOST_PRODUCTS} products do not fit in int32"
    if not weight.size:
        return "its weight is empty"
    if isinstance(layer, Embedding) and layer.max_norm is not None:
        return "it changes its rows as they are read (max_norm)"
    if isinstance(layer, _Conv) and layer.transposed:
        return "there is no int8 form of it"
    return ""
