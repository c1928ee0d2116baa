"""Replaces a slice along one axis by other values and returns a new tensor."""

from __future__ import annotations

from typing import Any

from ...arguments import check_whole, whole
from ...arrays.shapes import axis_of, slice_of_size
from ...core.tensor import Tensor, as_tensor
from ...errors import IndexingError, ShapeError
from ..shape.put_slice import put_slice
from ..shape.view import expand_dims
from .scatter import fitting

__all__ = ["select_scatter", "slice_scatter"]


def select_scatter(x: Tensor, src: Tensor, axis: int, index: int) -> Tensor:
    """`x` with `src` in the place of the slice at `index` along `axis`.

    Args:
        src: a tensor of the shape of `x` without `axis`.
        axis: along which the slice is counted.
        index: an integer; a negative one counts from the end.

    Raises:
        IndexingError: `index` is out of range.
        ShapeError: `src` has another shape.
        DTypeError: `src` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.select_scatter(fw.zeros(2, 3), fw.ones(3), 0, 1)
        tensor([[0., 0., 0.],
                [1., 1., 1.]])
    """
    x = as_tensor("select_scatter", x)
    at, number = axis_of("select_scatter", axis, x.ndim), whole(index)
    n = x.shape[at]
    if number is None or not -n <= number < n:
        raise IndexingError(f"select_scatter: index {index!r} is out of range for axis {at} of "
                            f"shape {x.shape}", f"indices go from {-n} to {n - 1}")
    src = fitting("select_scatter", x, src)
    _check_shape("select_scatter", src, (*x.shape[:at], *x.shape[at + 1:]))
    return _replaced(x, expand_dims(src, at), at, number + n if number < 0 else number, 1)


def slice_scatter(
    x: Tensor, src: Tensor, axis: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:
    """`x` with `src` in the place of the slice start:end:step along `axis`.

    Args:
        src: a tensor of the shape of that slice.
        axis: Default 0.
        start, end: limits of the slice, as in Python. Default None: the ends of the axis.
        step: 1 or more. Default 1.

    Raises:
        ArgumentError: `step` is below 1.
        ShapeError: `src` has another shape than the slice.
        DTypeError: `src` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.slice_scatter(fw.zeros(5), fw.tensor([1.0, 2.0]), start=1, end=4, step=2)
        tensor([0., 1., 0., 2., 0.])
    """
    x = as_tensor("slice_scatter", x)
    at = axis_of("slice_scatter", axis, x.ndim)
    check_whole("slice_scatter", "step", step, 1)
    for name, limit in (("start", start), ("end", end)):
        if limit is not None:
            check_whole("slice_scatter", name, limit)
    first, _, count = slice_of_size(slice(start, end, step), x.shape[at])
    src = fitting("slice_scatter", x, src)
    _check_shape("slice_scatter", src, (*x.shape[:at], count, *x.shape[at + 1:]))
    return _replaced(x, src, at, first, step)


def _check_shape(name: str, src: Tensor, shape: tuple[Any, ...]) -> None:
    if src.shape != shape:
        raise ShapeError(f"{name}: values of shape {src.shape} for a slice of shape {shape}",
                         "reshape them, or repeat them with fw.broadcast_to")


def _replaced(x: Tensor, src: Tensor, axis: int, first: Any, step: int) -> Tensor:
    start = tuple(first if a == axis else 0 for a in range(x.ndim))
    return put_slice(x, src, start, tuple(step if a == axis else 1 for a in range(x.ndim)))
