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
    """x (..., l) with `value` added before and after."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """x (..., h, w) with `value` added around: padding is (left, right, top, bottom)."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """x (..., d, h, w) with `value` added around: padding is (left, right, top, bottom, front,
    back)."""

    axes = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """x (..., l) with zeros before and after."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """x (..., h, w) with zeros around: padding is (left, right, top, bottom).

    >>> import fusewire as fw
    >>> fw.nn.ZeroPad2d((1, 0, 0, 1))(fw.ones(1, 2, 2))
    tensor([[[0., 1., 1.],
             [0., 1., 1.],
             [0., 0., 0.]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """x (..., d, h, w) with zeros around: (left, right, top, bottom, front, back)."""


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """x (..., l) mirrored at its first and last element, which are not repeated."""

    axes = 1


class ReflectionPad2d(_ReflectionPad):
    """x (..., h, w) mirrored at its edges: padding is (left, right, top, bottom)."""

    axes = 2


class ReflectionPad3d(_ReflectionPad):
    """x (..., d, h, w) mirrored at its faces: (left, right, top, bottom, front, back)."""

    axes = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """x (..., l) with its first and last element repeated."""

    axes = 1


class ReplicationPad2d(_ReplicationPad):
    """x (..., h, w) with its edges repeated: padding is (left, right, top, bottom)."""

    axes = 2


class ReplicationPad3d(_ReplicationPad):
    """x (..., d, h, w) with its faces repeated: (left, right, top, bottom, front, back)."""

    axes = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """x (..., l) that goes on from its other end."""

    axes = 1


class CircularPad2d(_CircularPad):
    """x (..., h, w) that goes on from the other side: padding is (left, right, top, bottom)."""

    axes = 2


class CircularPad3d(_CircularPad):
    """x (..., d, h, w) that goes on from the other side: (left, right, top, bottom, front, back).
    """

    axes = 3
