"""Convolutions over (n, channels, *space), or one example (channels, *space)."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least, check_choice, per_axis
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.elementwise.casting import lowered
from ...ops.layers import conv
from ...ops.shape.view import permute_dims, reshape
from .inputs import as_given, with_samples

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d"]


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The cross-correlation of (n, c, l) with (f, c / groups, k): (n, f, l').

    padding: zeros added at both ends, or "same" for as many results as elements, or "valid" for 0.

    >>> import fusewire as fw
    >>> x, w = fw.tensor([[[1.0, 2.0, 3.0, 4.0]]]), fw.tensor([[[1.0, -1.0]]])
    >>> fw.nn.functional.conv1d(x, w)
    tensor([[[-1., -1., -1.]]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The cross-correlation of (n, c, h, w) with (f, c / groups, kh, kw): (n, f, h', w')."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The cross-correlation of (n, c, d, h, w) with (f, c / groups, kd, kh, kw), over d, h, w."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """What conv1d's gradient is by its input: (n, f, l') of (n, c, l) and (c, f / groups, k).

    Every element is multiplied with the weight and added to the result, `stride` apart. padding:
    elements cut off at both ends; output_padding: elements more at the end.

    >>> import fusewire as fw
    >>> x, w = fw.tensor([[[1.0, 2.0]]]), fw.tensor([[[1.0, 10.0, 100.0]]])
    >>> fw.nn.functional.conv_transpose1d(x, w, stride=2)
    tensor([[[  1.,  10., 102.,  20., 200.]]])
    """
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """What conv2d's gradient is by its input: (n, f, h', w') of (n, c, h, w) and (c, f / groups,
    kh, kw)."""
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """What conv3d's gradient is by its input: (n, f, d', h', w') of (n, c, d, h, w) and (c,
    f / groups, kd, kh, kw)."""
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, channels) with (k, channels, filters): (time', batch, filters)."""
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
    """`out` and a bias for each channel, without the first axis where `input` had none."""
    if bias is not None:
        out = out + reshape(bias, (1, -1, *[1] * (out.ndim - 2)))
    return as_given(out, input)


# ---- arguments
def _steps(owner: str, d: int, **given: Any) -> list[tuple[int, ...]]:
    """Each of the arguments as `d` numbers, all at least 1."""
    found = [per_axis(owner, name, value, d) for name, value in given.items()]
    for name, values in zip(given, found):
        check_at_least(owner, name, min(values), 1)
    return found


def _numbers(owner: str, padding: Any, d: int) -> tuple[int, ...]:
    if isinstance(padding, str):
        raise ArgumentError(f"{owner}: padding is a number, or one for each axis, got {padding!r}")
    found = per_axis(owner, "padding", padding, d)
    check_at_least(owner, "padding", min(found), 0)
    return found


def _pads(owner: str, padding: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    """What to add before and after each axis."""
    if not isinstance(padding, str):
        return _numbers(owner, padding, len(kernel))
    check_choice(owner, "padding", padding, ("valid", "same"))
    return same_pads(owner, kernel, stride, dilation) if padding == "same" else (0,) * len(kernel)


def same_pads(owner: str, kernel: Any, stride: Any, dilation: Any) -> list[tuple[int, int]]:
    """The padding for as many results as elements; the odd one goes to the end."""
    if set(stride) != {1}:
        raise ArgumentError(f"{owner}: padding='same' with stride {tuple(stride)}",
                            "it is for stride 1: give numbers, as in padding=1")
    both = [r * (k - 1) for r, k in zip(dilation, kernel)]
    return [(n // 2, n - n // 2) for n in both]


def _checked(owner: str, d: int, input: Tensor, weight: Tensor, layout: str) -> Tensor:
    """`input` as a batch, once shapes and dtypes may fit."""
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
    check_at_least(owner, "groups", groups, 1)
    if weight.shape[0] % groups:
        raise ShapeError(f"{owner}: {groups} groups do not divide the {weight.shape[0]} channels "
                         f"in axis 0 of the weight {weight.shape}",
                         "groups must divide the channels of input and output")


def _check_channels(owner: str, input: Tensor, given: Any, weight: Tensor, wanted: Any,
                    groups: int) -> None:
    if given == wanted:
        return
    axis = 1 if input.ndim == weight.ndim else 0
    raise ShapeError(
        f"{owner}: input {input.shape} has {given} channels in axis {axis}, but the weight "
        f"{weight.shape} with groups={groups} takes {wanted}",
        _channel_hint(owner, input, given, weight, wanted))


def _channel_hint(owner: str, input: Tensor, given: Any, weight: Tensor, wanted: Any) -> str:
    n, d = input.ndim, weight.ndim - 2
    if input.shape[-1] == wanted:
        order = (*range(n - d - 1), n - 1, *range(n - d - 1, n - 1))
        return f"the channels look to be last: x.permute_dims({order})"
    if n == d + 1 and wanted == 1:
        return "the axis of channels looks to be missing: x[:, None]"
    if n == d + 1 and input.shape[1] == wanted:
        return f"an axis between looks to be missing: the input is (n, {wanted}, *space)"
    if "transpose" not in owner and given % weight.shape[1] == 0:
        return f"groups={given // weight.shape[1]} would fit these shapes"
    return f"the input must be (n, {wanted}, *space)"


def _check_bias(owner: str, bias: Tensor | None, weight: Tensor, filters: Any) -> None:
    if bias is None:
        return
    if bias.shape != (filters,):
        raise ShapeError(f"{owner}: the bias must be ({filters},) as the weight {weight.shape} has "
                         f"{filters} filters, got shape {bias.shape}")
    if bias.dtype != weight.dtype:
        raise DTypeError(f"{owner}: the bias is {bias.dtype.name}, the weight {weight.dtype.name}",
                         f"cast it: bias.astype(fw.{weight.dtype.name})")
