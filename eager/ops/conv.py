"""Convolution and pooling over (n, channels, *space), as contractions and reductions of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..op import each
from ..shapes import TensorType
from ..tensor import Tensor
from . import reduce
from .composite import call, composite
from .contract import contract
from .create import iota
from .pointwise import astype, equal, where
from .view import broadcast_to, expand_dims, flatten, flip, reshape
from .window import unwindow, window, window_count

_SPACE = "uvw"  # letters of the positions of windows
_KERNEL = "xyz"  # letters of the positions inside a window


def _sizes(name: str, x: Any, kernel: Any, stride: Any, dilation: Any, pad: Any) -> tuple[Any, ...]:
    space = x.shape[-len(kernel):]
    return tuple(window_count(*args, name) for args in zip(space, kernel, stride, dilation, pad))


# ---- convolution
def _conv_result(x: TensorType, w: TensorType, stride: Any, dilation: Any, pad: Any) -> TensorType:
    if x.ndim != w.ndim or x.shape[1] != w.shape[1]:
        raise ShapeError(
            f"conv: input {x.shape} needs {w.shape[1] if w.ndim > 1 else '?'} channels in axis 1, "
            f"as the weight {w.shape} = (out, in, *kernel) says, and {w.ndim} axes")
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
    """Every element of x gathers from the windows it stood in: windows of g, holes for the stride."""
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
    params = {"stride": tuple(stride), "dilation": tuple(dilation), "pad": tuple(pad)}
    _conv_result(TensorType(x.shape, x.dtype), TensorType(w.shape, w.dtype), **params)
    return call(conv_op, x, w, **params)


# ---- argmax, as the first position of the largest value
def _argmax_result(x: TensorType, axis: int) -> TensorType:
    return TensorType((*x.shape[:axis], *x.shape[axis + 1:]), np.dtype("int64"))


def _argmax(x: Tensor, axis: int) -> Tensor:
    top = broadcast_to(reduce.max(x, axis, keepdims=True), x.shape)
    hit = equal(x, top)
    if x.dtype.kind == "f":
        hit = hit.logical_or(x.isnan())  # type: ignore[attr-defined]
    return reduce.min(where(hit, iota(x.shape, axis), x.shape[axis]), axis)


argmax_op = composite("argmax", _argmax, _argmax_result,
                      lambda xp, x, axis: np.asarray(x.argmax(axis=axis)),
                      vjp=each(None), onnx="ArgMax")


def argmax(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the first largest value along `axis` (None: in row-major order), int64."""
    if axis is None:
        found = call(argmax_op, reshape(x.detach(), (-1,)), axis=0)
        return reshape(found, (1,) * x.ndim) if keepdims else found
    at = axis % x.ndim if -x.ndim <= axis < x.ndim else reduce.axes_of("argmax", axis, x.ndim)[0]
    found = call(argmax_op, x.detach(), axis=at)
    return expand_dims(found, at) if keepdims else found


def argmin(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the first smallest value along `axis` (None: in row-major order), int64."""
    return argmax(-x if x.dtype.kind != "b" else astype(x, np.int8) * -1, axis, keepdims)


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
    hit = equal(iota(flat.shape, -1), broadcast_to(first, flat.shape))
    spread = broadcast_to(expand_dims(g, -1), flat.shape)
    picked = reshape(where(hit, spread, 0.0), windows.shape)
    back = unwindow(picked, x.shape[2:], kernel, stride, dilation, pad, (1,) * d)
    return reduce.sum(back, tuple(range(-d, 0)))


max_pool_op = composite("max_pool", _max_pool, _pool_result, vjp=each(_max_pool_vjp),
                        onnx="MaxPool")


def max_pool(x: Tensor, kernel: Any, stride: Any, dilation: Any, pad: Any) -> Tensor:
    """The largest element of each window of x (n, c, *space): (n, c, *out)."""
    params = {"kernel": tuple(kernel), "stride": tuple(stride), "dilation": tuple(dilation),
              "pad": tuple(pad)}
    _pool_result(TensorType(x.shape, x.dtype), **params)
    return call(max_pool_op, x, **params)
