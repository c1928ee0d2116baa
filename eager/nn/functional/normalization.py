"""Normalization: brings values to a common scale, over the batch or within each sample."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, check_whole, names_itself
from ...arrays import dtypes
from ...arrays.shapes import listed, product
from ...core.in_place import replace
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
    """out * weight + bias in `dtype`; `shape` aligns weight and bias with the axes of `out`."""
    for value, multiply in ((weight, True), (bias, False)):
        if value is not None:
            value = cast(value if shape is None else reshape(value, shape), out.dtype)
            out = out * value if multiply else out + value
    return cast(out, dtype)


def _scaled(x: Tensor, axes: tuple[int, ...], eps: float, weight: Tensor | None,
            bias: Tensor | None, dtype: Any, shape: Any, centred: bool = True) -> Tensor:
    """`x` normalized along `axes`, times weight, plus bias; `shape` aligns both with `x`."""
    if weight is not None and x.dtype == dtype and ops.is_one_op(x, weight, bias):
        return ops.normalize_affine(x, weight, bias, axes, eps, centred, shape)
    return _affine(ops.normalize(x, axes, eps, centred), weight, bias, dtype, shape)


def _along_channels(x: Tensor) -> tuple[Any, ...]:
    """The shape that aligns a value per channel with axis 1."""
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


# ---- over the last axes
def _normalized_axes(name: str, x: Tensor, normalized_shape: Any, *values: Tensor | None
                     ) -> tuple[int, ...]:
    """The axes of `x` that `normalized_shape` names; else a ShapeError."""
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
    """`input` normalized along its last axes: (x - mean) / sqrt(variance + eps) * weight + bias.

    Ba, Kiros and Hinton, "Layer normalization", arXiv 1607.06450.

    Args:
        input: real floating point numbers.
        normalized_shape: the sizes of the last axes of `input`, or the size of the last one.
        weight: a factor for each element, of shape `normalized_shape`. Default None: 1.
        bias: a term for each element, of shape `normalized_shape`. Default None: 0.
        eps: added to the variance. Default 1e-5.

    Raises:
        ShapeError: `input` does not end in `normalized_shape`, or weight or bias differ from it.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.layer_norm(fw.tensor([[1.0, 3.0]]), (2,), eps=0.0)
        tensor([[-1.,  1.]])
    """
    check_number("layer_norm", "eps", eps)
    x = floating("layer_norm", input, "f")
    axes = _normalized_axes("layer_norm", x, normalized_shape, weight, bias)
    return _scaled(widened(x), axes, eps, weight, bias, x.dtype, x.shape[axes[0]:])


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`input` divided by its root mean square along its last axes, times weight.

    Zhang and Sennrich, "Root mean square layer normalization", arXiv 1910.07467.

    Args:
        input: real floating point numbers.
        normalized_shape: the sizes of the last axes of `input`, or the size of the last one.
        weight: a factor for each element, of shape `normalized_shape`. Default None: 1.
        eps: added to the mean square. Default None: the precision of the computation's dtype.

    Raises:
        ShapeError: `input` does not end in `normalized_shape`, or `weight` differs from it.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.rms_norm(fw.tensor([[3.0, -3.0]]), (2,))
        tensor([[ 1., -1.]])
    """
    if eps is not None:
        check_number("rms_norm", "eps", eps)
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
    """`input` with each group of channels of each sample normalized to mean 0 and variance 1.

    Wu and He, "Group normalization", arXiv 1803.08494.

    Args:
        input: real floating point numbers (n, c, *space).
        num_groups: the number of groups, which divides c.
        weight: a factor for each channel, (c,), after the normalization. Default None: 1.
        bias: a term for each channel, (c,). Default None: 0.
        eps: added to the variance. Default 1e-5.

    Raises:
        ShapeError: `num_groups` does not divide c, the shapes do not fit, or one sample has groups
            of one value.
        ArgumentError: `num_groups` is below 1.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.group_norm(fw.tensor([[[1.0, 3.0], [5.0, 9.0]]]), 2, eps=0.0)
        tensor([[[-1.,  1.],
                 [-1.,  1.]]])
    """
    check_number("group_norm", "eps", eps)
    x = floating("group_norm", input, "f")
    if x.ndim < 2:
        raise ShapeError(f"group_norm: takes (n, channels, ...), got shape {x.shape}")
    n, channels, *space = x.shape
    check_whole("group_norm", "num_groups", num_groups, 1)
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
    """`input` with each channel of each sample normalized to mean 0 and variance 1.

    Ulyanov, Vedaldi and Lempitsky, "Instance normalization", arXiv 1607.08022.

    Args:
        input: real floating point numbers (n, c, *space), with at least one axis of space.
        running_mean, running_var: running statistics of channels, (c,), which move
            towards the means over the samples, in place. Default None.
        weight: a factor for each channel, (c,), after the normalization. Default None: 1.
        bias: a term for each channel, (c,). Default None: 0.
        use_input_stats: False normalizes with the running statistics. Default True.
        momentum: the share of the new statistics in the running ones. Default 0.1.
        eps: added to the variance. Default 1e-5.

    Raises:
        ShapeError: the shapes do not fit, or a channel has one value per sample.
        ArgumentError: `use_input_stats` is False without running statistics.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.instance_norm(fw.tensor([[[1.0, 3.0]]]), eps=0.0)
        tensor([[[-1.,  1.]]])
    """
    check_number("instance_norm", "momentum", momentum)
    check_number("instance_norm", "eps", eps)
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
    """`input` with each channel normalized: (x - mean) / sqrt(variance + eps) * weight + bias.

    Ioffe and Szegedy, "Batch normalization", arXiv 1502.03167.

    Args:
        input: real floating point numbers (n, c, *space).
        running_mean, running_var: running statistics of channels, (c,), or None.
        weight: a factor for each channel, (c,), after the normalization. Default None: 1.
        bias: a term for each channel, (c,). Default None: 0.
        training: True normalizes with the statistics of the batch and moves the running ones
            towards them, in place. False (default) normalizes with the running ones.
        momentum: the share of the batch in the running statistics. Default 0.1.
        eps: added to the variance. Default 1e-5.

    Raises:
        ShapeError: the shapes do not fit, or a channel has one value in training.
        ArgumentError: running statistics are missing outside of training.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> x, mean, var = fw.tensor([[1.0], [3.0]]), fw.zeros(1), fw.ones(1)
        >>> fw.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.5, eps=0.0)
        tensor([[-1.],
                [ 1.]])
        >>> mean, var
        (tensor([1.]), tensor([1.5]))
    """
    check_number("batch_norm", "momentum", momentum)
    check_number("batch_norm", "eps", eps)
    x = floating("batch_norm", input, "f")
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: takes (n, channels, ...), got shape {x.shape}")
    _check_channels("batch_norm", x, weight=weight, bias=bias, running_mean=running_mean,
                    running_var=running_var)
    along, wide = _along_channels(x), widened(x)
    if not training:
        return _with_statistics(wide, running_mean, running_var, weight, bias, eps, x.dtype)
    axes = (0, *range(2, x.ndim))
    if x.shape[0] == 1 and product(x.shape[2:]) == 1:
        raise _one_value("batch_norm", x, "channel")
    _follow(running_mean, running_var, wide, axes, momentum)
    return _scaled(wide, axes, eps, weight, bias, x.dtype, along)


def _with_statistics(x: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None,
                     bias: Tensor | None, eps: float, dtype: Any) -> Tensor:
    """`x` normalized with the statistics of channels: one product and one sum."""
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
    """Moves the running statistics towards those of `x`, in place, by a share of `momentum`."""
    if running_mean is None and running_var is None:
        return
    moments = ops.moments(x.detach(), axes)
    moments = moments if 0 in axes else mean(moments, 1)
    for old, new in zip((running_mean, running_var), moments):  # type: ignore[call-overload]
        if old is not None:
            moved = old * (1 - momentum) + cast(new, old.dtype) * momentum
            replace(old, cast(moved, old.dtype))  # a momentum in a tensor may be wider


def _check_channels(name: str, x: Tensor, **values: Tensor | None) -> None:
    """Raises a ShapeError unless each of `values` has an element for each channel."""
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
    """input / (k + alpha * m) ** beta, where m is the mean square of channels around each element.

    Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
    networks" (2012). Channels beyond the first and the last count as 0.

    Args:
        input: real floating point numbers (n, c, *space), with at least one axis of space.
        size: the number of channels, beginning size // 2 before the element's own; at least 1.
        alpha: the factor of the mean of squares. Default 1e-4.
        beta: the exponent. Default 0.75.
        k: added to the product. Default 1.

    Raises:
        ShapeError: `input` has fewer than 3 axes.
        ArgumentError: `size` is below 1.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([[[1.0], [3.0]]])
        >>> fw.nn.functional.local_response_norm(x, size=1, alpha=1.0, beta=1.0)
        tensor([[[0.5],
                 [0.3]]])
    """
    check_number("local_response_norm", "k", k)
    check_number("local_response_norm", "beta", beta)
    check_number("local_response_norm", "alpha", alpha)
    x = floating("local_response_norm", input, "f")
    if x.ndim < 3:
        raise ShapeError(f"local_response_norm: takes (n, channels, *space), got shape {x.shape}")
    check_whole("local_response_norm", "size", size, 1)
    return x / (sums_of_squares(x, size, size // 2) * (alpha / size) + k) ** beta


def sums_of_squares(x: Tensor, size: int, before: int) -> Tensor:
    """The sum of squares of `size` channels for each element of (n, c, *space).

    The first channel is `before` channels before the element's own.
    """
    n, channels, *space = x.shape
    planes = (channels, product(space))
    squares = reshape(x * x, (n, 1, *planes))
    return reshape(window_sums(squares, (size, 1), planes, (1, 1), (before, 0)), x.shape)


@names_itself
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by `eps` if that is larger.

    Args:
        input: floating point numbers.
        p: the order of the norm. Default 2.
        dim: the axis of the vectors, or a tuple of axes. Default 1.
        eps: the least divisor. Default 1e-12.
        out: a tensor that is overwritten with the result and returned. Default None.

    Raises:
        AxisError: `input` has no axis `dim`.
        DTypeError: `input` does not hold floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.normalize(fw.tensor([[3.0, 4.0]]))
        tensor([[0.6, 0.8]])
    """
    x = floating("normalize", input)
    wide = widened(x)
    scaled = cast(wide / maximum(vector_norm(wide, dim, True, p), eps), x.dtype)
    return scaled if out is None else update(out, scaled)
