"""Defines Resize, which resizes each axis by weighted sums of neighbouring elements, its taps.

Positions and weights are arrays, or tensors for symbolic sizes, as in `eager/ops/layers/resize.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.errors import ImportModelError, ShapeError
from .....eager.ops.elementwise import pointwise
from .....eager.ops.layers.resize import (
    as_tensor,
    is_zero,
    numbered,
    repeated,
    scaled,
    varies,
    wide,
)
from .....eager.ops.shape.take import take
from ..runtime.table import Sizes, Tensor, operator
from ..runtime.values import check_room
from .shapes import axes_of

__all__: list[str] = []


@dataclass(frozen=True)
class ResizeAttributes:
    """The attributes of Resize."""

    mode: str = "nearest"
    positions: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    outside: float = 0.0
    inside_only: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class Along:
    """An axis: its size before and after, the scale between them, and the region that is read."""

    n: int
    size: int
    scale: Any  # a float, or a tensor if it is symbolic
    begin: float = 0.0
    end: float = 1.0

    @property
    def whole(self) -> Any:
        """The new size before rounding."""
        return wide(self.n) * self.scale

    @property
    def stays(self) -> bool:
        """True if the axis is unchanged, for all sizes."""
        return is_zero(self.size - self.n) and (varies(self.scale) or self.scale == 1)


def _half_pixel(y: Any, a: Along) -> Any:
    return (y + 0.5) / a.scale - 0.5


def _pytorch(y: Any, a: Along) -> Any:
    return np.where(a.whole != 1, _half_pixel(y, a), -0.5)


def _symmetric(y: Any, a: Along) -> Any:
    """Positions relative to the middle, which rounding of the size does not move."""
    return wide(a.n) / 2 * (1 - wide(a.size) / a.whole) + _half_pixel(y, a)


def _corners(y: Any, a: Along) -> Any:
    return y * (wide(a.n) - 1) / _gaps(a)


def _cropped(y: Any, a: Along) -> Any:
    part = (a.end - a.begin) * (wide(a.n) - 1)
    return a.begin * (wide(a.n) - 1) + np.where(a.whole != 1, y * part / _gaps(a), part / 2)


def _gaps(a: Along) -> Any:
    """The number of gaps between elements of the result; 1 for a single element, at position 0."""
    return np.where(a.whole != 1, a.whole - 1, 1)


POSITIONS: dict[str, Any] = {
    "half_pixel": _half_pixel, "pytorch_half_pixel": _pytorch, "align_corners": _corners,
    "half_pixel_symmetric": _symmetric, "tf_crop_and_resize": _cropped,
    "asymmetric": lambda y, a: y / a.scale,
    "tf_half_pixel_for_nn": lambda y, a: (y + 0.5) / a.scale,
}
_LOCAL_MODES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric",
                "tf_half_pixel_for_nn")
_NEAREST: dict[str, Any] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "floor": np.floor, "ceil": np.ceil,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def _linear(x: Any, a: float) -> Any:
    """The weight of an element at distance `x`."""
    return np.minimum(np.maximum(1 - np.abs(x), 0), 1)


def _cubic(x: Any, a: float) -> Any:
    """Keys's weight (1981) of an element at distance `x`."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


_WEIGHTS: dict[str, Any] = {"linear": (_linear, 1), "cubic": (_cubic, 2)}


def taps(x: Any, a: Along, attributes: ResizeAttributes) -> tuple[Any, Any]:
    """The elements read for each position in `x`, and their weights; None if all weights are 1."""
    if attributes.mode == "nearest":
        return _inside(_NEAREST[attributes.nearest](x), a)[:, None], None
    weight, reach = _WEIGHTS[attributes.mode]
    shrunk = min(a.scale, 1.0) if attributes.antialias else 1.0
    width = math.ceil(reach / shrunk)
    at = np.floor(x)[:, None] + np.arange(1 - width, width + 1)
    weights = weight((at - x[:, None]) * shrunk, attributes.cubic)
    if attributes.inside_only:
        weights = np.where((at >= 0) & (at < a.n), weights, 0.0)
    if attributes.inside_only or attributes.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return _inside(at, a), weights


def _inside(at: Any, a: Along) -> Any:
    return np.minimum(np.maximum(at, 0), a.n - 1)


def _repeats(a: Along, attributes: ResizeAttributes) -> int:
    """The number of repetitions if the axis repeats each element, else 0.

    Two elements suffice to test it: in these modes a position reads only its neighbourhood.
    """
    times = a.size // a.n
    if attributes.mode != "nearest" or attributes.positions not in _LOCAL_MODES \
            or type(times) is not int or not is_zero(a.size - a.n * times) \
            or not (varies(a.scale) or a.scale == times):
        return 0
    two = Along(2, 2 * times, times)
    at, _ = taps(POSITIONS[attributes.positions](np.arange(2.0 * times), two), two, attributes)
    return times if np.array_equal(at[:, 0], np.arange(2).repeat(times)) else 0


def _resized(x: Tensor, axis: int, a: Along, attributes: ResizeAttributes) -> Tensor:
    """`x` with one axis resized."""
    times = _repeats(a, attributes)
    if times:
        return repeated(x, axis, times)
    positions = POSITIONS[attributes.positions](numbered(a.size, np.float64), a)
    at, weights = taps(positions, a, attributes)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    if attributes.mode == "nearest":
        out = take(x, as_tensor(at[:, 0].astype(np.int64), x), axis=axis)
    else:
        out = None
        for i, w in zip(at.T, weights.T):
            part = take(x, as_tensor(i.astype(np.int64), x), axis=axis) * \
                as_tensor(w.astype(x.dtype).reshape(shape), x)
            out = part if out is None else out + part
    if attributes.positions == "tf_crop_and_resize":
        beyond = as_tensor(((positions < 0) | (positions > a.n - 1)).reshape(shape), x)
        out = pointwise.where(beyond, attributes.outside, out)
    return out


def _rounded(x: float) -> int:
    return math.floor(x + 0.5)


def _sizes(shape: Any, axes: Any, scales: Any, sizes: Any, policy: str) -> list[tuple[int, float]]:
    """The new size of each axis, and its scale."""
    if scales:
        if len(scales) != len(axes):
            raise ShapeError(f"Resize: {len(scales)} scales for {len(axes)} axes")
        return [(scaled(shape[a], s), s) for a, s in zip(axes, scales)]
    if not sizes or len(sizes) != len(axes):
        raise ShapeError(f"Resize: there are neither scales nor sizes for the axes {axes}")
    if policy == "stretch":
        return [(n, wide(n) / wide(shape[a])) for a, n in zip(axes, sizes)]
    choose = min if policy == "not_larger" else max
    scale = choose(n / shape[a] for a, n in zip(axes, sizes))
    return [(_rounded(shape[a] * scale), scale) for a in axes]


@operator("Resize", since=11, settings=(1, 2))
def _resize(x: Tensor, roi: Sizes = None, scales: Sizes = None, sizes: Sizes = None,
            antialias: int = 0, axes: Any = None,
            coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
            exclude_outside: int = 0, extrapolation_value: float = 0.0,
            keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
            nearest_mode: str = "round_prefer_floor") -> Tensor:
    for name, table, chosen in (("coordinate_transformation_mode", POSITIONS,
                                 coordinate_transformation_mode),
                                ("nearest_mode", _NEAREST, nearest_mode),
                                ("mode", {"nearest": 0, **_WEIGHTS}, mode)):
        if chosen not in table:
            raise ImportModelError(f"Resize: unknown {name} {chosen!r}",
                                   f"known are {', '.join(table)}")
    attributes = ResizeAttributes(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a,
                                  extrapolation_value, bool(exclude_outside), bool(antialias))
    axes = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    new_sizes = _sizes(x.shape, axes, scales, sizes, keep_aspect_ratio_policy)
    check_room([n for n, _ in new_sizes], x.dtype)
    parts = roi if roi and attributes.positions == "tf_crop_and_resize" else \
        (0.0,) * len(axes) + (1.0,) * len(axes)
    out = x if dtypes.kind(x.dtype) == "f" or mode == "nearest" else x.astype("float32")
    for i, (axis, (size, scale)) in enumerate(zip(axes, new_sizes)):
        a = Along(x.shape[axis], size, scale, parts[i], parts[i + len(axes)])
        if not a.stays or attributes.positions == "tf_crop_and_resize":
            out = _resized(out, axis, a, attributes)
    return out.astype(x.dtype) if out.dtype != x.dtype else out


@operator("Resize", since=10, settings=(1,))
def _resize_by_scales(x: Tensor, scales: Sizes, mode: str = "nearest") -> Tensor:
    return _resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")


operator("Upsample", since=7, settings=(1,))(_resize_by_scales)
