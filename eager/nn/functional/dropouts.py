"""Dropout: sets random elements or channels to zero."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...arguments import check_fraction
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.elementwise.pointwise import cast, greater_equal
from ...ops.random import generator
from .activation import SELU_ALPHA, SELU_SCALE
from .inputs import store_inplace

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d",
           "feature_alpha_dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`input` with random elements set to 0 and the others divided by 1 - p.

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    Args:
        input: numbers of any shape.
        p: the probability of each element to become 0, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default True.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1, in training.
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.unique_values(fw.nn.functional.dropout(fw.ones(1000), p=0.75))
        tensor([0., 4.])
    """
    if not training or check_fraction("dropout", "p", p) == 0:
        return input
    return store_inplace("dropout", input, _scaled(input, p, input.shape), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` with random channels set to 0 and the others divided by 1 - p.

    Args:
        input: (n, channels, length) or (channels, length).
        p: the probability of each channel to become 0, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default True.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1.
        ShapeError: `input` has neither 2 nor 3 axes.

    Example:
        >>> import fusewire as fw
        >>> out = fw.nn.functional.dropout1d(fw.ones((8, 3, 5)))
        >>> fw.all(out == out[..., :1]).item()
        True
    """
    return _channels("dropout1d", input, p, training, inplace, (2, 3), input.ndim - 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` with random channels set to 0 and the others divided by 1 - p.

    Axis 0 is always that of samples, as in PyTorch: for one image without it use dropout1d on
    (channels, height * width).

    Args:
        input: (n, channels, height, width) or (n, channels, length). (n, channels) gives a
            warning, and single elements are dropped.
        p: the probability of each channel to become 0, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default True.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1.
        ShapeError: `input` has neither 2, 3 nor 4 axes.

    Example:
        >>> import fusewire as fw
        >>> out = fw.nn.functional.dropout2d(fw.ones((8, 3, 5, 5)))
        >>> fw.all(out == out[..., :1, :1]).item()
        True
    """
    if input.ndim == 2:
        warnings.warn(f"dropout2d: {input.shape} has no axes of space: single elements are dropped",
                      stacklevel=2)
        return dropout(input, p, training, inplace)
    return _channels("dropout2d", input, p, training, inplace, (3, 4), 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
              ) -> Tensor:
    """`input` with random channels set to 0 and the others divided by 1 - p.

    Args:
        input: (n, channels, depth, height, width) or (channels, depth, height, width).
        p: the probability of each channel to become 0, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default True.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1.
        ShapeError: `input` has neither 4 nor 5 axes.

    Example:
        >>> import fusewire as fw
        >>> out = fw.nn.functional.dropout3d(fw.ones((8, 3, 2, 2, 2)))
        >>> fw.all(out == out[..., :1, :1, :1]).item()
        True
    """
    return _channels("dropout3d", input, p, training, inplace, (4, 5), input.ndim - 3)


def _channels(name: str, input: Tensor, p: float, training: bool, inplace: bool,
              allowed: tuple[int, int], lead: int) -> Tensor:
    """`input` with random parts dropped; a part is all elements with equal first `lead` indices."""
    check_fraction(name, "p", p)
    if input.ndim not in allowed:
        raise ShapeError(f"{name}: takes {allowed[0]} or {allowed[1]} axes, got {input.shape}",
                         "dropout drops single elements of tensors with any axes")
    if not training or p == 0:
        return input
    return store_inplace(name, input, _scaled(input, p, _spread(input, lead)), inplace)


def _spread(input: Tensor, lead: int) -> tuple[Any, ...]:
    """The shape of a mask that is constant over the axes after the first `lead`."""
    return (*input.shape[:lead], *(1,) * (input.ndim - lead))


def _scaled(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    if p == 1:
        return input * 0.0
    return input * (_keep_mask(input, p, shape) * (1.0 / (1.0 - p)))


def _keep_mask(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    """1 with probability 1 - p, else 0, in the dtype of `input`."""
    return cast(greater_equal(generator.rand(shape, device=input.device), p), input.dtype)


# ---- for networks of SELUs: mean and variance stay
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
                  ) -> Tensor:
    """`input` with random elements set to the lowest value of SELU, then scaled and shifted.

    An input of mean 0 and variance 1 keeps both.
    Klambauer et al., "Self-normalizing neural networks", arXiv 1706.02515.

    Args:
        input: real numbers of any shape.
        p: the probability of each element to be replaced, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default False.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1.

    Example:
        >>> import fusewire as fw
        >>> out = fw.nn.functional.alpha_dropout(fw.ones(1000), training=True)
        >>> fw.unique_values(out).shape
        (2,)
    """
    check_fraction("alpha_dropout", "p", p)
    if not training or p == 0:
        return input
    return store_inplace("alpha_dropout", input, _alpha(input, p, input.shape), inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False,
                          inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: each channel of a sample is replaced or kept.

    Args:
        input: (n, channels, ...).
        p: the probability of each channel to be replaced, from 0 to 1. Default 0.5.
        training: False returns `input` itself. Default False.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `p` is not from 0 to 1.
        ShapeError: `input` has fewer than 2 axes.

    Example:
        >>> import fusewire as fw
        >>> out = fw.nn.functional.feature_alpha_dropout(fw.ones((8, 3, 5)), training=True)
        >>> fw.all(out == out[..., :1]).item()
        True
    """
    check_fraction("feature_alpha_dropout", "p", p)
    if input.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: takes (n, channels, ...), got {input.shape}",
                         "alpha_dropout drops single elements of tensors with any axes")
    if not training or p == 0:
        return input
    out = _alpha(input, p, _spread(input, 2))
    return store_inplace("feature_alpha_dropout", input, out, inplace)


def _alpha(input: Tensor, p: float, shape: tuple[Any, ...]) -> Tensor:
    if p == 1:
        return input * 0.0
    lowest = SELU_ALPHA * SELU_SCALE
    scale = 1 / math.sqrt((lowest * lowest * p + 1) * (1 - p))
    mask = _keep_mask(input, p, shape)
    return input * (mask * scale) + ((mask - 1) * (lowest * scale) + lowest * scale * p)
