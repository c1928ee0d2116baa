"""Convolution and pooling over (n, channels, *space), as contractions and reductions of windows."""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError, ShapeError
from ..op import each
from ..shapes import TensorType
from ..tensor import Tensor, as_tensor
from . import reduce
from .batching import folded
from .composite import call, composite
from .contract import contract
from .create import iota
from .pointwise import equal, where
from .search import argmax
from .view import expand_dims, expand_to, flatten, flip, reshape
from .window import fold, window, window_count

_SPACE = "uvw"  # letters of the positions of windows
_KERNEL = "xyz"  # letters of the positions inside a window


def _sizes(name: str, x: Any, kernel: Any, stride: Any, dilation: Any, pad: Any) -> tuple[Any, ...]:
    space = x.shape[-len(kernel):]
    return tuple(window_count(*args, name) for args in zip(space, kernel, stride, dilation, pad))


# ---- convolution
def _conv_result(x: TensorType, w: TensorType, stride: Any, dilation: Any, pad: Any) -> TensorType:
    if x.ndim != w.ndim or x.ndim < 3 or x.shape[1] != w.shape[1]:
        raise ShapeError(
            f"conv: input {x.shape} does not fit the weight {w.shape}",
            "the input is (n, in, *space), the weight (out, in, *kernel), with as many axes")
    if x.dtype != w.dtype:
        raise DTypeError(f"conv: the input is {x.dtype.name}, the weight {w.dtype.name}",
                         f"cast one of them: x.astype(fw.{w.dtype.name})")
    out = _sizes("conv", x, w.shape[2:], stride, dilation, pad)
    return TensorType((x.shape[0], w.shape[0], *out), x.dtype)


def _conv(x: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Any) -> Tensor:
    d = len(stride)
    out = _sizes("conv", x, w.shape[2:], stride, dilation, pad)
    windows = window(x, w.shape[2:], out, stride, dilation, pad)
    o, k = _SPACE[:d], _KERNEL[:d]
    return contract(windows, w, f"nc{o}{k},fc{k}->nf{o}")


def _conv_input_vjp(g: Tensor, out: Tensor, x: Tensor, w: Tensor, stride: Any, dilation: Any,
                    pad: Any) -> Tensor:
    """Every element of x gathers from the windows it stood in, with holes in g for the stride."""
    d = len(stride)
    kernel = w.shape[2:]
    turned = flip(w, tuple(range(2, 2 + d)))
    back = tuple(r * (k - 1) - p for r, k, p in zip(dilation, kernel, pad))
    windows = window(g, kernel, x.shape[2:], (1,) * d, dilation, back, spread=stride)
    o, k = _SPACE[:d], _KERNEL[:d]
    return contract(windows, turned, f"nf{o}{k},fc{k}->nc{o}")


def _conv_weight_vjp(g: Tensor, out: Tensor, x: Tensor, w: Tensor, stride: Any, dilation: Any,
                     pad: Any) -> Tensor:
    d = len(stride)
    windows = window(x, w.shape[2:], g.shape[2:], stride, dilation, pad)
    o, k = _SPACE[:d], _KERNEL[:d]
    return contract(g, windows, f"nf{o},nc{o}{k}->fc{k}")


conv_op = composite("conv", _conv, _conv_result, vjp=each(_conv_input_vjp, _conv_weight_vjp),
                    onnx="Conv")


def conv(x: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Any) -> Tensor:
    """The cross-correlation of x (n, c, *space) with w (f, c, *kernel): (n, f, *out)."""
    x, w = as_tensor("conv", x), as_tensor("conv", w)
    params = {"stride": tuple(stride), "dilation": tuple(dilation), "pad": tuple(pad)}
    _conv_result(TensorType(x.shape, x.dtype), TensorType(w.shape, w.dtype), **params)
    return call(conv_op, x, w, **params)


# ---- pooling
def _pool_result(x: TensorType, kernel: Any, stride: Any, dilation: Any, pad: Any) -> TensorType:
    return TensorType((*x.shape[:2], *_sizes("pool", x, kernel, stride, dilation, pad)), x.dtype)


def _max_pool(x: Tensor, kernel: Any, stride: Any, dilation: Any, pad: Any) -> Tensor:
    out = _sizes("max_pool", x, kernel, stride, dilation, pad)
    windows = window(x, kernel, out, stride, dilation, pad, fill=-float("inf"))
    return reduce.max(windows, tuple(range(-len(kernel), 0)))


def _max_pool_vjp(g: Tensor, out: Tensor, x: Tensor, kernel: Any, stride: Any, dilation: Any,
                  pad: Any) -> Tensor:
    """The gradient goes to the first largest element of each window."""
    d = len(kernel)
    windows = window(x, kernel, out.shape[2:], stride, dilation, pad, fill=-float("inf"))
    flat = flatten(windows, -d, -1)
    first = expand_dims(argmax(flat, -1), -1)
    hit = equal(iota(flat.shape, -1), expand_to(first, flat.shape))
    spread = expand_to(expand_dims(g, -1), flat.shape)
    picked = reshape(where(hit, spread, 0.0), windows.shape)
    return fold(picked, x.shape[2:], kernel, stride, dilation, pad, (1,) * d)


max_pool_op = composite("max_pool", _max_pool, _pool_result, vjp=each(_max_pool_vjp),
                        onnx="MaxPool", batch=folded)


def max_pool(x: Tensor, kernel: Any, stride: Any, dilation: Any, pad: Any) -> Tensor:
    """The largest element of each window of x (n, c, *space): (n, c, *out)."""
    x = reduce.floating("max_pool", x, "f")
    if x.ndim != 2 + len(kernel):
        raise ShapeError(f"max_pool: input {x.shape} does not fit a window {tuple(kernel)}",
                         f"it is (n, channels, *space) with {2 + len(kernel)} axes")
    params = {"kernel": tuple(kernel), "stride": tuple(stride), "dilation": tuple(dilation),
              "pad": tuple(pad)}
    _pool_result(TensorType(x.shape, x.dtype), **params)
    return call(max_pool_op, x, **params)
