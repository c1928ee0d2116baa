"""Softmax and its kin: weights along an axis."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import iota
from ...ops.elementwise.pointwise import astype, cast, equal
from ...ops.indexing.search import argmax
from ...ops.random.distributions import gumbel
from ...ops.reduction import softmax as _softmax

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(input) divided by its sum along `dim`, of the shape of `input`."""
    return _softmax.softmax(_in(input, dtype), _need_dim("softmax", dim, input))


def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """The softmax of -input along `dim`."""
    return _softmax.softmax(_in(-input, dtype), _need_dim("softmin", dim, input))


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax along `dim`, of the shape of `input`."""
    return _softmax.log_softmax(_in(input, dtype), _need_dim("log_softmax", dim, input))


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10,
                   dim: int = -1) -> Tensor:
    """Samples along `dim` of classes with these logits, of their shape: Jang et al., 1611.01144.

    Soft ones by a softmax at the temperature `tau`; `hard` ones are one-hot, with the gradient of
    the soft ones. `eps` has no effect.
    """
    noise = gumbel(size=logits.shape, dtype=logits.dtype)
    soft = _softmax.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = argmax(soft, dim, keepdims=True)
    numbers = iota(soft.shape, dim, chosen.dtype, soft.device)
    one_hot = cast(equal(numbers, chosen), soft.dtype)
    return one_hot - soft.detach() + soft


def _in(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else astype(input, dtype)


def _need_dim(name: str, dim: int | None, input: Tensor) -> int:
    if dim is None:
        raise ShapeError(f"{name}: along which axis of shape {input.shape}?",
                         "pass dim; for (n, classes) it is dim=1")
    return dim
