"""Approximates derivatives and integrals of sampled functions by differences and trapezoids."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, whole
from ...arrays import dtypes
from ...arrays.shapes import axes_of, axis_of
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ..create import full
from ..elementwise.pointwise import cast
from ..shape.concat import concat_same_dtype
from ..shape.view import expand_to, reshape, slice_axes
from .cumulative import cumsum, diff

__all__ = ["cumulative_trapezoid", "gradient"]


def gradient(x: Tensor, spacing: Any = 1.0, axis: Any = None, edge_order: int = 1
             ) -> tuple[Tensor, ...]:
    """The derivatives of `x` along each of `axis`, of its shape: central differences, as a tuple.

    Args:
        x: values of a function at the points of a grid.
        spacing: the distance of neighbours, a number; or a vector of the coordinates along the
            axis; or a list with one of them for each axis. Default 1.
        axis: one axis or several. Default None: all of them.
        edge_order: 1 or 2, the order of accuracy of the differences at both ends. Default 1.

    Raises:
        ShapeError: an axis has fewer than edge_order + 1 elements, or coordinates do not fit.
        ArgumentError: `edge_order` has another value, or there are not as many spacings as axes.

    Example:
        >>> import fusewire as fw
        >>> fw.gradient(fw.tensor([1.0, 4.0, 9.0, 16.0]))
        (tensor([3., 4., 6., 7.]),)
    """
    x = as_tensor("gradient", x)
    x = x if dtypes.is_float(x.dtype) else cast(x, dtypes.DEFAULT_FLOAT)
    if whole(edge_order) not in (1, 2):
        raise ArgumentError(f"gradient: edge_order={edge_order!r} is not known", "it is 1 or 2")
    axes = axes_of("gradient", axis, x.ndim)
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(f"gradient: {len(steps)} spacings for {len(axes)} axes",
                            "give one for each axis, or one number for all")
    return tuple(_derivative(x, at, step, edge_order) for at, step in zip(axes, steps))


def _derivative(x: Tensor, at: int, step: Any, edge_order: int) -> Tensor:
    n = x.shape[at]
    if n < edge_order + 1:
        raise ShapeError(f"gradient: axis {at} of shape {x.shape} has fewer than "
                         f"{edge_order + 1} elements", "leave the axis out")
    gaps = _gaps(x, at, step)
    slopes = diff(x, axis=at) / gaps  # between neighbours
    if n == 2:
        return expand_to(slopes, x.shape)
    widths = [_part(gaps, at, start, n - 2) for start in (0, 1)]
    before, after = (_part(slopes, at, start, n - 2) for start in (0, 1))
    inner = (before * widths[1] + after * widths[0]) / (widths[0] + widths[1])
    first, last = (_part(slopes, at, i, 1) for i in (0, n - 2))
    if edge_order == 2:
        first = first + _bend(slopes, gaps, at, 0, 0)
        last = last - _bend(slopes, gaps, at, n - 3, 1)
    return concat_same_dtype([first, inner, last], at)


def _bend(slopes: Tensor, gaps: Tensor, at: int, i: Any, outer: int) -> Tensor:
    """The change of the slope from the middle of an outer interval to its end."""
    slope = [_part(slopes, at, i + k, 1) for k in (0, 1)]
    gap = [_part(gaps, at, i + k, 1) for k in (0, 1)]
    return (slope[0] - slope[1]) * gap[outer] / (gap[0] + gap[1])


def _gaps(x: Tensor, at: int, step: Any) -> Tensor:
    """The distances of neighbours along an axis, with size 1 along the others."""
    shape = tuple(x.shape[at] - 1 if a == at else 1 for a in range(x.ndim))
    if not isinstance(step, dtypes.SCALARS):
        step = cast(as_tensor("gradient", step), x.dtype)
        if step.ndim == 0:
            return expand_to(step, shape)
        if step.shape != (x.shape[at],):
            raise ShapeError(f"gradient: coordinates {step.shape} for axis {at} of shape {x.shape}",
                             "give one for each element along the axis")
        return reshape(diff(step), shape)
    return full(shape, step, x.dtype, x.device)


def _part(x: Tensor, at: int, start: Any, count: Any) -> Tensor:
    """`count` elements of `x` along an axis, from `start` on."""
    return slice_axes(x, tuple(start if a == at else 0 for a in range(x.ndim)), (1,) * x.ndim,
                      tuple(count if a == at else n for a, n in enumerate(x.shape)))


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, dx: Any = 1.0, axis: int = -1
                         ) -> Tensor:
    """The integrals from the first point to each further one, by trapezoids; `axis` is 1 shorter.

    Args:
        y: values of a function.
        x: the coordinates, a vector or a tensor that broadcasts with `y`. Default None.
        dx: the distance of neighbours where there are no coordinates. Default 1.
        axis: Default -1.

    Raises:
        ShapeError: `y` is 0-d or has no element along the axis, or `x` does not fit.

    Example:
        >>> import fusewire as fw
        >>> fw.cumulative_trapezoid(fw.tensor([1.0, 3.0, 5.0]))
        tensor([2., 6.])
    """
    check_number("cumulative_trapezoid", "dx", dx, real=False)
    y = as_tensor("cumulative_trapezoid", y)
    at = axis_of("cumulative_trapezoid", axis, y.ndim)
    y = y if dtypes.is_float(y.dtype) else cast(y, dtypes.DEFAULT_FLOAT)
    n = y.shape[at]
    if n == 0:
        raise ShapeError(f"cumulative_trapezoid: axis {at} of shape {y.shape} is empty",
                         "an integral needs one point or more")
    means = (_part(y, at, 0, n - 1) + _part(y, at, 1, n - 1)) * 0.5
    if x is None:
        return cumsum(means * dx, at)
    points = as_tensor("cumulative_trapezoid", x)
    if points.ndim == 1 and y.ndim > 1:
        points = reshape(points, (-1, *(1,) * (y.ndim - at - 1)))
    if points.ndim < y.ndim - at or points.shape[at - y.ndim] != n:
        raise ShapeError(f"cumulative_trapezoid: coordinates {points.shape} for axis {at} of "
                         f"shape {y.shape}", "give one for each element along the axis")
    return cumsum(means * diff(points, axis=at - y.ndim), at)
