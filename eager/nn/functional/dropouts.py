"""Dropout: parts of a tensor set to zero at random."""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_fraction
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.elementwise.pointwise import cast, greater_equal
from ...ops.random import generator
from .activation import SELU_ALPHA, SELU_SCALE
from .inplace import placed

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d",
           "feature_alpha_dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`input` with elements set to 0 with probability p and the others divided by 1 - p.

    `input` itself where not `training` or p is 0. Srivastava et al., "Dropout: a simple way to
    prevent neural networks from overfitting" (2014).
    """
    if not training or check_fraction("dropout", "p", p) == 0:
        return input
    return placed("dropout", input, _scaled(input, p, input.shape), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` (n, channels, length) or (channels, length), with whole channels dropped."""
    return _channels("dropout1d", input, p, training, inplace, (2, 3), input.ndim - 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` (n, channels, height, width) or (n, channels, length), with whole channels dropped.

    Three axes are a batch, as they are for PyTorch: of one image dropout1d drops the channels.
    """
    return _channels("dropout2d", input, p, training, inplace, (3, 4), 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` (n, channels, d, h, w) or (channels, d, h, w), with whole channels dropped."""
    return _channels("dropout3d", input, p, training, inplace, (4, 5), input.ndim - 3)


def _channels(name: str, input: Tensor, p: float, training: bool, inplace: bool,
              allowed: tuple[int, int], lead: int) -> Tensor:
    """`input` with parts dropped that are one number for its first `lead` axes together."""
    check_fraction(name, "p", p)
    if input.ndim not in allowed:
        raise ShapeError(f"{name}: takes {allowed[0]} or {allowed[1]} axes, got {input.shape}",
                         "dropout drops single elements of tensors with any axes")
    if not training or p == 0:
        return input
    return placed(name, input, _scaled(input, p, _spread(input, lead)), inplace)


def _spread(input: Tensor, kept: int) -> tuple[Any, ...]:
    """The shape of a mask that is the same all over the axes after the first `kept`."""
    return (*input.shape[:kept], *(1,) * (input.ndim - kept))


def _scaled(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    if p == 1:
        return input * 0.0
    return input * (_kept(input, p, shape) * (1.0 / (1.0 - p)))


def _kept(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    """1 with probability 1 - p, else 0, in the dtype of `input`."""
    return cast(greater_equal(generator.rand(shape, device=input.device), p), input.dtype)


# ---- for networks of SELUs: mean and variance stay what they are
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
                  ) -> Tensor:
    """`input` with elements set to the lowest value of SELU with probability p, and all then scaled
    and shifted so that mean 0 and variance 1 stay: Klambauer et al., arXiv 1706.02515.
    """
    check_fraction("alpha_dropout", "p", p)
    if not training or p == 0:
        return input
    return placed("alpha_dropout", input, _alpha(input, p, input.shape), inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False,
                          inplace: bool = False) -> Tensor:
    """`input` (n, channels, ...) with whole channels dropped as `alpha_dropout` does."""
    check_fraction("feature_alpha_dropout", "p", p)
    if input.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: takes (n, channels, ...), got {input.shape}",
                         "alpha_dropout drops single elements of tensors with any axes")
    if not training or p == 0:
        return input
    return placed("feature_alpha_dropout", input, _alpha(input, p, _spread(input, 2)), inplace)


def _alpha(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    if p == 1:
        return input * 0.0
    lowest = SELU_ALPHA * SELU_SCALE
    scale = 1 / math.sqrt((lowest * lowest * p + 1) * (1 - p))
    kept = _kept(input, p, shape)
    return input * (kept * scale) + ((kept - 1) * (lowest * scale) + lowest * scale * p)
