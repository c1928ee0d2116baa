"""Merges a batch norm into the layer before it, for models in eval mode."""

from __future__ import annotations

import copy
from typing import Any

from ...arguments import check_number, names_itself
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
    """A copy of `conv` that computes bn(conv(x)).

    Args:
        conv: a convolution layer in eval mode.
        bn: the batch norm of its channels, in eval mode, with running statistics.
        transpose: True for a transposed convolution, whose weight has the outputs in axis 1.
            Default False.

    Raises:
        ArgumentError: a layer is in training mode, or `bn` has no running statistics.

    Example:
        >>> import fusewire as fw
        >>> conv, bn = fw.nn.Conv1d(2, 3, 1).eval(), fw.nn.BatchNorm1d(3).eval()
        >>> fused, x = fw.nn.utils.fuse_conv_bn_eval(conv, bn), fw.ones((1, 2, 4))
        >>> ((fused(x) - bn(conv(x))).abs() < 1e-5).all().item()
        True
    """
    _check("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose)
    return fused


@names_itself
def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution that includes the batch norm after it.

    Args:
        conv_w: the weight (out, in, *kernel), or with `transpose` (in, out, *kernel).
        conv_b: the bias (out,), or None.
        bn_rm, bn_rv: the running mean and variance, (out,).
        bn_eps: added to the variance.
        bn_w, bn_b: weight and bias of the batch norm, (out,) or None.
        transpose: True for a transposed convolution. Default False.

    Example:
        >>> import fusewire as fw
        >>> w, mean, var = fw.ones((1, 1, 1)), fw.ones(1), fw.full(1, 4.0)
        >>> w, b = fw.nn.utils.fuse_conv_bn_weights(w, None, mean, var, 0.0, None, None)
        >>> w.item(), b.item()
        (0.5, -0.5)
    """
    check_number("fuse_conv_bn_weights", "bn_eps", bn_eps)
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that computes bn(linear(x)).

    Args:
        linear: a Linear in eval mode.
        bn: the batch norm of its features, in eval mode, with running statistics.

    Raises:
        ArgumentError: a layer is in training mode, `bn` has no running statistics, or the numbers
            of features differ.

    Example:
        >>> import fusewire as fw
        >>> linear, bn = fw.nn.Linear(2, 3).eval(), fw.nn.BatchNorm1d(3).eval()
        >>> fused, x = fw.nn.utils.fuse_linear_bn_eval(linear, bn), fw.ones((4, 2))
        >>> ((fused(x) - bn(linear(x))).abs() < 1e-5).all().item()
        True
    """
    _check("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise ArgumentError(f"fuse_linear_bn_eval: the layer has {linear.out_features} features, "
                            f"the batch norm takes {bn.num_features}", "the last axis of the "
                            "layer's result has to be the one that is normalized")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused


@names_itself
def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a Linear that includes the batch norm after it.

    Args:
        linear_w: the weight (out, in).
        linear_b: the bias (out,), or None.
        bn_rm, bn_rv: the running mean and variance, (out,).
        bn_eps: added to the variance.
        bn_w, bn_b: weight and bias of the batch norm, (out,) or None.

    Example:
        >>> import fusewire as fw
        >>> w, mean, var = fw.ones((1, 1)), fw.ones(1), fw.full(1, 4.0)
        >>> w, b = fw.nn.utils.fuse_linear_bn_weights(w, None, mean, var, 0.0, None, None)
        >>> w.item(), b.item()
        (0.5, -0.5)
    """
    check_number("fuse_linear_bn_weights", "bn_eps", bn_eps)
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
