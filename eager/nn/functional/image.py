"""Functions of image-like tensors (n, channels, *space), in PyTorch's signatures."""

from __future__ import annotations

import math
from itertools import product as combinations
from typing import Any

from ...arguments import check_choice, check_number, check_whole, names_itself, per_axis
from ...arrays import dtypes
from ...arrays.shapes import listed, product, sizes_of
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.create import arange
from ...ops.declare import cast
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.clip import clip
from ...ops.elementwise.pointwise import abs as absolute
from ...ops.elementwise.pointwise import floor, floor_divide, logical_and, remainder, round, where
from ...ops.layers.resize import cubic_weights, resize_axis, scaled
from ...ops.products.contract import matmul
from ...ops.shape import padding, window
from ...ops.shape.join import stack
from ...ops.shape.take import take
from ...ops.shape.view import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
    permute_dims,
    reshape,
    slice_axes,
)
from .inputs import with_samples

__all__ = [
    "affine_grid", "channel_shuffle", "fold", "grid_sample", "interpolate",
    "native_channel_shuffle", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold",
]


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """`input` with elements added around it, or taken away.

    Args:
        input: a tensor with one axis or more.
        pad: counts (before, after) of the last axis, then of the axis before it, and so on: at
            most a pair for each axis. Negative counts take elements away.
        mode: "constant" (default) adds `value`, "reflect" mirrors `input` at its outermost element,
            "replicate" repeats that element, "circular" continues at the other end.
        value: the number that "constant" adds. Default None: 0.

    Raises:
        ShapeError: `pad` is not pairs for the axes, or takes away more than there is; or an empty
            axis has no elements to repeat.
        ArgumentError: `mode` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.pad(fw.tensor([[1, 2, 3]]), (1, -1))
        tensor([[0, 1, 2]])
    """
    counts = tuple(check_whole("pad", "pad", count) for count in listed("pad", pad))
    if len(counts) % 2 or len(counts) > 2 * input.ndim:
        raise ShapeError(f"pad: {counts} are not pairs for the last axes of shape {input.shape}",
                         "give (before, after) of the last axis first: (left, right, top, bottom)")
    check_choice("pad", "mode", mode, ("constant", "reflect", "replicate", "circular"))
    widths = [(0, 0)] * (input.ndim - len(counts) // 2)
    widths += [(counts[i], counts[i + 1]) for i in range(len(counts) - 2, -1, -2)]
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    cut = [(min(a, 0), min(b, 0)) for a, b in widths]
    if mode == "circular":  # elements that are cut off are not repeated
        return padding.pad(_cut(input, cut, counts), added, mode)
    return _cut(padding.pad(input, added, mode, 0 if value is None else value), cut, counts)


def _cut(x: Tensor, widths: list[tuple[int, int]], counts: Any) -> Tensor:
    """`x` without the elements at both ends of each axis that the negative `widths` count."""
    if not any(map(any, widths)):
        return x
    size = tuple(n + a + b for n, (a, b) in zip(x.shape, widths))
    if min(size) < 0:
        raise ShapeError(f"pad: {counts} takes more away than shape {x.shape} has")
    return slice_axes(x, tuple(-a for a, _ in widths), (1,) * x.ndim, size)


# ---- windows as columns
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
           ) -> Tensor:
    """The windows of images as columns: (n, c, h, w) to (n, c * kh * kw, windows).

    Args:
        input: (n, c, h, w), or (c, h, w) for one image.
        kernel_size: the sizes (kh, kw) of windows, or one number.
        dilation: the distance between elements of a window: one number or 2. Default 1.
        padding: zeros added on both sides of each axis: one number or 2. Default 0.
        stride: the distance between windows: one number or 2. Default 1.

    Raises:
        ShapeError: `input` has neither 3 nor 4 axes, or no window fits.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.unfold(fw.arange(6).reshape(1, 2, 3), 2)
        tensor([[0, 1],
                [1, 2],
                [3, 4],
                [4, 5]])
    """
    x = with_samples("unfold", input, 2)
    kernel, *rest = _windows("unfold", kernel_size=kernel_size, dilation=dilation, padding=padding,
                             stride=stride)
    out = _counts("unfold", x.shape[2:], kernel, *rest)
    dilation, padding, stride = rest
    windows = permute_dims(window.window(x, kernel, out, stride, dilation, padding),
                           (0, 1, 4, 5, 2, 3))
    columns = reshape(windows, (x.shape[0], x.shape[1] * kernel[0] * kernel[1], out[0] * out[1]))
    return columns if x is input else reshape(columns, columns.shape[1:])


def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
         stride: Any = 1) -> Tensor:
    """Images of summed windows, the adjoint of `unfold`: (n, c * kh * kw, windows) to (n, c, h, w).

    Args:
        input: columns (n, c * kh * kw, windows), or without n.
        output_size: the sizes (h, w) of the images, or one number.
        kernel_size, dilation, padding, stride: as for `unfold`, with its defaults.

    Raises:
        ShapeError: the sizes do not make so many columns.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.fold(fw.ones((4, 2)), (2, 3), 2)
        tensor([[[1., 2., 1.],
                 [1., 2., 1.]]])
    """
    x = input if input.ndim == 3 else expand_dims(input, 0)
    size = per_axis("fold", "output_size", output_size, 2, 0)
    kernel, *rest = _windows("fold", kernel_size=kernel_size, dilation=dilation, padding=padding,
                             stride=stride)
    out = _counts("fold", size, kernel, *rest)
    area = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % area or x.shape[2] != out[0] * out[1]:
        raise ShapeError(f"fold: columns {input.shape} are not (n, channels * {area}, "
                         f"{out[0] * out[1]}) as the sizes say",
                         f"an output of {size} with kernel {kernel} has {out} windows")
    apart = reshape(x, (x.shape[0], x.shape[1] // area, *kernel, *out))
    dilation, padding, stride = rest
    images = window.fold(permute_dims(apart, (0, 1, 4, 5, 2, 3)), size, kernel, stride, dilation,
                         padding, (1, 1))
    return images if x is input else reshape(images, images.shape[1:])


def _windows(owner: str, **arguments: Any) -> list[tuple[Any, ...]]:
    return [per_axis(owner, name, value, 2, 0 if name == "padding" else 1)
            for name, value in arguments.items()]


def _counts(owner: str, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
            ) -> tuple[Any, ...]:
    return tuple(window.window_count(n, k, s, d, p, owner) for n, k, d, p, s in
                 zip(size, kernel, dilation, padding, stride, strict=True))


# ---- channels and pixels
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(n, c, *space) with the groups of channels interleaved: the first of each, the second, ....

    Args:
        input: (n, c, *space), with at least one axis of space.
        groups: the number of groups, which divides c.

    Raises:
        ShapeError: `input` has fewer than 3 axes, or `groups` does not divide c.
        ArgumentError: `groups` is below 1.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.channel_shuffle(fw.arange(6).reshape(1, 6, 1), 2).flatten()
        tensor([0, 3, 1, 4, 2, 5])
    """
    if input.ndim < 3 or input.shape[1] % check_whole("channel_shuffle", "groups", groups, 1):
        raise ShapeError(f"channel_shuffle: takes (n, c, *space) with a multiple of {groups} "
                         f"channels, got shape {input.shape}", "the channels are axis 1")
    n, channels, *space = input.shape
    apart = reshape(input, (n, groups, channels // groups, *space))
    return reshape(permute_dims(apart, (0, 2, 1, *range(3, apart.ndim))), input.shape)


@names_itself
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle(input, groups)`, under the name of PyTorch's kernel.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.native_channel_shuffle(fw.arange(4).reshape(1, 4, 1), 2).flatten()
        tensor([0, 2, 1, 3])
    """
    return channel_shuffle(input, groups)


def _check_image(owner: str, input: Tensor) -> None:
    if input.ndim < 3:
        raise ShapeError(f"{owner}: takes (..., c, h, w), got shape {input.shape}",
                         "channels, height and width are the last three axes")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels moved into space: (..., c * r * r, h, w) to (..., c, h * r, w * r).

    Args:
        input: a tensor whose last three axes are channels, height and width.
        upscale_factor: r.

    Raises:
        ShapeError: `input` has fewer than 3 axes, or r * r does not divide the channels.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.pixel_shuffle(fw.arange(4).reshape(4, 1, 1), 2)
        tensor([[[0, 1],
                 [2, 3]]])
    """
    _check_image("pixel_shuffle", input)
    r = check_whole("pixel_shuffle", "upscale_factor", upscale_factor, 1)
    *lead, channels, h, w = input.shape
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels of shape {input.shape} are no "
                         f"multiple of {r} * {r}", f"the channels are axis {input.ndim - 3}")
    x = reshape(input, (*lead, channels // (r * r), r, r, h, w))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(x, (*lead, channels // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space moved into channels, the inverse of `pixel_shuffle`: (..., c * r * r, h, w).

    Args:
        input: (..., c, h * r, w * r).
        downscale_factor: r.

    Raises:
        ShapeError: `input` has fewer than 3 axes, or r does not divide height and width.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.pixel_unshuffle(fw.arange(4).reshape(1, 2, 2), 2).flatten()
        tensor([0, 1, 2, 3])
    """
    _check_image("pixel_unshuffle", input)
    r = check_whole("pixel_unshuffle", "downscale_factor", downscale_factor, 1)
    *lead, channels, h, w = input.shape
    if h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: height {h} and width {w} of shape {input.shape} are no "
                         f"multiples of {r}", "pad the image first")
    x = reshape(input, (*lead, channels, h // r, r, w // r, r))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(x, (*lead, channels * r * r, h // r, w // r))


# ---- other sizes
MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,),
         "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(n, c, *space) resized to other sizes of space.

    Args:
        input: (n, c, *space) with 1 to 3 axes of space.
        size: the new sizes, or one number for all axes. Default None: from `scale_factor`.
        scale_factor: the factor of the sizes, which are rounded down: one number, or one for each
            axis. Default None: from `size`.
        mode: "nearest" (default), "nearest-exact" or "area" for 1 to 3 axes of space, "linear"
            for 1, "bilinear" and "bicubic" for 2, "trilinear" for 3.
        align_corners: True maps the outermost elements to each other, False or None the outer
            edges. For linear and cubic modes. Default None.
        recompute_scale_factor: True interpolates at the ratio of the sizes, not at `scale_factor`.
            Default None: False.
        antialias: True averages more elements of larger inputs, for "bilinear" and "bicubic".
            Default False.

    Raises:
        ShapeError: `mode` or the sizes do not fit `input`, or a size is 0.
        ArgumentError: an argument does not fit `mode`, or `size` and `scale_factor` are both None
            or both set.
        DTypeError: `input` is not real floating point, for modes other than the nearest ones.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.interpolate(fw.tensor([[[1.0, 5.0]]]), scale_factor=2)
        tensor([[[1., 1., 5., 5.]]])
    """
    check_choice("interpolate", "mode", mode, tuple(MODES))
    d = input.ndim - 2
    if d not in MODES[mode]:
        raise ShapeError(f"interpolate: mode {mode!r} takes (n, channels, *space) with "
                         f"{' or '.join(map(str, MODES[mode]))} axes of space, got shape "
                         f"{input.shape}", "linear, bilinear, trilinear are for 1, 2, 3 axes")
    if align_corners is not None and not mode.endswith(("linear", "cubic")):
        raise ArgumentError(f"interpolate: mode {mode!r} has no align_corners", "leave it out")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: mode {mode!r} has no antialias",
                            'use mode="bilinear" or "bicubic"')
    if dtypes.kind(input.dtype) != "f" and not mode.startswith("nearest"):
        raise DTypeError(f"interpolate: mode {mode!r} takes real floating point numbers, not "
                         f"{input.dtype.name}", "cast the input: x.astype(fw.float32)")
    sizes, scales = _sizes(input, size, scale_factor, bool(recompute_scale_factor))
    kind = "linear" if mode.endswith("linear") else "cubic" if mode == "bicubic" else mode
    out = input
    for axis in range(d - 1, -1, -1):
        out = resize_axis(out, axis + 2, sizes[axis], kind, bool(align_corners), scales[axis],
                          antialias)
    return out


def _sizes(input: Tensor, size: Any, factor: Any, recompute: bool) -> tuple[Any, Any]:
    """The sizes of space, and the distances between their elements if these were passed."""
    space = input.shape[2:]
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate: needs size or scale_factor, and not both")
    requested = size if factor is None else factor
    each = tuple(requested) if isinstance(requested, (tuple, list)) else (requested,) * len(space)
    for number in each:
        if factor is None:
            check_whole("interpolate", "size", number)
        elif not 0 < check_number("interpolate", "scale_factor", number) < math.inf:
            raise ArgumentError(
                f"interpolate: scale_factor must be above 0 and finite, got {factor}")
    if len(each) != len(space):
        raise ShapeError(f"interpolate: {requested!r} does not have one number for each axis of "
                         f"space {space}")
    sizes = each if factor is None else tuple(map(scaled, space, each))
    if any(n < 1 for n in (*sizes, *space)):
        raise ShapeError(f"interpolate: from {space} to {sizes}: all sizes must be at least 1")
    exact = factor is None or recompute
    return sizes, (None,) * len(space) if exact else tuple(1.0 / f for f in each)


# ---- sampling at positions
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """Sampling positions for `grid_sample` by affine maps of output pixels: (n, *space, d).

    Args:
        theta: matrices (n, d, d + 1), for d = 2 or 3; columns are in the order x, y (, z), 1.
        size: the shape (n, c, *space) of the images to sample, with d axes of space.
        align_corners: True puts -1 and 1 at the middles of the outermost pixels, False or None at
            their outer edges. Default None.

    Raises:
        ShapeError: `theta` does not fit `size`.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.affine_grid(fw.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]), (1, 1, 1, 2))
        tensor([[[[-0.5,  0. ],
                  [ 0.5,  0. ]]]])
    """
    size = sizes_of("affine_grid", size)
    d = len(size) - 2
    if d not in (2, 3) or theta.shape != (size[0], d, d + 1):
        raise ShapeError(f"affine_grid: theta must be {(*size[:1], d, d + 1)} for the size {size}, "
                         f"got {theta.shape}", "the size is (n, c, h, w) or (n, c, d, h, w)")
    n, _, *space = size
    bases = [_base(count, bool(align_corners), theta) for count in space]
    full = [broadcast_to(reshape(b, tuple(-1 if i == a else 1 for i in range(d))), tuple(space))
            for a, b in enumerate(bases)]
    grid = reshape(stack([*full[::-1], full[0] * 0 + 1], axis=-1), (1, product(space), d + 1))
    return reshape(matmul(grid, matrix_transpose(theta)), (n, *space, d))


def _base(count: int, align_corners: bool, like: Tensor) -> Tensor:
    """Coordinates of the middles of `count` pixels: -1 to 1 spans their middles or edges."""
    at = arange(count, dtype=like.dtype, device=like.device)
    if align_corners:
        return at * (2 / (count - 1)) - 1 if count > 1 else at * 0
    return (at * 2 + 1) / count - 1


@names_itself
@in_float32
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """(n, c, *space) sampled at the positions `grid` (n, *out, d): (n, c, *out).

    Args:
        input: (n, c, h, w) or (n, c, d, h, w).
        grid: positions x, y (, z) from -1 to 1, x along the last axis; the dtype of `input`.
        mode: "bilinear" (default), "nearest", or "bicubic" for images (n, c, h, w).
        padding_mode: outside of the image "zeros" (default), "border" or "reflection".
        align_corners: as for `affine_grid`. Default None: False.

    Raises:
        ShapeError: `grid` or `mode` does not fit `input`.
        DTypeError: `input` and `grid` differ in dtype.
        ArgumentError: a mode is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, grid = fw.tensor([[[[1.0, 2.0]]]]), fw.tensor([[[[0.5, 0.0], [0.0, 0.0]]]])
        >>> fw.nn.functional.grid_sample(x, grid)
        tensor([[[[2. , 1.5]]]])
    """
    check_choice("grid_sample", "mode", mode, ("bilinear", "nearest", "bicubic"))
    check_choice("grid_sample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    _check_grid(input, grid, mode)
    n, c, *space = input.shape
    align, d = bool(align_corners), len(space)
    coordinates = [_pixel_coordinate(grid[..., d - 1 - a], count, align)
                   for a, count in enumerate(space)]
    if mode != "bicubic":
        coordinates = _inside(coordinates, space, padding_mode, align)
    rows = reshape(permute_dims(input, (0, *range(2, d + 2), 1)), (n * product(space), c))
    total: Any = None
    for taps in combinations(*map(_TAPS[mode], coordinates)):
        at = [coordinate for coordinate, _ in taps]
        at = _inside(at, space, padding_mode, align) if mode == "bicubic" else at
        pixels = _pixels(rows, n, space, at)
        for weight in [w for _, w in taps if w is not None]:
            pixels = pixels * expand_dims(weight, -1)
        total = pixels if total is None else total + pixels
    return permute_dims(total, (0, d + 1, *range(1, d + 1)))


def _check_grid(input: Tensor, grid: Tensor, mode: str) -> None:
    d = input.ndim - 2
    if d not in (2, 3) or grid.ndim != d + 2 or grid.shape[-1] != d or \
            grid.shape[0] != input.shape[0]:
        raise ShapeError(f"grid_sample: takes (n, c, h, w) and (n, h', w', 2), or (n, c, d, h, w) "
                         f"and (n, d', h', w', 3), got {input.shape} and {grid.shape}",
                         "n must be the same, and the grid's last axis holds x, y (and z)")
    if mode == "bicubic" and d != 2:
        raise ShapeError(f"grid_sample: mode 'bicubic' takes images (n, c, h, w), got shape "
                         f"{input.shape}", 'use mode="bilinear"')
    if input.dtype != grid.dtype:
        raise DTypeError(f"grid_sample: the input is {input.dtype.name}, the grid "
                         f"{grid.dtype.name}", f"cast one: grid.astype(fw.{input.dtype.name})")


def _nearest_tap(coordinate: Tensor) -> list[tuple[Tensor, Any]]:
    return [(round(coordinate), None)]


def _linear_taps(coordinate: Tensor) -> list[tuple[Tensor, Any]]:
    low = floor(coordinate).detach()
    share = coordinate - low
    return [(low, 1 - share), (low + 1, share)]


def _cubic_taps(coordinate: Tensor) -> list[tuple[Tensor, Any]]:
    low = floor(coordinate).detach()
    return [(low + offset, w) for offset, w in zip(range(-1, 3), cubic_weights(coordinate - low))]


_TAPS = {"nearest": _nearest_tap, "bilinear": _linear_taps, "bicubic": _cubic_taps}


def _pixel_coordinate(at: Tensor, count: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as indices among `count` pixels."""
    return (at + 1) * ((count - 1) / 2) if align_corners else ((at + 1) * count - 1) * 0.5


def _inside(coordinates: list[Tensor], space: Any, padding_mode: str, align_corners: bool
            ) -> list[Tensor]:
    """`coordinates` along each axis of `space`, brought inside by the padding mode."""
    if padding_mode == "zeros":
        return coordinates
    if padding_mode == "reflection":
        coordinates = [_reflected(p, n, align_corners) for p, n in zip(coordinates, space)]
    return [clip(p, 0, n - 1) for p, n in zip(coordinates, space)]


def _reflected(coordinate: Tensor, count: int, align_corners: bool) -> Tensor:
    """Coordinates mirrored at the middles of the outermost pixels, or at their outer edges."""
    low, span = (0.0, count - 1) if align_corners else (-0.5, count)
    if span == 0:
        return coordinate * 0
    away = absolute(coordinate - low)
    rest = remainder(away, float(span))
    odd = remainder(floor_divide(away, float(span)), 2.0) > 0
    return where(odd, span - rest, rest) + low


def _pixels(rows: Tensor, n: Any, space: Any, at: list[Tensor]) -> Tensor:
    """The pixels at integer coordinates (n, *out): (n, *out, c), and 0 outside of the image."""
    inside: Any = None
    for coordinate, count in zip(at, space):
        here = logical_and(coordinate >= 0, coordinate <= count - 1)
        inside = here if inside is None else logical_and(inside, here)
    index = reshape(arange(n, device=rows.device), (n, *[1] * len(space)))
    for coordinate, count in zip(at, space):
        index = index * count + cast(where(inside, coordinate, 0.0).detach(), dtypes.int64)
    return where(expand_dims(inside, -1), take(rows, index, 0), 0.0)
