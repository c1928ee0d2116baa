"""Distances and similarities of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arguments import check_number, names_itself
from ...arrays.shapes import same
from ...core.tensor import Tensor, as_tensor, tensor
from ...errors import ShapeError
from ...linalg.norm import vector_norm
from ...ops.declare import prepare
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import cast, maximum
from ...ops.reduction.reduce import sum, widened
from ...ops.shape.rearrange import broadcast_arrays
from ...ops.shape.take import take

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


@names_itself
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: the broadcast shape without that axis.

    Lengths below `eps` count as `eps`: a vector of zeros has the cosine 0 with any other.

    Args:
        x1, x2: real numbers whose shapes broadcast to each other.
        dim: the axis of the vectors. Default 1.
        eps: the least length that a vector is divided by. Default 1e-8.

    Raises:
        ShapeError: the shapes do not broadcast.
        AxisError: a tensor has no axis `dim`.
        DTypeError: a tensor is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.cosine_similarity(fw.tensor([[3.0, 4.0]]), fw.tensor([[6.0, 8.0]]))
        tensor([1.])
    """
    x1, x2 = prepare("cosine_similarity", (x1, x2), "real float")
    wide = [widened(x) for x in (x1, x2)]  # float16 has no number as small as eps
    if not same(x1.shape, x2.shape):  # before lengths are computed: `dim` may be broadcast, too
        wide = list(broadcast_arrays(*wide))
    return cast(sum(_unit(wide[0], dim, eps) * _unit(wide[1], dim, eps), dim), x1.dtype)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    return x / maximum(vector_norm(x, dim, keepdims=True), eps)


@names_itself
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6,
                      keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis: (..., d) and (..., d) to (...).

    Args:
        x1, x2: numbers whose shapes broadcast to each other.
        p: the order of the norm. Default 2.
        eps: added to each difference of elements. Default 1e-6.
        keepdim: True keeps the last axis with size 1. Default False.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.pairwise_distance(fw.tensor([[3.0, 4.0]]), fw.zeros((1, 2)), eps=0.0)
        tensor([5.])
    """
    check_number("pairwise_distance", "eps", eps)
    x1, x2 = as_tensor("pairwise_distance", x1), as_tensor("pairwise_distance", x2)
    return vector_norm(x1 - x2 + eps, -1, keepdim, p)


@names_itself
@in_float32
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j: (n, d) to (n * (n - 1) / 2,).

    The pairs are in the order (0, 1), (0, 2), ..., (1, 2), ....

    Args:
        input: floating point numbers (n, d).
        p: the order of the norm. Default 2.

    Raises:
        ShapeError: `input` does not have two axes.
        DTypeError: `input` does not hold floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.pdist(fw.tensor([[0.0], [1.0], [3.0]]))
        tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist: takes rows (n, d), got {input.shape}",
                         "make each sample one row: x.flatten(1)")
    first, second = (_constant(i) for i in np.triu_indices(input.shape[0], 1))
    return vector_norm(take(input, first, axis=0) - take(input, second, axis=0), -1, ord=p)


def _constant(indices: Any) -> Tensor:
    return tensor(indices.astype(np.int64))
