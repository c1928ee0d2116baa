"""Dropout layers: they zero elements or channels at random, in training mode only."""

from __future__ import annotations

from collections.abc import Callable

from ...arguments import check_fraction
from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = check_fraction(type(self).__name__, "p", p), inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """x, while training with elements set to 0 with probability p and the others / (1 - p)."""

    function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (n, channels, length) or (channels, length)."""

    function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """Dropout of whole channels of images (n, channels, h, w)."""

    function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """Dropout of whole channels of volumes (n, channels, d, h, w) or (channels, d, h, w)."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout to the lowest value of SELU, such that mean 0 and variance 1 stay."""

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels of (n, channels, ...)."""

    function = staticmethod(F.feature_alpha_dropout)
