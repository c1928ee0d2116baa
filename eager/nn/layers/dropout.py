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
    """x with elements set to 0 with probability p in training; of the shape of x.

    The other elements are divided by 1 - p, which preserves the mean. In evaluation the result is x
    itself. Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting"
    (2014).

    Args:
        p: probability of a 0, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Dropout(0.5)
        >>> layer(fw.ones(1000)).max(), layer.eval()(fw.ones(2))
        (tensor(2.), tensor([1., 1.]))
    """

    function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """x (n, c, l) or (c, l) with whole channels set to 0 in training; of the shape of x.

    The other channels are divided by 1 - p. In evaluation the result is x itself.

    Args:
        p: probability that a channel of a sample becomes 0, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].
        ShapeError: x does not have 2 or 3 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Dropout1d(1.0)(fw.ones(1, 2, 3))
        tensor([[[0., 0., 0.],
                 [0., 0., 0.]]])
    """

    function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """x (n, c, h, w) or (n, c, l) with whole channels set to 0 in training.

    The result has the shape of x. The other channels are divided by 1 - p. In evaluation the result
    is x itself. Three axes are a batch, as in PyTorch; Dropout1d drops the channels of one sample.

    Args:
        p: probability that a channel of a sample becomes 0, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].
        ShapeError: x does not have 3 or 4 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Dropout2d().eval()(fw.ones(1, 1, 2, 2))
        tensor([[[[1., 1.],
                  [1., 1.]]]])
    """

    function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """x (n, c, d, h, w) or (c, d, h, w) with whole channels set to 0 in training.

    The result has the shape of x. The other channels are divided by 1 - p. In evaluation the result
    is x itself.

    Args:
        p: probability that a channel of a sample becomes 0, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].
        ShapeError: x does not have 4 or 5 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Dropout3d()(fw.ones(2, 3, 4, 4, 4)).shape
        (2, 3, 4, 4, 4)
    """

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """x with elements set to the lowest value of SELU with probability p in training.

    The result has the shape of x. All elements are then scaled and shifted, which preserves mean 0
    and variance 1. In evaluation the result is x itself. Klambauer et al., arXiv 1706.02515.

    Args:
        p: probability of the lowest value, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].

    Example:
        >>> import fusewire as fw
        >>> fw.nn.AlphaDropout(0.2).eval()(fw.ones(3))
        tensor([1., 1., 1.])
    """

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels of x (n, channels, ...); of the shape of x.

    In evaluation the result is x itself.

    Args:
        p: probability that a channel of a sample is dropped, in [0, 1]. Default 0.5.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: p is not in [0, 1].
        ShapeError: x has one axis.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.FeatureAlphaDropout(0.2)(fw.ones(2, 3, 4)).shape
        (2, 3, 4)
    """

    function = staticmethod(F.feature_alpha_dropout)
