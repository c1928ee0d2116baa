"""Functions of image-like tensors (n, channels, *space), in PyTorch's signatures."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops import padding, window
from ...ops.contract import matmul
from ...ops.create import arange
from ...ops.declare import cast
from ...ops.join import stack
from ...ops.pointwise import abs as absolute
from ...ops.pointwise import clip, floor, floor_divide, logical_and, remainder, round, where
from ...ops.resize import resize_axis
from ...ops.view import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
    permute_dims,
    reshape,
    slice_axes,
    take,
)
from ...tensor import Tensor
from ...utils.arguments import check_choice, pair

__all__ = [
    "affine_grid", "fold", "grid_sample", "interpolate", "pad", "pixel_shuffle",
    "pixel_unshuffle", "unfold",
]


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """`input` with elements added: pad = (before, after) of the last axis, then of those before.

    Negative numbers take elements away.
    """
    given = tuple(pad)
    if len(given) % 2 or len(given) > 2 * input.ndim:
        raise ShapeError(f"pad: {given} are not pairs for the last axes of shape {input.shape}",
                         "give (before, after) of the last axis first: (left, right, top, bottom)")
    check_choice("pad", "mode", mode, ("constant", "reflect", "replicate", "circular"))
    widths = [(0, 0)] * (input.ndim - len(given) // 2)
    widths += [(given[i], given[i + 1]) for i in range(len(given) - 2, -1, -2)]
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    out = padding.pad(input, added, mode, 0 if value is None else value)
    if added == widths:
        return out
    size = tuple(n + min(a, 0) + min(b, 0) for n, (a, b) in zip(out.shape, widths))
    if min(size) < 0:
        raise ShapeError(f"pad: {given} takes more away than shape {input.shape} has")
    return slice_axes(out, tuple(-min(a, 0) for a, _ in widths), (1,) * out.ndim, size)


# ---- windows as columns
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
           ) -> Tensor:
    """The windows of (n, c, h, w) or (c, h, w) as columns: (n, c * kh * kw, windows)."""
    x = input if input.ndim == 4 else expand_dims(input, 0)
    if x.ndim != 4:
        raise ShapeError(f"unfold: takes (n, c, h, w) or (c, h, w), got shape {input.shape}")
    kernel, *rest = _windows("unfold", kernel_size, dilation, padding, stride)
    out = _counts("unfold", x.shape[2:], kernel, *rest)
    dilation, padding, stride = rest
    found = permute_dims(window.window(x, kernel, out, stride, dilation, padding),
                         (0, 1, 4, 5, 2, 3))
    columns = reshape(found, (x.shape[0], x.shape[1] * kernel[0] * kernel[1], out[0] * out[1]))
    return columns if input.ndim == 4 else reshape(columns, columns.shape[1:])


def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
         stride: Any = 1) -> Tensor:
    """Columns (n, c * kh * kw, windows) added up where `unfold` read them: (n, c, h, w)."""
    x = input if input.ndim == 3 else expand_dims(input, 0)
    size = pair("fold", "output_size", output_size)
    kernel, *rest = _windows("fold", kernel_size, dilation, padding, stride)
    out = _counts("fold", size, kernel, *rest)
    area = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % area or x.shape[2] != out[0] * out[1]:
        raise ShapeError(f"fold: columns {input.shape} are not (n, channels * {area}, "
                         f"{out[0] * out[1]}) as the sizes say",
                         f"an output of {size} with kernel {kernel} has {out} windows")
    apart = reshape(x, (x.shape[0], x.shape[1] // area, *kernel, *out))
    dilation, padding, stride = rest
    made = window.fold(permute_dims(apart, (0, 1, 4, 5, 2, 3)), size, kernel, stride, dilation,
                       padding, (1, 1))
    return made if input.ndim == 3 else reshape(made, made.shape[1:])


def _windows(owner: str, kernel: Any, dilation: Any, padding: Any, stride: Any
             ) -> list[tuple[Any, Any]]:
    return [pair(owner, "kernel_size", kernel), pair(owner, "dilation", dilation),
            pair(owner, "padding", padding), pair(owner, "stride", stride)]


def _counts(owner: str, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
            ) -> tuple[Any, ...]:
    return tuple(window.window_count(n, k, s, d, p, owner) for n, k, d, p, s in
                 zip(size, kernel, dilation, padding, stride, strict=True))


# ---- channels and pixels
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., c * r * r, h, w) to (..., c, h * r, w * r): channels become pixels."""
    r, (*lead, channels, h, w) = upscale_factor, input.shape
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels of shape {input.shape} are no "
                         f"multiple of {r} * {r}", f"the channels are axis {input.ndim - 3}")
    x = reshape(input, (*lead, channels // (r * r), r, r, h, w))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(x, (*lead, channels // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., c, h * r, w * r) to (..., c * r * r, h, w): what pixel_shuffle undoes."""
    r, (*lead, channels, h, w) = downscale_factor, input.shape
    if h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: height {h} and width {w} of shape {input.shape} are no "
                         f"multiples of {r}", "pad the image first")
    x = reshape(input, (*lead, channels, h // r, r, w // r, r))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(x, (*lead, channels * r * r, h // r, w // r))


# ---- other sizes
_MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,),
          "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(n, channels, *space) with another space: `size`, or the present one times `scale_factor`."""
    check_choice("interpolate", "mode", mode, tuple(_MODES))
    d = input.ndim - 2
    if d not in _MODES[mode]:
        raise ShapeError(f"interpolate: mode {mode!r} takes (n, channels, *space) with "
                         f"{' or '.join(map(str, _MODES[mode]))} axes of space, got shape "
                         f"{input.shape}", "linear, bilinear, trilinear are for 1, 2, 3 axes")
    if antialias or (align_corners is not None and not mode.endswith(("linear", "cubic"))):
        raise ArgumentError(f"interpolate: mode {mode!r} has no align_corners, and antialias is "
                            "not there", "leave them out")
    if dtypes.kind(input.dtype) != "f" and not mode.startswith("nearest"):
        raise DTypeError(f"interpolate: mode {mode!r} takes real floating point numbers, not "
                         f"{input.dtype.name}", "cast the input: x.astype(fw.float32)")
    sizes, scales = _sizes(input, size, scale_factor, bool(recompute_scale_factor))
    kind = "linear" if mode.endswith("linear") else "cubic" if mode == "bicubic" else mode
    out = input
    for axis in range(d - 1, -1, -1):
        out = resize_axis(out, axis + 2, sizes[axis], kind, bool(align_corners), scales[axis])
    return out


def _sizes(input: Tensor, size: Any, factor: Any, recompute: bool) -> tuple[Any, Any]:
    """The sizes of space, and how far apart their elements lie where that was given."""
    space = input.shape[2:]
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate: needs size or scale_factor, and not both")
    given = size if factor is None else factor
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(space)
    if len(each) != len(space):
        raise ShapeError(f"interpolate: {given!r} does not have one number for each axis of space "
                         f"{space}")
    sizes = each if factor is None else tuple(math.floor(n * f) for n, f in zip(space, each))
    if min((*sizes, *space), default=1) < 1:
        raise ShapeError(f"interpolate: from {space} to {sizes}: all sizes must be at least 1")
    exact = factor is None or recompute
    return sizes, (None,) * len(space) if exact else tuple(1.0 / f for f in each)


# ---- sampling at places
def affine_grid(theta: Tensor, size: Any, align_corners: bool = False) -> Tensor:
    """Where matrices (n, 2, 3) send the pixels of images of `size` (n, c, h, w): (n, h, w, 2)."""
    n, _, h, w = size
    if theta.shape != (n, 2, 3):
        raise ShapeError(f"affine_grid: theta must be ({n}, 2, 3) for the size {tuple(size)}, got "
                         f"{theta.shape}", "the first sizes must agree")
    y, x = (_base(count, align_corners, theta.dtype) for count in (h, w))
    across, down = broadcast_to(expand_dims(x, 0), (h, w)), broadcast_to(expand_dims(y, 1), (h, w))
    grid = stack([across, down, across * 0 + 1], axis=-1)
    return reshape(matmul(reshape(grid, (1, h * w, 3)), matrix_transpose(theta)), (n, h, w, 2))


def _base(count: int, align_corners: bool, dtype: Any) -> Tensor:
    """Places from -1 to 1: of the corners, or of the pixels' middles."""
    at = arange(count, dtype=dtype)
    if align_corners:
        return at * (2 / (count - 1)) - 1 if count > 1 else at * 0
    return (at * 2 + 1) / count - 1


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """(n, c, h, w) read at the places of `grid` (n, h', w', 2), x and y from -1 to 1."""
    check_choice("grid_sample", "mode", mode, ("bilinear", "nearest"))
    check_choice("grid_sample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    if input.ndim != 4 or grid.ndim != 4 or grid.shape[-1] != 2 or grid.shape[0] != input.shape[0]:
        raise ShapeError(f"grid_sample: takes (n, c, h, w) and (n, h', w', 2), got {input.shape} "
                         f"and {grid.shape}")
    n, c, h, w = input.shape
    x, y = (_place(grid[..., i], count, padding_mode, bool(align_corners))
            for i, count in ((0, w), (1, h)))
    rows = reshape(permute_dims(input, (0, 2, 3, 1)), (n * h * w, c))
    if mode == "nearest":
        found = _pixels(rows, (n, h, w), round(y), round(x))
        return permute_dims(found, (0, 3, 1, 2))
    left, top = floor(x), floor(y)
    right_share, low_share = x - left.detach(), y - top.detach()
    total: Any = 0
    for down, vertical in ((0, 1 - low_share), (1, low_share)):
        for across, horizontal in ((0, 1 - right_share), (1, right_share)):
            pixels = _pixels(rows, (n, h, w), top + down, left + across)
            total = total + pixels * expand_dims(vertical * horizontal, -1)
    return permute_dims(total, (0, 3, 1, 2))


def _place(at: Tensor, count: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Places from -1 to 1 as places among `count` pixels, brought inside by the padding mode."""
    place = (at + 1) * ((count - 1) / 2) if align_corners else ((at + 1) * count - 1) * 0.5
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, span = (0.0, count - 1) if align_corners else (-0.5, count)
        if span == 0:
            return place * 0
        away = absolute(place - low)
        rest = remainder(away, float(span))
        odd = remainder(floor_divide(away, float(span)), 2.0) > 0
        place = where(odd, span - rest, rest) + low
    return clip(place, 0, count - 1)


def _pixels(rows: Tensor, shape: tuple[Any, ...], y: Tensor, x: Tensor) -> Tensor:
    """The pixels at whole places (n, h', w'): (n, h', w', c), and 0 outside of the image."""
    n, h, w = shape
    inside = logical_and(logical_and(y >= 0, y <= h - 1), logical_and(x >= 0, x <= w - 1))
    row, column = (cast(where(inside, v, 0.0).detach(), dtypes.int64) for v in (y, x))
    first = reshape(arange(n), (n, 1, 1)) * (h * w)
    found = take(rows, first + row * w + column, 0)
    return where(expand_dims(inside, -1), found, 0.0)
