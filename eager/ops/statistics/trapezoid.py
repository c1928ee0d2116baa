"""Integrates sampled functions by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number
from ...arrays.shapes import axis_of
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ..reduction import reduce
from ..shape.view import reshape, slice_axes
from .cumulative import diff

__all__ = ["trapezoid"]


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, axis: int = -1) -> Tensor:
    """The integral of the samples `y` along `axis` by the trapezoidal rule; 0 for one sample.

    Args:
        y: samples of the function.
        x: the positions of the samples: a vector, or a tensor that broadcasts with `y`.
            Default None: steps of `dx`.
        dx: the distance of two samples, without `x`. Default 1.
        axis: Default -1.

    Raises:
        ArgumentError: both `x` and `dx` are set.
        ShapeError: `x` is a vector of another size than `axis`.

    Example:
        >>> import fusewire as fw
        >>> fw.trapezoid(fw.tensor([1.0, 2.0, 4.0])), fw.trapezoid(fw.tensor([1.0, 2.0]), dx=0.5)
        (tensor(4.5), tensor(0.75))
    """
    y = as_tensor("trapezoid", y)
    at = axis_of("trapezoid", axis, y.ndim)
    areas = trapezoids("trapezoid", y, x, dx, at)
    return reduce.sum(areas, at - y.ndim)


def trapezoids(name: str, y: Tensor, x: Any, dx: Any, axis: int) -> Tensor:
    """The areas between neighbouring samples along `axis`."""
    if x is not None and dx is not None:
        raise ArgumentError(f"{name}: both x and dx={dx!r} are set", "leave one of them out")
    pairs = _part(y, axis, 1) + _part(y, axis, 0)
    if x is None:
        return pairs * (0.5 if dx is None else check_number(name, "dx", dx, real=False) * 0.5)
    return pairs * _steps(name, as_tensor(name, x), y, axis) * 0.5


def _part(y: Tensor, axis: int, start: int) -> Tensor:
    """`y` without its last sample along `axis` (start 0) or without its first one (start 1)."""
    n = y.shape[axis]
    size = tuple((n - 1 if n > 0 else 0) if a == axis else m for a, m in enumerate(y.shape))
    first = tuple(start if a == axis and n > 0 else 0 for a in range(y.ndim))
    return slice_axes(y, first, (1,) * y.ndim, size)


def _steps(name: str, x: Tensor, y: Tensor, axis: int) -> Tensor:
    """The distances of the positions `x`, with axes that fit those of `y`."""
    if x.ndim != 1:
        return diff(x, axis=axis - y.ndim)
    if x.shape[0] != y.shape[axis]:
        raise ShapeError(f"{name}: {x.shape[0]} positions for {y.shape[axis]} samples along axis "
                         f"{axis}", "give one position for each sample")
    return reshape(diff(x), (-1, *(1,) * (y.ndim - axis - 1)))
