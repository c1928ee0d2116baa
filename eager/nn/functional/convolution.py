"""Convolutions over (n, channels, *space), or over one sample (channels, *space)."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice, check_whole, names_itself, per_axis
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.elementwise.casting import lowered
from ...ops.layers import conv
from ...ops.shape.view import permute_dims, reshape
from .inputs import like_input, with_samples

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d"]


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, l) with (f, c / groups, k): (n, f, l').

    l' = (l + 2 padding - dilation * (k - 1) - 1) // stride + 1.

    Args:
        input: (n, c, l), or (c, l) for one sample.
        weight: f filters (f, c / groups, k), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between windows, in elements: a number. Default 1.
        padding: zeros added on both sides of each axis: a number; "same" for a result as
            large as the input; or "valid" for 0. Default 0.
        dilation: the distance between the elements of a window: a number. Default 1.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide f, or no window fits.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small, or `padding` is "same" with a stride above 1.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.tensor([[[1.0, 2.0, 3.0, 4.0]]]), fw.tensor([[[1.0, -1.0]]])
        >>> fw.nn.functional.conv1d(x, weight)
        tensor([[[-1., -1., -1.]]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, h, w) with (f, c / groups, kh, kw): (n, f, h', w').

    Each size follows the rule of `conv1d`.

    Args:
        input: (n, c, h, w), or (c, h, w) for one sample.
        weight: f filters (f, c / groups, kh, kw), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between windows, in elements: one number or 2. Default 1.
        padding: zeros added on both sides of each axis: one number or 2; "same" for a result as
            large as the input; or "valid" for 0. Default 0.
        dilation: the distance between the elements of a window: one number or 2. Default 1.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide f, or no window fits.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small, or `padding` is "same" with a stride above 1.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.zeros((8, 3, 32, 32)), fw.zeros((16, 3, 5, 5))
        >>> fw.nn.functional.conv2d(x, weight, stride=2, padding=2).shape
        (8, 16, 16, 16)
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, d, h, w) with (f, c / groups, kd, kh, kw): (n, f, d', h', w').

    Each size follows the rule of `conv1d`.

    Args:
        input: (n, c, d, h, w), or (c, d, h, w) for one sample.
        weight: f filters (f, c / groups, kd, kh, kw), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between windows, in elements: one number or 3. Default 1.
        padding: zeros added on both sides of each axis: one number or 3; "same" for a result as
            large as the input; or "valid" for 0. Default 0.
        dilation: the distance between the elements of a window: one number or 3. Default 1.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide f, or no window fits.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small, or `padding` is "same" with a stride above 1.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.zeros((8, 4, 6, 6, 6)), fw.zeros((10, 2, 3, 3, 3))
        >>> fw.nn.functional.conv3d(x, weight, groups=2).shape
        (8, 10, 4, 4, 4)
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """Transposed convolution: (n, c, l), (c, f / groups, k) to (n, f, l').

    It is the gradient of `conv1d` with respect to its input: each element times the weight is added
    to the result, `stride` apart.
    l' = (l - 1) * stride - 2 padding + dilation * (k - 1) + output_padding + 1.

    Args:
        input: (n, c, l), or (c, l) for one sample.
        weight: (c, f / groups, k), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between neighbours in the result: a number. Default 1.
        padding: elements cut off on both sides of each axis: a number. Default 0.
        output_padding: elements added at the end of each axis, less than the stride or the
            dilation: a number. Default 0.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.
        dilation: the distance between the elements of the weight: a number. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide c, or the result would be empty.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small or `output_padding` too large.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.tensor([[[1.0, 2.0]]]), fw.tensor([[[1.0, 10.0, 100.0]]])
        >>> fw.nn.functional.conv_transpose1d(x, weight, stride=2)
        tensor([[[  1.,  10., 102.,  20., 200.]]])
    """
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """Transposed convolution: (n, c, h, w), (c, f / groups, kh, kw) to (n, f, h', w').

    It is the gradient of `conv2d` with respect to its input: each element times the weight is added
    to the result, `stride` apart.
    Each size follows the rule of `conv_transpose1d`.

    Args:
        input: (n, c, h, w), or (c, h, w) for one sample.
        weight: (c, f / groups, kh, kw), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between neighbours in the result: one number or 2. Default 1.
        padding: elements cut off on both sides of each axis: one number or 2. Default 0.
        output_padding: elements added at the end of each axis, less than the stride or the
            dilation: one number or 2. Default 0.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.
        dilation: the distance between the elements of the weight: one number or 2. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide c, or the result would be empty.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small or `output_padding` too large.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.zeros((8, 16, 8, 8)), fw.zeros((16, 3, 3, 3))
        >>> fw.nn.functional.conv_transpose2d(x, weight, stride=2, output_padding=1).shape
        (8, 3, 18, 18)
    """
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """Transposed convolution: (n, c, d, h, w), (c, f / groups, kd, kh, kw) to (n, f, d', h', w').

    It is the gradient of `conv3d` with respect to its input: each element times the weight is added
    to the result, `stride` apart.
    Each size follows the rule of `conv_transpose1d`.

    Args:
        input: (n, c, d, h, w), or (c, d, h, w) for one sample.
        weight: (c, f / groups, kd, kh, kw), of the dtype of `input`.
        bias: (f,), or None for no bias. Default None.
        stride: the distance between neighbours in the result: one number or 3. Default 1.
        padding: elements cut off on both sides of each axis: one number or 3. Default 0.
        output_padding: elements added at the end of each axis, less than the stride or the
            dilation: one number or 3. Default 0.
        groups: channels and filters are split in so many groups, each convolved alone. Default 1.
        dilation: the distance between the elements of the weight: one number or 3. Default 1.

    Raises:
        ShapeError: shapes do not fit, `groups` does not divide c, or the result would be empty.
        DTypeError: `input`, `weight` and `bias` differ in dtype.
        ArgumentError: a number is too small or `output_padding` too large.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.zeros((8, 4, 3, 3, 3)), fw.zeros((4, 2, 2, 2, 2))
        >>> fw.nn.functional.conv_transpose3d(x, weight, stride=2).shape
        (8, 2, 6, 6, 6)
    """
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@names_itself
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, c) with (k, c, f): (time', batch, f).

    Args:
        input: (time, batch, c).
        weight: (k, c, f), of the dtype of `input`.
        bias: (f,).
        pad: zeros added before and after the time axis. Default 0.

    Raises:
        ShapeError: shapes do not fit.
        DTypeError: `input`, `weight` and `bias` differ in dtype.

    Example:
        >>> import fusewire as fw
        >>> x, weight, bias = fw.zeros((5, 2, 3)), fw.zeros((3, 3, 4)), fw.zeros(4)
        >>> fw.nn.functional.conv_tbc(x, weight, bias, pad=1).shape
        (5, 2, 4)
    """
    out = conv1d(permute_dims(input, (1, 2, 0)), permute_dims(weight, (2, 1, 0)), bias, padding=pad)
    return permute_dims(out, (2, 0, 1))


@lowered
def _conv(d: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any,
          dilation: Any, groups: int) -> Tensor:
    owner = f"conv{d}d"
    x = _checked(owner, d, input, weight, "(out, in / groups, *kernel)")
    _check_groups(owner, groups, weight)
    _check_channels(owner, input, x.shape[1], weight, weight.shape[1] * groups, groups)
    _check_bias(owner, bias, weight, weight.shape[0])
    stride, dilation = _steps(owner, d, stride=stride, dilation=dilation)
    pads = _pads(owner, padding, weight.shape[2:], stride, dilation)
    return _with_bias(conv.conv(x, weight, stride, dilation, pads, groups), bias, input)


@lowered
def _transpose(d: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any,
               output_padding: Any, groups: int, dilation: Any) -> Tensor:
    owner = f"conv_transpose{d}d"
    x = _checked(owner, d, input, weight, "(in, out / groups, *kernel)")
    _check_groups(owner, groups, weight)
    _check_channels(owner, input, x.shape[1], weight, weight.shape[0], groups)
    _check_bias(owner, bias, weight, weight.shape[1] * groups)
    stride, dilation = _steps(owner, d, stride=stride, dilation=dilation)
    more = per_axis(owner, "output_padding", output_padding, d)
    if any(not 0 <= m < max(s, r) for m, s, r in zip(more, stride, dilation)):
        raise ArgumentError(f"{owner}: output_padding {more} must be less than the stride {stride} "
                            f"or the dilation {dilation}",
                            "it only chooses among sizes that a convolution makes the same")
    out = conv.conv_transpose(x, weight, stride, dilation, _numbers(owner, padding, d), more,
                              groups)
    return _with_bias(out, bias, input)


def _with_bias(out: Tensor, bias: Tensor | None, input: Tensor) -> Tensor:
    """`out` plus a bias for each channel, without the axis of samples where `input` has none."""
    if bias is not None:
        out = out + reshape(bias, (1, -1, *[1] * (out.ndim - 2)))
    return like_input(out, input)


# ---- arguments
def _steps(owner: str, d: int, **arguments: Any) -> list[tuple[int, ...]]:
    """Each argument as `d` numbers, all at least 1."""
    return [per_axis(owner, name, value, d, 1) for name, value in arguments.items()]


def _numbers(owner: str, padding: Any, d: int) -> tuple[int, ...]:
    if isinstance(padding, str):
        raise ArgumentError(f"{owner}: padding is a number, or one for each axis, got {padding!r}")
    return per_axis(owner, "padding", padding, d, 0)


def _pads(owner: str, padding: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    """The numbers of elements to add before and after each axis."""
    if not isinstance(padding, str):
        return _numbers(owner, padding, len(kernel))
    check_choice(owner, "padding", padding, ("valid", "same"))
    return same_pads(owner, kernel, stride, dilation) if padding == "same" else (0,) * len(kernel)


def same_pads(owner: str, kernel: Any, stride: Any, dilation: Any) -> list[tuple[int, int]]:
    """The padding for a result as large as the input; an odd element goes to the end."""
    if set(stride) != {1}:
        raise ArgumentError(f"{owner}: padding='same' with stride {tuple(stride)}",
                            "it is for stride 1: give numbers, as in padding=1")
    both = [r * (k - 1) for r, k in zip(dilation, kernel)]
    return [(n // 2, n - n // 2) for n in both]


def _checked(owner: str, d: int, input: Tensor, weight: Tensor, layout: str) -> Tensor:
    """`input` with an axis of samples, after checks of shapes and dtypes."""
    x, w = as_tensor(owner, input), as_tensor(owner, weight)
    if w.ndim != d + 2:
        raise ShapeError(f"{owner}: the weight must be {layout} with {d + 2} axes, got shape "
                         f"{w.shape}")
    batch = with_samples(owner, x, d)
    if x.dtype != w.dtype:
        raise DTypeError(f"{owner}: the input is {x.dtype.name}, the weight {w.dtype.name}",
                         f"cast one of them: x.astype(fw.{w.dtype.name})")
    return batch


def _check_groups(owner: str, groups: int, weight: Tensor) -> None:
    check_whole(owner, "groups", groups, 1)
    if weight.shape[0] % groups:
        raise ShapeError(f"{owner}: {groups} groups do not divide the {weight.shape[0]} channels "
                         f"in axis 0 of the weight {weight.shape}",
                         "groups must divide the channels of input and output")


def _check_channels(owner: str, input: Tensor, channels: Any, weight: Tensor, expected: Any,
                    groups: int) -> None:
    if channels == expected:
        return
    axis = 1 if input.ndim == weight.ndim else 0
    raise ShapeError(
        f"{owner}: input {input.shape} has {channels} channels in axis {axis}, but the weight "
        f"{weight.shape} with groups={groups} takes {expected}",
        _channel_hint(owner, input, channels, weight, expected))


def _channel_hint(owner: str, input: Tensor, channels: Any, weight: Tensor, expected: Any) -> str:
    n, d = input.ndim, weight.ndim - 2
    if input.shape[-1] == expected:
        axes = (*range(n - d - 1), n - 1, *range(n - d - 1, n - 1))
        return f"the channels look to be last: x.permute_dims({axes})"
    if n == d + 1 and expected == 1:
        return "the axis of channels looks to be missing: x[:, None]"
    if n == d + 1 and input.shape[1] == expected:
        return f"an axis between looks to be missing: the input is (n, {expected}, *space)"
    groups = channels // weight.shape[1] if weight.shape[1] else 0
    if "transpose" not in owner and groups and groups * weight.shape[1] == channels \
            and weight.shape[0] % groups == 0:
        return f"groups={groups} would fit these shapes"
    return f"the input must be (n, {expected}, *space)"


def _check_bias(owner: str, bias: Tensor | None, weight: Tensor, filters: Any) -> None:
    if bias is None:
        return
    if bias.shape != (filters,):
        raise ShapeError(f"{owner}: the bias must be ({filters},) as the weight {weight.shape} has "
                         f"{filters} filters, got shape {bias.shape}")
    if bias.dtype != weight.dtype:
        raise DTypeError(f"{owner}: the bias is {bias.dtype.name}, the weight {weight.dtype.name}",
                         f"cast it: bias.astype(fw.{weight.dtype.name})")
