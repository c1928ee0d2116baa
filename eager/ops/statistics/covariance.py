"""Computes covariances and correlations of variables."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, names_itself
from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ...errors import ShapeError
from ..create import ones
from ..elementwise.clip import clip
from ..elementwise.complex import conj_of
from ..elementwise.pointwise import abs, cast, sqrt, where
from ..products.contract import matmul
from ..reduction import reduce
from ..shape.grid import eye
from ..shape.view import expand_dims, permute_dims, reshape

__all__ = ["corrcoef", "cov"]


@names_itself
def cov(x: Tensor, correction: float = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:
    """The covariances of n variables with m observations: (n, m) -> (n, n).

    A vector holds the observations of one variable. The variance of a single variable is 0-d.

    Args:
        correction: subtracted from the number of observations. Default 1.
        fweights: (m,), how often each observation was made. Default None: once.
        aweights: (m,), the weight of each observation. Default None: 1.

    Raises:
        ShapeError: `x` has more than two axes, or weights have another shape.

    Example:
        >>> import fusewire as fw
        >>> fw.cov(fw.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    check_number("cov", "correction", correction)
    x = as_tensor("cov", x)
    if x.ndim > 2:
        raise ShapeError(f"cov: takes (variables, observations), got {x.shape}",
                         "flatten what is observed at once")
    rows = reshape(x, (1, -1)) if x.ndim < 2 else x
    rows = rows if dtypes.is_float(rows.dtype) else cast(rows, dtypes.DEFAULT_FLOAT)
    weights, left = _weights(rows, correction, fweights, aweights)
    total = reduce.sum(weights)
    centred = rows - reduce.sum(rows * weights, 1, keepdims=True) / total
    out = matmul(centred * weights, permute_dims(conj_of(centred), (1, 0))) / left
    return reshape(out, ()) if rows.shape[0] == 1 else out


def _weights(rows: Tensor, correction: float, fweights: Any, aweights: Any
             ) -> tuple[Tensor, Tensor]:
    """The weight of each observation, and the divisor of the sum of products."""
    real = dtypes.real_of(rows.dtype)
    weights = ones((rows.shape[1],), dtype=real, device=rows.device)
    factors = [cast(as_tensor("cov", w), real) for w in (fweights, aweights) if w is not None]
    for w in factors:
        if w.shape != weights.shape:
            raise ShapeError(f"cov: weights {w.shape} for {rows.shape[1]} observations",
                             "give one weight for each observation")
        weights = weights * w
    total = reduce.sum(weights)
    weighted_correction: Any = correction
    if aweights is not None:
        weighted_correction = reduce.sum(weights * factors[-1]) / total * correction
    left = total - weighted_correction
    return weights, where(left > 0, left, 0.0)


def corrcoef(x: Tensor) -> Tensor:
    """The correlations, from -1 to 1, of n variables with m observations: (n, m) -> (n, n).

    Raises:
        ShapeError: `x` has more than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.corrcoef(fw.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    c = cov(as_tensor("corrcoef", x))
    if c.ndim == 0:
        return c / c
    n = c.shape[0]
    own = reduce.sum(where(eye(n, dtype=dtypes.bool, device=c.device), abs(c), 0.0), 1)
    size = sqrt(own)
    out = c / expand_dims(size, 1) / size
    return out if dtypes.kind(out.dtype) == "c" else clip(out, -1.0, 1.0)
