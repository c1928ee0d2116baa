"""Windows over any axes under NumPy's name."""

from __future__ import annotations

from typing import Any

from ...arrays.shapes import axis_of, listed
from ...core.tensor import Tensor, as_tensor
from ...errors import ShapeError
from ...ops.shape.window import unfold

__all__ = ["sliding_window_view"]


def sliding_window_view(x: Tensor, window_shape: Any, axis: Any = None) -> Tensor:
    """All windows of `x`: the axes of their places, then those of the windows.

    Args:
        window_shape: a size for each axis of `axis`, or one number.
        axis: the axes along which windows move. Default None: all.

    Raises:
        ShapeError: there are not as many sizes as axes, or a window is larger than `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.lib.stride_tricks.sliding_window_view(fw.arange(4), 3)
        tensor([[0, 1, 2],
                [1, 2, 3]])
    """
    x = as_tensor("sliding_window_view", x)
    sizes = listed("sliding_window_view", window_shape)
    axes = range(x.ndim) if axis is None else [
        axis_of("sliding_window_view", a, x.ndim) for a in listed("sliding_window_view", axis)]
    if len(sizes) != len(axes):
        raise ShapeError(f"sliding_window_view: {len(sizes)} window sizes for {len(axes)} axes",
                         "pass one size for each axis, and name the axes by axis=")
    for size, at in zip(sizes, axes):
        x = unfold(x, at, size, 1)
    return x
