"""Activations: functions of one tensor, of its shape."""

from __future__ import annotations

from typing import Any

from ...dispatch import replace
from ...errors import ShapeError
from ...ops import activation, pointwise
from ...ops import softmax as _softmax
from ...ops.pointwise import astype, where
from ...tensor import Tensor
from ...utils.arguments import check_choice

__all__ = [
    "elu", "gelu", "leaky_relu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus",
    "tanh",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), of the shape of `input`; with `inplace` the input itself is changed."""
    out = pointwise.relu(input)
    return replace(input, out) if inplace else out


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input)), of the shape of `input`."""
    return pointwise.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, of the shape of `input`."""
    return pointwise.tanh(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of it ("tanh": an approximation)."""
    check_choice("gelu", "approximate", approximate, ("none", "tanh"))
    return activation.gelu(input, approximate)


def silu(input: Tensor) -> Tensor:
    """input * sigmoid(input), of the shape of `input`."""
    return activation.silu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    return activation.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return activation.elu(input, alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; `input` itself where beta * input is above `threshold`."""
    scaled = input if beta == 1 else input * beta
    out = activation.softplus(scaled)
    out = out if beta == 1 else out / beta
    # Above 20 a float32 softplus equals its argument anyway, so the choice need not be made.
    return out if threshold >= 20 else where(scaled > threshold, input, out)


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(input) divided by its sum along `dim`, of the shape of `input`."""
    return _softmax.softmax(_in(input, dtype), _need_dim("softmax", dim, input))


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax along `dim`, of the shape of `input`."""
    return _softmax.log_softmax(_in(input, dtype), _need_dim("log_softmax", dim, input))


def _in(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else astype(input, dtype)


def _need_dim(name: str, dim: int | None, input: Tensor) -> int:
    if dim is None:
        raise ShapeError(f"{name}: along which axis of shape {input.shape}?",
                         "pass dim; for (n, classes) it is dim=1")
    return dim
