"""Defines normalizations and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import tensor
from .....eager.errors import ImportModelError
from .....eager.nn import functional as F
from .....eager.ops import create
from .....eager.ops.elementwise import pointwise
from .....eager.ops.random.generator import rand
from .....eager.ops.reduction import reduce
from .....eager.ops.shape import view
from ..runtime.table import Number, Tensor, operator
from ..runtime.values import np_dtype
from .shapes import axes_of

__all__: list[str] = []


@operator("BatchNormalization", since=14, many=True, settings=(3, 4))
def _batch_norm(x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor,
                epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0,
                outputs: int = 1) -> Any:
    if outputs > 1 and not training_mode:
        raise ImportModelError("BatchNormalization has more than one output, but training_mode is "
                               "0")
    if not training_mode:
        if len({t.dtype for t in (x, scale, b, mean, var)}) > 1:
            return (_normalized(x, scale, b, mean, var, epsilon),)
        return (F.batch_norm(x, mean, var, scale, b, False, 0.0, epsilon),)
    axes = tuple(a for a in range(x.ndim) if a != 1)
    wide = x.astype(dtypes.summed_in(x.dtype))
    own_mean, own_var = reduce.mean(wide, axes), reduce.var(wide, axes)
    y = _normalized(x, scale, b, own_mean, own_var, epsilon)
    rest = 1 - momentum
    return (y, (mean * momentum + own_mean * rest).astype(mean.dtype),
            (var * momentum + own_var * rest).astype(var.dtype))


def _normalized(x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, epsilon: float
                ) -> Tensor:
    work = dtypes.summed_in(x.dtype)
    shape = (-1, *[1] * (x.ndim - 2))
    x_, scale, b, mean, var = (t.astype(work) for t in (x, scale, b, mean, var))
    scale, b, mean, var = (view.reshape(t, shape) for t in (scale, b, mean, var))
    normalized = (x_ - mean) * pointwise.rsqrt(var + epsilon) * scale + b
    return normalized.astype(x.dtype)


@operator("BatchNormalization", since=1, many=True, settings=(3, 4))
def _batch_norm_old(x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor,
                    epsilon: float = 1e-5, momentum: float = 0.9, is_test: int = 0,
                    spatial: int = 1, outputs: int = 1) -> Any:
    """Before version 14, more than one output requests training mode."""
    if not spatial or outputs > 1:
        raise ImportModelError("BatchNormalization before version 14 is supported in inference "
                               "and over channels only", "export the model with opset 14 or later")
    return _batch_norm(x, scale, b, mean, var, epsilon, momentum, 0)


@operator("InstanceNormalization")
def _instance_norm(x: Tensor, scale: Tensor, b: Tensor, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=b, eps=epsilon)


@operator("GroupNormalization", since=21)
def _group_norm(x: Tensor, scale: Tensor, bias: Tensor, num_groups: int, epsilon: float = 1e-5,
                stash_type: Any = "float32") -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNormalization", since=18)
def _group_norm_of_groups(x: Tensor, scale: Tensor, bias: Tensor, num_groups: int,
                          epsilon: float = 1e-5) -> Tensor:
    """Before version 21, there is a scale for each group, not for each channel."""
    normalized = F.group_norm(x, num_groups, None, None, epsilon)
    n, c, *space = x.shape
    grouped = view.reshape(normalized, (n, num_groups, c // num_groups, *space))
    shape = (-1, *[1] * (len(space) + 1))
    return view.reshape(grouped * view.reshape(scale, shape) + view.reshape(bias, shape),
                        x.shape)


@operator("LayerNormalization", many=True)
def _layer_norm(x: Tensor, scale: Tensor, b: Tensor | None = None, axis: int = -1,
                epsilon: float = 1e-5, stash_type: Any = "float32", outputs: int = 1) -> Any:
    at = axes_of([axis], x.ndim)[0]
    shape, axes = x.shape[at:], tuple(range(at, x.ndim))
    if outputs == 1 and scale.shape == shape and (b is None or b.shape == shape):
        return (F.layer_norm(x, shape, scale, b, epsilon),)
    work = np_dtype(stash_type) if stash_type else x.dtype
    wide = x.astype(work)
    mean = reduce.mean(wide, axes, True)
    scaled = pointwise.rsqrt(reduce.var(wide, axes, keepdims=True) + epsilon)
    y = ((wide - mean) * scaled).astype(x.dtype) * scale
    return y if b is None else y + b, mean, scaled


@operator("RMSNormalization")
def _rms_norm(x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5,
              stash_type: Any = "float32") -> Tensor:
    at = axes_of([axis], x.ndim)[0]
    shape = x.shape[at:]
    if scale.shape == shape and scale.dtype == x.dtype:
        return F.rms_norm(x, shape, scale, epsilon)
    wide = x.astype(np_dtype(stash_type))
    square = reduce.mean(wide * wide, tuple(range(at, x.ndim)), True)
    return ((wide * pointwise.rsqrt(square + epsilon)).astype(scale.dtype) * scale)


@operator("MeanVarianceNormalization")
def _mean_variance_norm(x: Tensor, axes: Any = (0, 2, 3)) -> Tensor:
    mean = reduce.mean(x, tuple(axes), True)
    deviation = reduce.std(x, tuple(axes), keepdims=True)
    return (x - mean) / (deviation + 1e-9)


@operator("LpNormalization")
def _lp_norm(x: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    """x / norm, and 0 if the norm is 0."""
    norm = reduce.sum(pointwise.abs(x), axis, True) if p == 1 else \
        pointwise.sqrt(reduce.sum(pointwise.square(x), axis, True))
    return pointwise.where(pointwise.equal(norm, 0), 0.0,
                           x / pointwise.where(pointwise.equal(norm, 0), 1.0, norm))


@operator("LRN")
def _local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75,
                         bias: float = 1.0) -> Tensor:
    sums = F.normalization.sums_of_squares(x, size, (size - 1) // 2)
    return x / pointwise.pow(sums * (alpha / size) + bias, beta)


@operator("Dropout", since=12, many=True, settings=(1, 2))
def _dropout(x: Tensor, ratio: Number = 0.5, training_mode: Number = False,
             seed: int | None = None) -> Any:
    if not training_mode or ratio == 0:
        return x, create.ones(x.shape, dtype="bool")
    drawn = rand(*x.shape) if seed is None else \
        tensor(np.random.RandomState(seed % 2 ** 32).uniform(0, 1, x.shape))
    mask = pointwise.greater_equal(drawn, ratio)
    return pointwise.where(mask, x / (1 - ratio), 0.0), mask


@operator("Dropout", since=1, many=True)
def _dropout_old(x: Tensor, ratio: float = 0.5, is_test: int = 0) -> Any:
    return x, create.ones(x.shape, dtype="bool")
