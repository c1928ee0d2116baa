"""Computes distances of vectors: of two tensors, and of all pairs of rows."""

from __future__ import annotations

from ..arguments import check_number, names_itself
from ..arrays.shapes import broadcast
from ..core.tensor import Tensor, as_tensor
from ..errors import ShapeError
from ..ops.reduction import reduce
from ..ops.shape.view import expand_dims
from .norm import vector_norm

__all__ = ["cdist", "dist"]


@names_itself
def cdist(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows: (..., n, d), (..., m, d) -> (..., n, m).

    They are norms of differences, so that near rows have exact distances. The gradient is 0 where
    rows are equal.

    Args:
        x, y: batches of matrices; the leading axes broadcast.
        p: the order of the norm. Default 2.

    Raises:
        ShapeError: an input has fewer than two axes, or the rows differ in size.
        DTypeError: an input does not hold floats.

    Example:
        >>> import fusewire as fw
        >>> fw.cdist(fw.tensor([[0.0, 0.0], [3.0, 0.0]]), fw.tensor([[3.0, 4.0]]))
        tensor([[5.],
                [4.]])
    """
    check_number("cdist", "p", p)
    x, y = reduce.floating("cdist", x), reduce.floating("cdist", y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"cdist: rows of shapes {x.shape} and {y.shape}",
                         "they are matrices (..., n, d) and (..., m, d)")
    broadcast("cdist", x.shape[:-2], y.shape[:-2])
    return vector_norm(expand_dims(x, -2) - expand_dims(y, -3), -1, ord=p)


@names_itself
def dist(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """The norm of x - y over all elements, 0-d; shapes broadcast.

    Args:
        p: the order of the norm. Default 2.

    Raises:
        DTypeError: the inputs do not hold floats.

    Example:
        >>> import fusewire as fw
        >>> fw.dist(fw.tensor([1.0, 2.0]), fw.tensor([4.0, 6.0]))
        tensor(5.)
    """
    check_number("dist", "p", p)
    return vector_norm(as_tensor("dist", x) - as_tensor("dist", y), ord=p)
