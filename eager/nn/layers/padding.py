"""Padding layers: they add elements around the last one, two or three axes."""

from __future__ import annotations

from typing import Any

from ...arguments import per_axis
from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]


class _Pad(Module):
    """Base of padding layers: `padding` is (before, after) for each axis, the last axis first."""

    axes: int
    mode: str
    value: Any = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = per_axis(type(self).__name__, "padding", padding, 2 * self.axes)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """x (..., l) with `value` added before and after.

    The result is (..., before + l + after).

    Args:
        padding: number of elements added on every side, or (before, after); negative numbers remove
            elements.
        value: the added elements.

    Raises:
        ShapeError: padding is neither 1 nor 2 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ConstantPad1d((2, 1), 9.0)(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[9., 9., 1., 2., 3., 9.]])
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """x (..., h, w) with `value` added around.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom); negative
            numbers remove elements.
        value: the added elements.

    Raises:
        ShapeError: padding is neither 1 nor 4 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(fw.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[9., 1., 2.],
                [9., 3., 4.],
                [9., 9., 9.]])
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """x (..., d, h, w) with `value` added around.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom, front, back);
            negative numbers remove elements.
        value: the added elements.

    Raises:
        ShapeError: padding is neither 1 nor 6 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ConstantPad3d((1, 1, 0, 0, 2, 0), 9.0)(fw.zeros(1, 3, 4, 5)).shape
        (1, 5, 4, 7)
    """

    axes = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """x (..., l) with zeros added before and after.

    The result is (..., before + l + after).

    Args:
        padding: number of elements added on every side, or (before, after); negative numbers remove
            elements.

    Raises:
        ShapeError: padding is neither 1 nor 2 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ZeroPad1d((2, 1))(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0., 0., 1., 2., 3., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """x (..., h, w) with zeros added around.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom); negative
            numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 4 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ZeroPad2d((1, 0, 0, 1))(fw.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[0., 1., 2.],
                [0., 3., 4.],
                [0., 0., 0.]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """x (..., d, h, w) with zeros added around.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom, front, back);
            negative numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 6 numbers, or it removes more than x has.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ZeroPad3d((1, 1, 0, 0, 2, 0))(fw.zeros(1, 3, 4, 5)).shape
        (1, 5, 4, 7)
    """


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """x (..., l) extended by its elements, mirrored at the ends.

    The elements at the ends are not repeated. The result is (..., before + l + after).

    Args:
        padding: number of elements added on every side, or (before, after); negative numbers remove
            elements.

    Raises:
        ShapeError: padding is neither 1 nor 2 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReflectionPad1d((2, 1))(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 2., 1., 2., 3., 2.]])
    """

    axes = 1


class ReflectionPad2d(_ReflectionPad):
    """x (..., h, w) extended by its elements, mirrored at the edges.

    The elements at the edges are not repeated. Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom); negative
            numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 4 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReflectionPad2d((1, 0, 0, 1))(fw.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[2., 1., 2.],
                [4., 3., 4.],
                [2., 1., 2.]])
    """

    axes = 2


class ReflectionPad3d(_ReflectionPad):
    """x (..., d, h, w) extended by its elements, mirrored at the faces.

    The elements at the faces are not repeated. Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom, front, back);
            negative numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 6 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReflectionPad3d((1, 1, 0, 0, 2, 0))(fw.zeros(1, 3, 4, 5)).shape
        (1, 5, 4, 7)
    """

    axes = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """x (..., l) extended by copies of the elements at its ends.

    The result is (..., before + l + after).

    Args:
        padding: number of elements added on every side, or (before, after); negative numbers remove
            elements.

    Raises:
        ShapeError: padding is neither 1 nor 2 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReplicationPad1d((2, 1))(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 1., 2., 3., 3.]])
    """

    axes = 1


class ReplicationPad2d(_ReplicationPad):
    """x (..., h, w) extended by copies of the elements at its edges.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom); negative
            numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 4 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReplicationPad2d((1, 0, 0, 1))(fw.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 1., 2.],
                [3., 3., 4.],
                [3., 3., 4.]])
    """

    axes = 2


class ReplicationPad3d(_ReplicationPad):
    """x (..., d, h, w) extended by copies of the elements at its faces.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom, front, back);
            negative numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 6 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReplicationPad3d((1, 1, 0, 0, 2, 0))(fw.zeros(1, 3, 4, 5)).shape
        (1, 5, 4, 7)
    """

    axes = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """x (..., l) extended by the elements of the opposite end.

    The result is (..., before + l + after).

    Args:
        padding: number of elements added on every side, or (before, after); negative numbers remove
            elements.

    Raises:
        ShapeError: padding is neither 1 nor 2 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CircularPad1d((2, 1))(fw.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 3., 1., 2., 3., 1.]])
    """

    axes = 1


class CircularPad2d(_CircularPad):
    """x (..., h, w) extended by the elements of the opposite side.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom); negative
            numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 4 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CircularPad2d((1, 0, 0, 1))(fw.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[2., 1., 2.],
                [4., 3., 4.],
                [2., 1., 2.]])
    """

    axes = 2


class CircularPad3d(_CircularPad):
    """x (..., d, h, w) extended by the elements of the opposite side.

    Each size grows by the two numbers of its axis.

    Args:
        padding: number of elements added on every side, or (left, right, top, bottom, front, back);
            negative numbers remove elements.

    Raises:
        ShapeError: padding is neither 1 nor 6 numbers, it removes more than x has, or an axis of x
            is empty.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CircularPad3d((1, 1, 0, 0, 2, 0))(fw.zeros(1, 3, 4, 5)).shape
        (1, 5, 4, 7)
    """

    axes = 3
