"""Convolutions over (n, channels, *space)."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ArgumentError, ShapeError
from ...ops import conv
from ...ops.pointwise import astype
from ...ops.view import expand_dims, reshape
from ...tensor import Tensor, as_tensor
from ...utils.arguments import check_choice, pair

__all__ = ["conv2d"]


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
    x, w = batched("conv2d", input), weight
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


def batched(owner: str, x: Tensor) -> Tensor:
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
