"""Softmax layers."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import ShapeError
from .. import functional as F
from .base import ActivationLayer

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongAxis(ActivationLayer):
    """Base of layers that normalize along the axis `dim`."""

    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        self._set(dim=dim)


class Softmax(_AlongAxis):
    """exp(x) divided by its sum along `dim`; the result has the shape and dtype of x.

    Args:
        dim: the axis. Default None, which is an error in the call.

    Raises:
        ShapeError: dim is None (raised by the call).
        AxisError: x has no axis dim.
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softmax(dim=1)(fw.tensor([[1.0, 1.0], [0.0, 100.0]]))
        tensor([[5.0e-01, 5.0e-01],
                [3.8e-44, 1.0e+00]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_AlongAxis):
    """Softmax of -x along `dim`; the result has the shape and dtype of x.

    Args:
        dim: the axis. Default None, which is an error in the call.

    Raises:
        ShapeError: dim is None (raised by the call).
        AxisError: x has no axis dim.
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softmin(dim=1)(fw.tensor([[1.0, 1.0], [0.0, 100.0]]))
        tensor([[5.0e-01, 5.0e-01],
                [1.0e+00, 3.8e-44]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongAxis):
    """The logarithm of Softmax along `dim`; the result has the shape and dtype of x.

    Args:
        dim: the axis. Default None, which is an error in the call.

    Raises:
        ShapeError: dim is None (raised by the call).
        AxisError: x has no axis dim.
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LogSoftmax(dim=1)(fw.tensor([[0.0, 100.0]]))
        tensor([[-100.,    0.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(ActivationLayer):
    """Softmax over the channels of (n, channels, h, w) or (channels, h, w).

    The result has the shape and dtype of x. nn.Softmax(dim) takes any axes.

    Raises:
        ShapeError: x does not have 3 or 4 axes.
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softmax2d()(fw.zeros(2, 1, 1))
        tensor([[[0.5]],
        <BLANKLINE>
                [[0.5]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: takes (n, channels, h, w) or (channels, h, w), got "
                             f"{input.shape}", "nn.Softmax(dim) takes any axes")
        return F.softmax(input, -3)
