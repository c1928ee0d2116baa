"""Regions of images: chooses boxes without large overlaps, and samples feature maps in boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arguments import check_number, check_whole, names_itself, per_axis
from ...arrays import devices, dtypes
from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ..create import arange
from ..data_dependent import where_true
from ..elementwise.clip import clip
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import (
    cast,
    floor,
    greater_equal,
    less_equal,
    logical_and,
    maximum,
    minimum,
    where,
)
from ..indexing.sort import argsort
from ..reduction.reduce import mean
from ..shape.take import take
from ..shape.view import expand_dims, permute_dims, reshape

__all__ = ["nms", "nms_mask", "roi_align"]


# ---- boxes without large overlaps
def _kept(xp: Any, boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """The mask of boxes that stay, computed by NumPy."""
    corners = devices.host(boxes).astype(np.float64)
    order = np.argsort(-devices.host(scores).astype(np.float64), kind="stable")
    kept = np.zeros(len(corners), bool)
    while order.size:
        best, order = order[0], order[1:]
        kept[best] = True
        order = order[~(_overlaps(corners[best], corners[order]) > iou_threshold)]
    return devices.moved(kept, devices.of(boxes)) if devices.is_elsewhere(boxes) else kept


def _overlaps(box: Any, others: Any) -> Any:
    """Intersection over union of a box with each of the others (n, 4): (n,)."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    both = np.prod(np.maximum(sides, 0), axis=1)
    areas = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return both / (areas - both)


nms_op = define(Op(
    "nms_mask", "opaque", lambda boxes, scores, iou_threshold: TensorType(
        scores.shape, dtypes.bool), _kept,
    why={"vjp": "truth values have no gradient",
         "meaning": "each choice depends on all choices before it"}))


@names_itself
def nms_mask(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """True for the boxes that non-maximum suppression keeps: (n,), bool.

    A box is kept unless it overlaps with a kept box of a higher score: unless their intersection
    over union is above the threshold. Of equal scores the first comes first. In place of `nms`
    where results need a fixed size, as in an ONNX model.

    Args:
        boxes: (n, 4), corners x1, y1, x2, y2 with x1 <= x2 and y1 <= y2.
        scores: (n,).
        iou_threshold: from 0 to 1.

    Raises:
        ShapeError: `boxes` are not (n, 4), or `scores` not (n,).
        DTypeError: `boxes` or `scores` are not real floating point numbers.
        ArgumentError: `iou_threshold` is not from 0 to 1.

    Example:
        >>> import fusewire as fw
        >>> boxes = fw.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.8], [5, 5, 6, 6]])
        >>> fw.nn.functional.nms_mask(boxes, fw.tensor([0.5, 0.9, 0.1]), 0.7)
        tensor([False,  True,  True])
    """
    boxes, scores = (as_tensor("nms_mask", x).detach() for x in (boxes, scores))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ShapeError(f"nms: boxes {boxes.shape} and scores {scores.shape}",
                         "boxes are (n, 4) and scores (n,)")
    _check_floats("nms", boxes, scores)
    if not 0 <= check_number("nms", "iou_threshold", iou_threshold) <= 1:
        raise ArgumentError(f"nms: iou_threshold is {iou_threshold}", "it is from 0 to 1")
    return apply(nms_op, (boxes, scores), {"iou_threshold": float(iou_threshold)})


@names_itself
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices of the boxes that non-maximum suppression keeps, by falling scores: (k,), int64.

    See `nms_mask` for the arguments and errors.

    Example:
        >>> import fusewire as fw
        >>> boxes = fw.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.8], [5, 5, 6, 6]])
        >>> fw.nn.functional.nms(boxes, fw.tensor([0.5, 0.9, 0.1]), 0.7)
        tensor([1, 2])
    """
    kept = nms_mask(boxes, scores, iou_threshold)
    order = argsort(scores.detach(), axis=0, descending=True)
    return take(order, where_true(take(kept, order, axis=0)), axis=0)


# ---- samples of feature maps
def _roi_align(x: Tensor, rois: Tensor, output_size: tuple[int, int], spatial_scale: float,
               sampling_ratio: int, aligned: bool) -> Tensor:
    n, c, h, w = x.shape
    image = reshape(cast(rois[:, 0], dtypes.int64), (-1, 1, 1))
    rows, columns = (_taps(rois[:, 1 + a], rois[:, 3 + a], count, bins, spatial_scale,
                           sampling_ratio, aligned)
                     for a, count, bins in ((1, h, output_size[0]), (0, w, output_size[1])))
    pixels = reshape(permute_dims(x, (0, 2, 3, 1)), (n * h * w, c))
    total: Any = None
    for row, row_weight in rows:
        for column, column_weight in columns:
            at = (image * h + expand_dims(row, 2)) * w + expand_dims(column, 1)
            weight = expand_dims(row_weight, 2) * expand_dims(column_weight, 1)
            part = take(pixels, at, axis=0) * expand_dims(cast(weight, x.dtype), -1)
            total = part if total is None else total + part
    k, s = rois.shape[0], sampling_ratio
    samples = reshape(total, (k, output_size[0], s, output_size[1], s, c))
    return permute_dims(mean(samples, axis=(2, 4)), (0, 3, 1, 2))


def _taps(start: Tensor, end: Tensor, count: int, bins: int, scale: float, samples: int,
          aligned: bool) -> list[tuple[Tensor, Tensor]]:
    """The pixels (k, bins * samples) before and after each sample along an axis of `count`, and
    their weights."""
    first = start * scale - (0.5 if aligned else 0.0)
    length = end * scale - (0.5 if aligned else 0.0) - first
    length = length if aligned else maximum(length, 1.0)
    share = (cast(arange(bins * samples, device=start.device), start.dtype) + 0.5) / samples
    at = expand_dims(first, 1) + expand_dims(length / bins, 1) * share
    inside = logical_and(greater_equal(at, -1.0), less_equal(at, float(count)))
    at = clip(at, 0.0, float(count - 1))
    low = minimum(floor(at), float(count - 1))
    after = at - low
    pixel = cast(low, dtypes.int64)
    return [(pixel, where(inside, 1 - after, 0.0)),
            (minimum(pixel + 1, count - 1), where(inside, after, 0.0))]


roi_align_op = composite(
    "roi_align", _roi_align, lambda x, rois, output_size, **more: TensorType(
        (rois.shape[0], x.shape[1], *output_size), x.dtype))


@names_itself
def roi_align(input: Tensor, boxes: Tensor, output_size: Any, spatial_scale: float = 1.0,
              sampling_ratio: int = 2, aligned: bool = False) -> Tensor:
    """The means of samples in bins of boxes: (k, channels, *output_size).

    He et al., "Mask R-CNN", arXiv 1703.06870. Gradients flow to `input`.

    Args:
        input: feature maps (n, channels, height, width).
        boxes: (k, 5): the number of an image, then corners x1, y1, x2, y2.
        output_size: bins of a box: (rows, columns), or one number for both.
        spatial_scale: pixels of `input` per unit of the corners. Default 1.0.
        sampling_ratio: samples of a bin along each axis, at least 1. Default 2.
        aligned: True if pixel i lies at i + 0.5, as the corners of boxes assume. Default False: it
            lies at i, and boxes have at least one pixel.

    Raises:
        ShapeError: `input` or `boxes` have other axes.
        DTypeError: `input` and `boxes` do not hold the same real floating point numbers.
        ArgumentError: a number is outside of its range.
        IndexingError: there is no such image.

    Example:
        >>> import fusewire as fw
        >>> x = fw.arange(16.0).reshape(1, 1, 4, 4)
        >>> fw.nn.functional.roi_align(x, fw.tensor([[0.0, 1, 1, 3, 3]]), 1)
        tensor([[[[10.]]]])
    """
    input, boxes = as_tensor("roi_align", input), as_tensor("roi_align", boxes)
    if input.ndim != 4 or boxes.ndim != 2 or boxes.shape[1] != 5 or 0 in input.shape[2:]:
        raise ShapeError(f"roi_align: input {input.shape} and boxes {boxes.shape}",
                         "they are (n, channels, height, width) and (k, 5), with the number of an "
                         "image before the corners")
    _check_floats("roi_align", input, boxes)
    if input.dtype != boxes.dtype:
        raise DTypeError(f"roi_align: the input is {input.dtype.name}, the boxes "
                         f"{boxes.dtype.name}", f"cast one: boxes.astype(fw.{input.dtype.name})")
    return call(roi_align_op, input, boxes.detach(),
                output_size=per_axis("roi_align", "output_size", output_size, 2, 1),
                spatial_scale=check_number("roi_align", "spatial_scale", spatial_scale),
                sampling_ratio=check_whole("roi_align", "sampling_ratio", sampling_ratio, 1),
                aligned=bool(aligned))


def _check_floats(name: str, *tensors: Tensor) -> None:
    for x in tensors:
        if dtypes.kind(x.dtype) != "f":
            raise DTypeError(f"{name}: takes real floating point numbers, not {x.dtype.name}",
                             "cast: x.astype(fw.float32)")
