"""Batch norm as part of the layer before it, for models that are no longer trained."""

from __future__ import annotations

import copy
from typing import Any

from ...core.tensor import Tensor
from ...errors import ArgumentError
from ...ops.create import ones_like, zeros_like
from ...ops.elementwise.pointwise import rsqrt
from ...ops.shape.view import reshape
from ..base.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that gives what `bn` gives of `conv`; both in eval mode."""
    _check("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution, with the batch norm after it in them."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A Linear that gives what `bn` gives of `linear`; both in eval mode."""
    _check("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise ArgumentError(f"fuse_linear_bn_eval: the layer gives {linear.out_features} features, "
                            f"the batch norm takes {bn.num_features}", "the last axis of the "
                            "layer's result has to be the one that is normalized")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a Linear, with the batch norm after it in them."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused(w: Tensor, b: Tensor | None, mean: Tensor, var: Tensor, eps: float,
           scale: Tensor | None, shift: Tensor | None, axis: int) -> tuple[Parameter, Parameter]:
    """(w * x + b - mean) / sqrt(var + eps) * scale + shift, as another w and b."""
    b = zeros_like(mean) if b is None else b
    factor = rsqrt(var + eps) * (ones_like(mean) if scale is None else scale)
    shape = [1] * w.ndim
    shape[axis] = -1
    bias = (b - mean) * factor + (zeros_like(mean) if shift is None else shift)
    needs = w.requires_grad
    return (Parameter((w * reshape(factor, tuple(shape))).to(w.dtype), needs),
            Parameter(bias.to(b.dtype), needs))


def _check(name: str, layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise ArgumentError(f"{name}: both layers have to be in eval mode",
                            "in training a batch norm depends on the batch: call .eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise ArgumentError(f"{name}: the batch norm has no running statistics",
                            "it was made with track_running_stats=False")
