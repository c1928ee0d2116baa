"""Defines operators on images: sampling, regions, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.arrays.shapes import product
from .....eager.core.tensor import tensor
from .....eager.errors import ImportModelError
from .....eager.nn import functional as F
from .....eager.ops import create
from .....eager.ops.elementwise import pointwise
from .....eager.ops.elementwise.clip import clip
from .....eager.ops.indexing import scatter
from .....eager.ops.products.contract import matmul
from .....eager.ops.reduction import reduce
from .....eager.ops.shape import view
from .....eager.ops.shape.join import concat, stack
from .....eager.ops.shape.take import take
from ..runtime.table import Number, Sizes, Tensor, operator

__all__: list[str] = []

_MODES = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest",
          "bicubic": "bicubic", "cubic": "bicubic"}


@operator("GridSample")
def _grid_sample(x: Tensor, grid: Tensor, align_corners: int = 0, mode: str = "linear",
                 padding_mode: str = "zeros") -> Tensor:
    if mode not in _MODES:
        raise ImportModelError(f"GridSample: unknown mode {mode!r}",
                               f"known modes are {', '.join(_MODES)}")
    return F.grid_sample(x, grid, _MODES[mode], padding_mode, bool(align_corners))


def _between(x: Tensor, y_at: Tensor, x_at: Tensor) -> Tensor:
    """`x` (n, c, h, w) interpolated linearly at positions (n, ...): (n, c, ...).

    Outside of the image it is 0.
    """
    n, c, h, w = x.shape
    flat = view.reshape(view.permute_dims(x, (0, 2, 3, 1)), (n * h * w, c))
    first = view.reshape(create.arange(n) * (h * w), (n, *[1] * (y_at.ndim - 1)))
    y_low, x_low = pointwise.floor(y_at).detach(), pointwise.floor(x_at).detach()
    total: Any = 0.0
    for dy in (0, 1):
        for dx in (0, 1):
            py, px = y_low + dy, x_low + dx
            weight = (1 - pointwise.abs(y_at - py)) * (1 - pointwise.abs(x_at - px))
            inside = pointwise.logical_and(
                pointwise.logical_and(py >= 0, py <= h - 1),
                pointwise.logical_and(px >= 0, px <= w - 1))
            index = (clip(py, 0, h - 1) * w + clip(px, 0, w - 1)).astype(
                "int64") + first
            weight = pointwise.where(inside, weight, 0.0)
            total = total + take(flat, index, axis=0) * view.expand_dims(weight, -1)
    perm = (0, total.ndim - 1, *range(1, total.ndim - 1))
    return view.permute_dims(total, perm)


@operator("DeformConv")
def _deform_conv(x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None,
                 mask: Tensor | None = None, dilations: Any = (1, 1), group: int = 1,
                 kernel_shape: Any = None, offset_group: int = 1, pads: Any = (0, 0, 0, 0),
                 strides: Any = (1, 1)) -> Tensor:
    """A convolution whose windows read at offset positions."""
    n, c, _, _ = x.shape
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    moved = view.reshape(offset, (n, offset_group, kh, kw, 2, oh, ow))
    rows = _grid(oh, strides[0], -pads[0], 5, 3, kh, dilations[0], x.dtype)
    columns = _grid(ow, strides[1], -pads[1], 5, 4, kw, dilations[1], x.dtype)
    y_at, x_at = moved[:, :, :, :, 0] + rows[0], moved[:, :, :, :, 1] + columns[1]
    parts = []
    per = c // offset_group
    for g in range(offset_group):
        sampled = _between(x[:, g * per:(g + 1) * per], y_at[:, g], x_at[:, g])
        if mask is not None:
            own = view.reshape(mask, (n, offset_group, 1, kh, kw, oh, ow))
            sampled = sampled * own[:, g]
        parts.append(sampled)
    windows = view.reshape(stack(parts, 1), (n, group, (c // group) * kh * kw, oh * ow))
    filters = view.reshape(w, (group, w.shape[0] // group, (c // group) * kh * kw))
    out = view.reshape(matmul(filters, windows), (n, w.shape[0], oh, ow))
    return out if b is None else out + view.reshape(b, (-1, 1, 1))


def _grid(count: Any, stride: int, first: int, *more: Any) -> tuple[Tensor, Tensor]:
    """The positions (kh, kw, oh, ow) of each window's elements: rows and columns."""
    _, _, kernel, dilation, dtype = more
    starts = (create.arange(count) * stride + first).astype(dtype)
    inner = (create.arange(kernel) * dilation).astype(dtype)
    rows = view.reshape(inner, (kernel, 1, 1, 1)) + view.reshape(starts, (1, 1, count, 1))
    columns = view.reshape(inner, (1, kernel, 1, 1)) + view.reshape(starts, (1, 1, 1, count))
    return rows, columns


# ---- regions of images
@operator("RoiAlign", since=16)
def _roi_align(x: Tensor, rois: Tensor, batch_indices: Tensor,
               coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
               output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
               spatial_scale: float = 1.0) -> Tensor:
    half = coordinate_transformation_mode == "half_pixel"
    if mode == "avg" and sampling_ratio > 0:
        images = view.expand_dims(batch_indices.astype(rois.dtype), 1)
        return F.roi_align(x, concat([images, rois], 1), (output_height, output_width),
                                 spatial_scale, sampling_ratio, half)
    boxes = rois.numpy().astype(np.float64) * spatial_scale - (0.5 if half else 0.0)
    out = []
    for box, image in zip(boxes, batch_indices.tolist()):
        x1, y1, x2, y2 = box
        height, width = y2 - y1, x2 - x1
        if not half:
            height, width = max(height, 1.0), max(width, 1.0)
        rows = _samples(y1, height, output_height, sampling_ratio, x.shape[2])
        columns = _samples(x1, width, output_width, sampling_ratio, x.shape[3])
        out.append(_region(x[image], rows, columns, mode))
    if not out:
        return create.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)
    return stack(out)


@operator("RoiAlign", since=10)
def _roi_align_whole(x: Tensor, rois: Tensor, batch_indices: Tensor, **attributes: Any) -> Tensor:
    return _roi_align(x, rois, batch_indices, "output_half_pixel", **attributes)


def _samples(start: float, length: float, bins: int, ratio: int, n: int) -> Any:
    """For each bin and sample: the pixels before and after it, and their weights."""
    count = ratio if ratio > 0 else max(int(np.ceil(length / bins)), 1)
    size = length / bins
    at = start + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count) * size
    inside = (at >= -1.0) & (at <= n)
    at = np.clip(at, 0, n - 1)
    low = np.minimum(at.astype(np.int64), n - 1)
    share = at - low
    return (low, np.where(inside, 1 - share, 0.0)), \
        (np.minimum(low + 1, n - 1), np.where(inside, share, 0.0))


def _region(x: Tensor, rows: Any, columns: Any, mode: str) -> Tensor:
    """`x` (c, h, w) in bins: the mean of samples, or the largest weighted pixel of any sample."""
    taps = []
    for row, row_weight in rows:
        for column, column_weight in columns:
            pixels = take(take(x, tensor(row.reshape(-1)), axis=1),
                               tensor(column.reshape(-1)), axis=2)
            pixels = view.reshape(pixels, (x.shape[0], *row.shape, *column.shape))
            weight = row_weight[:, :, None, None] * column_weight
            taps.append(pixels * tensor(weight.astype(x.dtype)))
    if mode == "max":
        return reduce.max(reduce.max(stack(taps), 0), (2, 4))
    return reduce.mean(reduce.sum(stack(taps), 0), (2, 4))


# ---- columns to images
@operator("Col2Im")
def _col2im(x: Tensor, image_shape: Sizes, block_shape: Sizes, dilations: Any = None,
            pads: Any = None, strides: Any = None) -> Tensor:
    """The sum of windows at their positions in the image."""
    d = len(image_shape)
    dilations, strides, pads = dilations or (1,) * d, strides or (1,) * d, pads or (0,) * 2 * d
    positions = _window_positions(tuple(image_shape), tuple(block_shape), dilations, strides, pads)
    kernel = product(block_shape)
    n, c = x.shape[0], x.shape[1] // kernel
    values = view.reshape(x, (n * c, kernel * x.shape[2]))
    room = product(image_shape) + 1  # the last element collects padding
    out = create.zeros((n * c, room), dtype=x.dtype)
    index = view.broadcast_to(tensor(positions.reshape(1, -1)), values.shape)
    out = scatter.scatter_add(out, 1, index, values)
    return view.reshape(out[:, :room - 1], (n, c, *image_shape))


def _window_positions(image: Any, block: Any, dilations: Any, strides: Any, pads: Any) -> Any:
    """The flat position of each element of each window: (kernel, windows)."""
    d = len(image)
    flat: Any = np.zeros((1, 1), np.int64)
    fits: Any = np.ones((1, 1), bool)
    for i in range(d):
        count = (image[i] + pads[i] + pads[i + d] - dilations[i] * (block[i] - 1) - 1) \
            // strides[i] + 1
        at = (np.arange(block[i]) * dilations[i])[:, None] + np.arange(count) * strides[i] - pads[i]
        own = (at >= 0) & (at < image[i])
        flat = flat[:, None, :, None] * image[i] + at[None, :, None, :]
        fits = fits[:, None, :, None] & own[None, :, None, :]
        shape = (flat.shape[0] * flat.shape[1], flat.shape[2] * flat.shape[3])
        flat, fits = flat.reshape(shape), fits.reshape(shape)
    return np.where(fits, flat, int(np.prod(image)))


# ---- boxes
@operator("NonMaxSuppression")
def _non_max_suppression(boxes: Tensor, scores: Tensor, most: Number = 0, iou: Number = 0.0,
                         least: Number = None, center_point_box: int = 0) -> Tensor:
    """Boxes of each class without a large overlap with a better one, as (batch, class, box)."""
    corners = _corners(boxes.numpy().astype(np.float64), center_point_box)
    rows = []
    for batch, (own, classes) in enumerate(zip(corners, scores.numpy())):
        for kind, score in enumerate(classes):
            chosen = _selected(own, score, int(most), float(iou or 0.0), least)
            rows += [(batch, kind, box) for box in chosen]
    return tensor(np.array(rows, np.int64).reshape(-1, 3))


def _corners(boxes: Any, centred: int) -> Any:
    """Boxes as (smallest, largest) of both coordinates."""
    if centred:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        return np.concatenate([middle - half, middle + half], -1)
    return np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]),
                           np.maximum(boxes[..., :2], boxes[..., 2:])], -1)


def _selected(boxes: Any, scores: Any, most: int, iou: float, least: Any) -> list[int]:
    ranked = np.argsort(-scores, kind="stable")
    if least is not None:
        ranked = ranked[scores[ranked] > least]
    selected: list[int] = []
    for box in ranked.tolist():
        if len(selected) >= most:
            break
        if not any(_overlap(boxes[box], boxes[other]) > iou for other in selected):
            selected.append(box)
    return selected


def _overlap(a: Any, b: Any) -> float:
    """Intersection over union."""
    both = np.prod(np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None))
    areas = np.prod(a[2:] - a[:2]), np.prod(b[2:] - b[:2])
    if both <= 0 or min(areas) <= 0:
        return 0.0
    return float(both / (areas[0] + areas[1] - both))
