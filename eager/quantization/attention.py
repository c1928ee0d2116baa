"""Splits attention layers into attention and linear projections, which can be quantized."""

from __future__ import annotations

from typing import Any

from ..arrays import dtypes
from ..nn.base.module import Module
from ..nn.base.parameter import Parameter
from ..nn.functional.attention import Heads, thirds
from ..nn.layers.attention import MultiheadAttention
from ..nn.layers.linear import Linear
from .calibration import carry_hooks

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


class ProjectedAttention(MultiheadAttention):
    """A MultiheadAttention with four Linear layers as projections; the attention is unchanged."""

    reads_weights = False

    def __init__(self, layer: MultiheadAttention) -> None:
        Module.__init__(self)
        for name in ("embed_dim", "num_heads", "kdim", "vdim", "dropout", "batch_first", "head_dim",
                     "add_zero_attn", "training"):
            setattr(self, name, getattr(layer, name))
        own = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        weights = own if layer.in_proj_weight is None else thirds(layer.in_proj_weight)
        parts = zip(PROJECTIONS, (*weights, layer.out_proj.weight),
                    (*thirds(layer.in_proj_bias), layer.out_proj.bias))
        for name, weight, bias in parts:
            setattr(self, name, _linear(weight, bias))
        self.bias_k, self.bias_v = layer.bias_k, layer.bias_v

    def _heads(self) -> Heads:
        return Heads(self.num_heads, (self.q_proj, self.k_proj, self.v_proj), self.out_proj,
                     self.bias_k, self.bias_v, self.add_zero_attn)


def _linear(weight: Any, bias: Any) -> Linear:
    linear = Linear(weight.shape[1], weight.shape[0], bias is not None)
    linear.weight = Parameter(weight.detach())
    linear.bias = None if bias is None else Parameter(bias.detach())
    return linear


def is_splittable_attention(layer: Module) -> bool:
    """True if a layer is attention whose projections can be quantized."""
    return type(layer) is MultiheadAttention and layer.out_proj.weight.dtype == dtypes.float32


def with_linear_projections(layer: Any) -> Module:
    """An attention layer with its projections as layers."""
    projected = ProjectedAttention(layer)
    carry_hooks(layer, projected)
    return projected
