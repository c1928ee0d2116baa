"""Softmax layers."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import ShapeError
from .. import functional as F
from .activation_base import ActivationLayer

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongAxis(ActivationLayer):
    """Base of layers that normalize along the axis `dim`."""

    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        self._set(dim=dim)


class Softmax(_AlongAxis):
    """exp(x) divided by its sum along `dim`, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_AlongAxis):
    """Softmax of -x, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongAxis):
    """The logarithm of Softmax along `dim`, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(ActivationLayer):
    """Softmax over the channels of images (n, channels, h, w) or (channels, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: takes (n, channels, h, w) or (channels, h, w), got "
                             f"{input.shape}", "nn.Softmax(dim) takes any axes")
        return F.softmax(input, -3)
