"""The layers as functions, in PyTorch's signatures. Losses stand in `loss_functional`."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..dispatch import replace
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops import activation, conv, pointwise, random
from ..ops import softmax as _softmax
from ..ops.contract import matmul
from ..ops.create import iota
from ..ops.pointwise import astype, equal, greater_equal, where
from ..ops.view import broadcast_to, expand_dims, reshape, transpose
from ..tensor import Tensor, as_tensor
from ..utils.arguments import check_choice, check_fraction, pair
from .image_functional import (
    affine_grid,
    fold,
    grid_sample,
    interpolate,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from .loss_functional import REDUCTIONS, cross_entropy, mse_loss, nll_loss

__all__ = [
    "REDUCTIONS", "affine_grid", "conv2d", "cross_entropy", "dropout", "elu", "fold", "gelu",
    "grid_sample", "interpolate", "leaky_relu", "linear", "log_softmax", "max_pool2d", "mse_loss",
    "nll_loss", "one_hot", "pad", "pixel_shuffle", "pixel_unshuffle", "relu", "sigmoid", "silu",
    "softmax", "softplus", "tanh", "unfold",
]


# ---- affine
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., n_in) and (n_out, n_in) to (..., n_out)."""
    input, weight = as_tensor("linear", input), as_tensor("linear", weight)
    if weight.data.ndim != 2 or input.data.shape[-1:] != weight.data.shape[1:]:
        raise _linear_error(input, weight)
    out = matmul(input, transpose(weight, 0, 1))
    return out if bias is None else out + bias


def _linear_error(input: Tensor, weight: Tensor) -> ShapeError:
    if weight.ndim != 2:
        return ShapeError(f"linear: the weight must be (n_out, n_in), got shape {weight.shape}")
    size = input.shape[-1] if input.ndim else "nothing"
    n_in = weight.shape[1]
    fits = input.ndim > 1 and _product(input.shape[1:]) == n_in
    return ShapeError(
        f"linear: input {input.shape} ends in {size}, but the weight {weight.shape} = "
        f"(n_out, n_in) takes {n_in}",
        "flatten the input first: x.flatten(1), or nn.Flatten()" if fits else
        f"the last size of the input must be {n_in}")


def _product(sizes: Any) -> Any:
    total = 1
    for n in sizes:
        total = total * n
    return total


# ---- windows
def check_groups(owner: str, groups: int) -> None:
    """ArgumentError unless `groups` is 1."""
    if groups != 1:
        raise ArgumentError(f"{owner}: groups={groups} is not built yet", "use groups=1")


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The cross-correlation of (n, c, h, w) or (c, h, w) with (f, c, kh, kw): (n, f, h', w')."""
    check_groups("conv2d", groups)
    x, w = _batched("conv2d", input), weight
    _check_channels(input, x, w)
    if x.dtype != w.dtype:
        common = dtypes.promote(x.dtype, w.dtype)
        x, w = astype(x, common), astype(w, common)
    stride, dilation = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    out = conv.conv(x, w, stride, dilation, _padding(padding, w, stride, dilation))
    if bias is not None:
        out = out + reshape(bias, (1, -1, 1, 1))
    return out if input.ndim == 4 else reshape(out, out.shape[1:])


def _check_channels(input: Tensor, x: Tensor, w: Tensor) -> None:
    if w.ndim != 4:
        raise ShapeError(f"conv2d: the weight must be (out, in, kh, kw), got shape {w.shape}")
    if x.shape[1] != w.shape[1]:
        last = input.shape[-1] == w.shape[1]
        raise ShapeError(
            f"conv2d: input {input.shape} has {x.shape[1]} channels in axis {input.ndim - 3}, but "
            f"the weight {w.shape} = (out, in, kh, kw) takes {w.shape[1]}",
            "the channels look to be last: x.permute_dims((0, 3, 1, 2))"
            if last and input.ndim == 4 else f"the input must be (n, {w.shape[1]}, h, w)")


def _batched(owner: str, x: Tensor) -> Tensor:
    """(n, c, h, w) as it is, (c, h, w) with an n of 1; else a ShapeError."""
    if as_tensor(owner, x).ndim not in (3, 4):
        raise ShapeError(f"{owner}: takes (n, c, h, w) or (c, h, w), got shape {x.shape}",
                         "add an axis of channels: x[:, None]" if x.ndim == 2 else "")
    return x if x.ndim == 4 else expand_dims(x, 0)


def _padding(padding: Any, w: Tensor, stride: Any, dilation: Any) -> tuple[int, ...]:
    if not isinstance(padding, str):
        return pair("conv2d", "padding", padding)
    if check_choice("conv2d", "padding", padding, ("valid", "same")) == "valid":
        return 0, 0
    both = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    if tuple(stride) != (1, 1) or any(n % 2 for n in both):
        raise ArgumentError(f"conv2d: padding='same' with kernel {w.shape[2:]}, stride {stride} "
                            "would need more padding on one side, which is not built yet",
                            "use odd kernel sizes and stride 1")
    return tuple(n // 2 for n in both)


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
    x = _batched("max_pool2d", input)
    out = conv.max_pool(x, kernel, stride, pair("max_pool2d", "dilation", dilation), around)
    return out if input.ndim == 4 else reshape(out, out.shape[1:])


# ---- activations
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), of the shape of `input`; with `inplace` the input itself is changed."""
    out = pointwise.relu(input)
    return replace(input, out) if inplace else out


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input)), of the shape of `input`."""
    return pointwise.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, of the shape of `input`."""
    return pointwise.tanh(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of it ("tanh": an approximation)."""
    check_choice("gelu", "approximate", approximate, ("none", "tanh"))
    return activation.gelu(input, approximate)


def silu(input: Tensor) -> Tensor:
    """input * sigmoid(input), of the shape of `input`."""
    return activation.silu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    return activation.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return activation.elu(input, alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; `input` itself where beta * input is above `threshold`."""
    scaled = input if beta == 1 else input * beta
    out = activation.softplus(scaled)
    out = out if beta == 1 else out / beta
    # Above 20 a float32 softplus equals its argument anyway, so the choice need not be made.
    return out if threshold >= 20 else where(scaled > threshold, input, out)


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(input) divided by its sum along `dim`, of the shape of `input`."""
    return _softmax.softmax(_in(input, dtype), _need_dim("softmax", dim, input))


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax along `dim`, of the shape of `input`."""
    return _softmax.log_softmax(_in(input, dtype), _need_dim("log_softmax", dim, input))


def _in(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else astype(input, dtype)


def _need_dim(name: str, dim: int | None, input: Tensor) -> int:
    if dim is None:
        raise ShapeError(f"{name}: along which axis of shape {input.shape}?",
                         "pass dim; for (n, classes) it is dim=1")
    return dim


# ---- the rest
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`input` with elements set to 0 with probability p and the others divided by 1 - p.

    `input` itself where not `training` or p is 0.
    """
    if not training or check_fraction("dropout", "p", p) == 0:
        return input
    out = input * 0.0 if p == 1 else _dropped(input, p)
    return replace(input, out) if inplace else out


def _dropped(input: Tensor, p: float) -> Tensor:
    keep = greater_equal(random.rand(input.shape), p)
    return input * (astype(keep, input.dtype) * (1.0 / (1.0 - p)))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 of shape (*tensor.shape, num_classes), 1 where the last index is the tensor's value.

    num_classes -1: the largest value plus one. Values outside give a row of zeros.
    """
    if tensor.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: takes class numbers, integers, not {tensor.dtype.name}",
                         "cast them: x.astype(fw.int64)")
    count = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    shape = (*tensor.shape, count)
    hit = equal(iota(shape, -1, tensor.dtype), broadcast_to(expand_dims(tensor, -1), shape))
    return astype(hit, dtypes.int64)
