"""Softmax and related functions: weights along an axis."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, names_itself
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.create import iota
from ...ops.elementwise.pointwise import astype, cast, equal
from ...ops.indexing.search import argmax
from ...ops.random.distributions import gumbel
from ...ops.reduction import softmax as _softmax

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(input) divided by its sum along `dim`, of the shape of `input`.

    Args:
        input: real floating point numbers with one axis or more.
        dim: the axis along which the results add up to 1. Default None, which is an
            error.
        dtype: the dtype to which `input` is cast first. Default None: its own.

    Raises:
        ShapeError: `dim` is None.
        AxisError: `input` has no axis `dim`.
        DTypeError: `input` does not hold real floating point numbers, and `dtype` is None.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.softmax(fw.tensor([1.0, 1.0, -1000.0]), dim=0)
        tensor([0.5, 0.5, 0. ])
    """
    return _softmax.softmax(_in(input, dtype), _need_dim("softmax", dim, input))


@names_itself
def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """softmax(-input) along `dim`, of the shape of `input`.

    Args:
        input: real floating point numbers with one axis or more.
        dim: the axis along which the results add up to 1. Default None, which is an
            error.
        dtype: the dtype to which `input` is cast first. Default None: its own.

    Raises:
        ShapeError: `dim` is None.
        AxisError: `input` has no axis `dim`.
        DTypeError: `input` does not hold real floating point numbers, and `dtype` is None.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.softmin(fw.tensor([1.0, 1.0, 1000.0]), dim=0)
        tensor([0.5, 0.5, 0. ])
    """
    return _softmax.softmax(_in(-input, dtype), _need_dim("softmin", dim, input))


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along `dim`, of the shape of `input`, without overflow.

    Args:
        input: real floating point numbers with one axis or more.
        dim: the axis along which the exponentials of the results add up to 1. Default None, which
            is an error.
        dtype: the dtype to which `input` is cast first. Default None: its own.

    Raises:
        ShapeError: `dim` is None.
        AxisError: `input` has no axis `dim`.
        DTypeError: `input` does not hold real floating point numbers, and `dtype` is None.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.log_softmax(fw.tensor([0.0, 1000.0]), dim=0)
        tensor([-1000.,     0.])
    """
    return _softmax.log_softmax(_in(input, dtype), _need_dim("log_softmax", dim, input))


@names_itself
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10,
                   dim: int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau) along `dim`, of the shape of `logits`.

    Jang et al., "Categorical reparameterization with Gumbel-softmax", arXiv 1611.01144.

    Args:
        logits: real floating point numbers, the logarithms of unnormalized probabilities.
        tau: the temperature; a small one brings the weights near to 0 and 1. Default 1.
        hard: True returns 1 for the largest weight and 0 for the others, with the gradient of the
            weights. Default False.
        eps: has no effect.
        dim: the axis of classes. Default -1, the last one.

    Raises:
        DTypeError: `logits` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.gumbel_softmax(fw.tensor([[0.0, 1000.0]]), hard=True)
        tensor([[0., 1.]])
    """
    check_number("gumbel_softmax", "eps", eps)
    if not check_number("gumbel_softmax", "tau", tau) > 0:
        raise ArgumentError(f"gumbel_softmax: tau must be above 0, got {tau}")
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
