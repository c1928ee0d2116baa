"""Normalization: values brought to a common scale, over the batch or within each sample."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least
from ...arrays import dtypes
from ...arrays.shapes import listed, product
from ...core.dispatch import replace
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...linalg.norm import vector_norm
from ...ops.elementwise.pointwise import cast, maximum, rsqrt
from ...ops.layers import normalize as ops
from ...ops.layers.pool import window_sums
from ...ops.reduction.reduce import floating, mean, widened
from ...ops.shape.view import reshape
from ...tensor_methods.methods import update

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm",
]


def _affine(out: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: Any, shape: Any = None
            ) -> Tensor:
    """out * weight + bias in `dtype`; `shape`: how weight and bias lie along the axes of out."""
    for value, multiply in ((weight, True), (bias, False)):
        if value is not None:
            value = cast(value if shape is None else reshape(value, shape), out.dtype)
            out = out * value if multiply else out + value
    return cast(out, dtype)


def _scaled(x: Tensor, axes: tuple[int, ...], eps: float, weight: Tensor | None,
            bias: Tensor | None, dtype: Any, shape: Any, centred: bool = True) -> Tensor:
    """`x` normalized along `axes`, times weight, plus bias, which lie along x as `shape` says."""
    if weight is not None and x.dtype == dtype and ops.is_one_op(x, weight, bias):
        return ops.normalize_affine(x, weight, bias, axes, eps, centred, shape)
    return _affine(ops.normalize(x, axes, eps, centred), weight, bias, dtype, shape)


def _along_channels(x: Tensor) -> tuple[Any, ...]:
    """The shape in which a value per channel goes along axis 1."""
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


# ---- over the last axes
def _normalized_axes(name: str, x: Tensor, normalized_shape: Any, *values: Tensor | None
                     ) -> tuple[int, ...]:
    """The axes of `x` that `normalized_shape` names, or a ShapeError."""
    sizes = listed(name, normalized_shape)
    own = x.shape[x.ndim - len(sizes):] if len(sizes) <= x.ndim else ()
    if not sizes or own != sizes:
        raise _wrong_shape(name, x, sizes)
    for value in values:
        if value is not None and value.shape != sizes:
            raise ShapeError(f"{name}: weight and bias must have the normalized_shape {sizes}, got "
                             f"{value.shape}")
    return tuple(range(x.ndim - len(sizes), x.ndim))


def _wrong_shape(name: str, x: Tensor, sizes: Any) -> ShapeError:
    if not sizes or len(sizes) > x.ndim:
        return ShapeError(f"{name}: normalized_shape {sizes} must name 1 to {x.ndim} of the last "
                          f"axes of the input {x.shape}")
    first = x.ndim - len(sizes)
    axis = next(i for i, n in enumerate(sizes, first) if x.shape[i] != n)
    moved = sizes[axis - first] in x.shape and len(sizes) == 1
    return ShapeError(
        f"{name}: normalized_shape {sizes} does not fit the input {x.shape}: axis {axis} is "
        f"{x.shape[axis]}, not {sizes[axis - first]}",
        "the normalized axes must be the last ones: move them there with permute_dims" if moved
        else "normalized_shape is the sizes of the last axes of the input")


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:
    """`input` with mean 0 and variance 1 along its last axes, times weight, plus bias.

    Ba, Kiros and Hinton, arXiv 1607.06450. `normalized_shape`, also that of weight and bias, is the
    sizes of these axes.

    >>> import fusewire as fw
    >>> fw.nn.functional.layer_norm(fw.tensor([[1.0, 3.0]]), (2,), eps=0.0)
    tensor([[-1.,  1.]])
    """
    x = floating("layer_norm", input, "f")
    axes = _normalized_axes("layer_norm", x, normalized_shape, weight, bias)
    return _scaled(widened(x), axes, eps, weight, bias, x.dtype, x.shape[axes[0]:])


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`input` divided by its root mean square along its last axes, times weight.

    Zhang and Sennrich, arXiv 1910.07467. eps=None is the precision of the dtype that is computed
    in.

    >>> import fusewire as fw
    >>> fw.nn.functional.rms_norm(fw.tensor([[3.0, -3.0]]), (2,))
    tensor([[ 1., -1.]])
    """
    x = floating("rms_norm", input, "f")
    axes = _normalized_axes("rms_norm", x, normalized_shape, weight)
    wide = widened(x)
    least = dtypes.finfo(wide.dtype).eps if eps is None else eps
    return _scaled(wide, axes, least, weight, None, x.dtype, x.shape[axes[0]:], centred=False)


# ---- over samples, or groups of channels
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(n, c, *space) with mean 0 and variance 1 within each of `num_groups` groups of channels.

    Wu and He, arXiv 1803.08494. weight and bias (c,) are applied afterwards.
    """
    x = floating("group_norm", input, "f")
    if x.ndim < 2:
        raise ShapeError(f"group_norm: takes (n, channels, ...), got shape {x.shape}")
    n, channels, *space = x.shape
    check_at_least("group_norm", "num_groups", num_groups, 1)
    if channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels of the input {x.shape} (axis 1) do not "
                         f"make {num_groups} groups", "num_groups must divide the channels")
    size = channels // num_groups * product(space)
    if size == 1 and n == 1:
        raise _one_value("group_norm", x, "group")
    _check_channels("group_norm", x, weight=weight, bias=bias)
    out = ops.normalize(reshape(widened(x), (n, num_groups, size)), (2,), eps)
    return _affine(reshape(out, x.shape), weight, bias, x.dtype, _along_channels(x))


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:
    """(n, c, *space) with mean 0 and variance 1 for each channel of each sample.

    Ulyanov, Vedaldi and Lempitsky, arXiv 1607.08022. Running statistics follow the means over the
    samples; without `use_input_stats` they take the place of the statistics of the input.
    """
    x = floating("instance_norm", input, "f")
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: takes (n, channels, *space), got shape {x.shape}",
                         "one sample needs an axis in front: x[None]")
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_channels("instance_norm", x, weight=weight, bias=bias, running_mean=running_mean,
                    running_var=running_var)
    axes = tuple(range(2, x.ndim))
    if product(x.shape[2:]) == 1:
        raise _one_value("instance_norm", x, "channel of a sample")
    wide = widened(x)
    _follow(running_mean, running_var, wide, axes, momentum)
    return _scaled(wide, axes, eps, weight, bias, x.dtype, _along_channels(x))


# ---- over the batch
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:
    """(n, c, *space) with mean 0 and variance 1 for each channel, over all samples.

    Ioffe and Szegedy, arXiv 1502.03167. In `training` with the statistics of the batch, which the
    running ones, if given, follow in place by a share of `momentum`; else with the running ones.
    """
    x = floating("batch_norm", input, "f")
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: takes (n, channels, ...), got shape {x.shape}")
    _check_channels("batch_norm", x, weight=weight, bias=bias, running_mean=running_mean,
                    running_var=running_var)
    along, wide = _along_channels(x), widened(x)
    if not training:
        return _by_given(wide, running_mean, running_var, weight, bias, eps, x.dtype)
    axes = (0, *range(2, x.ndim))
    if x.shape[0] == 1 and product(x.shape[2:]) == 1:
        raise _one_value("batch_norm", x, "channel")
    _follow(running_mean, running_var, wide, axes, momentum)
    return _scaled(wide, axes, eps, weight, bias, x.dtype, along)


def _by_given(x: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None,
              bias: Tensor | None, eps: float, dtype: Any) -> Tensor:
    """Normalized with statistics per channel that are known: one product and one sum."""
    if mean is None or var is None:
        raise ArgumentError("batch_norm: needs running_mean and running_var where it is not "
                            "training", "pass them, or training=True")
    scale = rsqrt(cast(var, x.dtype) + eps)
    if weight is not None:
        scale = scale * cast(weight, x.dtype)
    offset = -cast(mean, x.dtype) * scale
    if bias is not None:
        offset = offset + cast(bias, x.dtype)
    return _affine(x, scale, offset, dtype, _along_channels(x))


@no_grad
def _follow(running_mean: Tensor | None, running_var: Tensor | None, x: Tensor,
            axes: tuple[int, ...], momentum: Any) -> None:
    """Moves the running statistics by a share of `momentum` to those of `x`, in place."""
    if running_mean is None and running_var is None:
        return
    found = ops.moments(x.detach(), axes)
    found = found if 0 in axes else mean(found, 1)
    for old, new in zip((running_mean, running_var), found):  # type: ignore[call-overload]
        if old is not None:
            moved = old * (1 - momentum) + cast(new, old.dtype) * momentum
            replace(old, cast(moved, old.dtype))  # a momentum in a tensor may be wider


def _check_channels(name: str, x: Tensor, **values: Tensor | None) -> None:
    """ShapeError unless all of `values` have an element for each channel."""
    for what, value in values.items():
        if value is not None and value.shape != (x.shape[1],):
            last = value.shape == x.shape[-1:]
            raise ShapeError(
                f"{name}: {what} {value.shape} does not fit the input {x.shape}, which has "
                f"{x.shape[1]} channels in axis 1",
                "the channels look to be last: move them with x.moveaxis(-1, 1)" if last else
                f"{what} holds a value for each channel")


def _one_value(name: str, x: Tensor, of: str) -> ShapeError:
    return ShapeError(
        f"{name}: the input {x.shape} has one value per {of}, whose variance would be 0",
        "use a larger batch (drop_last=True in a DataLoader leaves out a last one of a single "
        "sample), or model.eval() where nothing is trained")


# ---- over neighbouring channels, or along one axis
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """(n, c, *space), each element / (k + alpha * mean of squares of `size` channels) ** beta.

    Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
    networks" (2012). The channels are those around it; those that are not there count as 0.
    """
    x = floating("local_response_norm", input, "f")
    if x.ndim < 3:
        raise ShapeError(f"local_response_norm: takes (n, channels, *space), got shape {x.shape}")
    check_at_least("local_response_norm", "size", size, 1)
    return x / (sums_of_squares(x, size, size // 2) * (alpha / size) + k) ** beta


def sums_of_squares(x: Tensor, size: int, before: int) -> Tensor:
    """For each element of (n, c, *space) the squares of `size` channels added up.

    The first of them is `before` channels before its own.
    """
    n, channels, *space = x.shape
    planes = (channels, product(space))
    squares = reshape(x * x, (n, 1, *planes))
    return reshape(window_sums(squares, (size, 1), planes, (1, 1), (before, 0)), x.shape)


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by eps where that is larger.

    >>> import fusewire as fw
    >>> fw.nn.functional.normalize(fw.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    x = floating("normalize", input)
    wide = widened(x)
    found = cast(wide / maximum(vector_norm(wide, dim, True, p), eps), x.dtype)
    return found if out is None else update(out, found)
