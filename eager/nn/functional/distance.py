"""How far vectors are apart, and how alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor, as_tensor, tensor
from ...errors import ShapeError
from ...linalg.norm import vector_norm
from ...ops.declare import prepare
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import cast, maximum
from ...ops.reduction.reduce import sum, widened
from ...ops.shape.view import take

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosines of the angles between vectors along `dim`, whose axis is gone: shapes broadcast.

    Lengths below `eps` count as `eps`: a vector of zeros has the cosine 0 with any other.

    >>> import fusewire as fw
    >>> fw.nn.functional.cosine_similarity(fw.tensor([[3.0, 4.0]]), fw.tensor([[6.0, 8.0]]))
    tensor([1.])
    """
    x1, x2 = prepare("cosine_similarity", (x1, x2), "real float")
    wide = [widened(x) for x in (x1, x2)]  # float16 has no number as small as eps
    return cast(sum(_unit(wide[0], dim, eps) * _unit(wide[1], dim, eps), dim), x1.dtype)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    return x / maximum(vector_norm(x, dim, keepdims=True), eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6,
                      keepdim: bool = False) -> Tensor:
    """The p-norms of x1 - x2 + eps along the last axis; shapes broadcast. (n, d) twice to (n,)."""
    x1, x2 = as_tensor("pairwise_distance", x1), as_tensor("pairwise_distance", x2)
    return vector_norm(x1 - x2 + eps, -1, keepdim, p)


@in_float32
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j of `input` (n, d): (n * (n - 1) / 2,).

    In the order (0, 1), (0, 2), ..., (1, 2), ....
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist: takes rows (n, d), got {input.shape}",
                         "flatten what belongs to one row: x.flatten(1)")
    first, second = (_constant(i) for i in np.triu_indices(input.shape[0], 1))
    return vector_norm(take(input, first, axis=0) - take(input, second, axis=0), -1, ord=p)


def _constant(indices: Any) -> Tensor:
    return tensor(indices.astype(np.int64))
