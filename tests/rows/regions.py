"""Rows of the ops of regions of images: boxes without large overlaps, samples in boxes."""

from __future__ import annotations

import math

import numpy as np
from rows.row import Array, Bad, f4, f8, row

import fusewire as fw

F = fw.nn.functional


def boxes(rng: np.random.Generator, count: int, dtype: np.dtype) -> Array:
    """Random boxes (count, 4) in a square of 8, of which many overlap."""
    corner, size = rng.uniform(0, 5, (count, 2)), rng.uniform(0.5, 3, (count, 2))
    return np.concatenate([corner, corner + size], 1).astype(dtype)


def scored(count: int, dtype: np.dtype = f4, values: int = 1000) -> object:
    """Makes boxes and their scores, of so many different `values`."""
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        return boxes(rng, count, dtype), (rng.integers(0, values, count) / 7).astype(dtype)

    return make


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    width, height = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return width * height / (sum(areas) - width * height)


def kept(corners: Array, scores: Array, threshold: float) -> Array:
    """The definition, box by box."""
    chosen: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if all(overlap(corners[i], corners[j]) <= threshold for j in chosen):
            chosen.append(i)
    return np.isin(np.arange(len(scores)), chosen)


for threshold in (0.0, 0.3, 1.0):
    row("nms_mask", lambda b, s, t=threshold: F.nms_mask(b, s, t),
        [scored(20), scored(9, f8), scored(12, values=3), scored(0), scored(1)],
        lambda b, s, t=threshold: kept(b, s, t), label=f"{threshold}", errors=(
            Bad(lambda: F.nms(fw.zeros(2, 3), fw.zeros(2), 0.5), "nms: boxes (2, 3) and scores"),
            Bad(lambda: F.nms(fw.zeros(2, 4), fw.zeros(2), 2), "nms: iou_threshold is 2"),
            Bad(lambda: F.nms(fw.zeros(2, 4, dtype=fw.int64), fw.zeros(2), 0.5),
                "nms: takes real floating point numbers")))


def regions(count: int, dtype: np.dtype = f4) -> object:
    """Makes two feature maps and boxes, some of which reach out of them."""
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        rois = boxes(rng, count, dtype) * 2.5 - 2
        images = rng.integers(0, 2, (count, 1)).astype(dtype)
        return rng.uniform(-3, 3, (2, 3, 7, 6)).astype(dtype), \
            np.concatenate([images, rois], 1).astype(dtype)

    return make


def pixel(plane: Array, y: float, x: float) -> float:
    """A value between pixels; 0 where it is more than a pixel outside."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    upper, lower = (plane[r, left] * (1 - (x - left)) + plane[r, right] * (x - left)
                    for r in (top, bottom))
    return upper * (1 - (y - top)) + lower * (y - top)


def aligned(x: Array, rois: Array, size: tuple[int, int], scale: float, samples: int, half: bool
            ) -> Array:
    """The definition, sample by sample."""
    out = np.zeros((len(rois), x.shape[1], *size))
    for k, c, i, j in np.ndindex(out.shape):
        x1, y1, x2, y2 = rois[k, 1:] * scale - (0.5 if half else 0.0)
        width, height = (x2 - x1, y2 - y1) if half else (max(x2 - x1, 1), max(y2 - y1, 1))
        places = [(s + 0.5) / samples for s in range(samples)]
        out[k, c, i, j] = math.fsum(
            pixel(x[int(rois[k, 0]), c], y1 + (i + a) * height / size[0],
                  x1 + (j + b) * width / size[1]) for a in places for b in places) / samples ** 2
    return out


for size, scale, samples, half in (((2, 3), 1.0, 2, False), ((1, 2), 0.5, 1, True),
                                   ((3, 2), 0.8, 3, True)):
    row("roi_align", lambda x, r, p=(size, scale, samples, half): F.roi_align(x, r, *p),
        [regions(4), regions(3, f8), regions(0)],
        lambda x, r, p=(size, scale, samples, half): aligned(x, r, *p), label=f"{size}, {half}",
        tolerance=1e-5, smooth=False, grad=False, errors=(
            Bad(lambda: F.roi_align(fw.zeros(1, 1, 2, 2), fw.zeros(1, 4), 1), "roi_align: input"),
            Bad(lambda: F.roi_align(fw.zeros(1, 1, 2, 2), fw.zeros(1, 5), 0),
                "roi_align: output_size must be at least 1"),
            Bad(lambda: F.roi_align(fw.zeros(1, 1, 2, 2), fw.ones(1, 5), 1), "out of range")))
PLACES = [[1.0, -1, 0.5, 3, 4], [0.0, 2, 1, 9, 5]]
row("roi_align", lambda x: F.roi_align(x, fw.tensor(PLACES, dtype=x.dtype, device=x.device), 2),
    [lambda rng: (rng.uniform(-3, 3, (2, 1, 4, 5)).astype(f8),)],
    lambda x: aligned(x, np.array(PLACES), (2, 2), 1.0, 2, False), label="of fixed boxes",
    tolerance=1e-5)
