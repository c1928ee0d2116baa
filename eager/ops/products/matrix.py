"""Computes diagonals and products of vectors and matrices from views, products and sums."""

from __future__ import annotations

from typing import Any

from ...arguments import check_whole, names_itself
from ...arrays.shapes import axis_of, broadcast
from ...core.tensor import Tensor, as_tensor
from ...core.views import define_access, view_of
from ...errors import ShapeError
from ..elementwise.casting import in_float32
from ..reduction import reduce
from ..shape.join import concat
from ..shape.put_slice import put_slice
from ..shape.view import (
    expand_to,
    reshape,
    reshape_unmarked,
    slice_axes,
    slice_unmarked,
    unslice,
)
from .contract import factors, tensordot

__all__ = ["cross", "diag", "diagonal", "inner", "kron", "outer", "trace"]


def diagonal(x: Tensor, offset: int = 0) -> Tensor:
    """The diagonals of matrices: (..., m, n) -> (..., k).

    Args:
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.diagonal(fw.arange(6).reshape(2, 3), offset=1)
        tensor([1, 5])
    """
    check_whole("diagonal", "offset", offset)
    x = as_tensor("diagonal", x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs matrices (..., m, n), got shape {x.shape}",
                         "fw.diag makes a matrix of a vector")
    return view_of(x, _diagonal(x, offset), DIAGONAL, offset)


def _diagonal(x: Tensor, offset: int) -> Tensor:
    *lead, m, n = x.shape
    start, count = diagonal_slice(m, n, offset)
    flat = reshape_unmarked(x, (*lead, m * n))  # the next element lies n + 1 further on
    zeros, ones = (0,) * len(lead), (1,) * len(lead)
    return slice_unmarked(flat, (*zeros, start), (*ones, n + 1), (*lead, count))


def write_diagonal(x: Tensor, value: Tensor, offset: int) -> Tensor:
    """The matrices `x` (..., m, n) with a diagonal replaced by the vectors `value` (..., k)."""
    *lead, m, n = x.shape
    start, _ = diagonal_slice(m, n, offset)
    flat = put_slice(reshape_unmarked(x, (*lead, m * n)), value, (*(0,) * len(lead), start),
                     (*(1,) * len(lead), n + 1))
    return reshape_unmarked(flat, x.shape)


DIAGONAL = define_access("diagonal", _diagonal, write_diagonal)


def diagonal_slice(m: Any, n: Any, offset: int) -> tuple[Any, Any]:
    """The first index and the size of a diagonal of (m, n) in row-major order; its step is n + 1.
    """
    count = _diagonal_size(m, n, offset)
    return (0 if count == 0 else offset if offset >= 0 else -offset * n), count


def _diagonal_size(m: Any, n: Any, offset: int) -> Any:
    if offset >= 0:
        return max(min(m, n - offset), 0)
    return max(min(m + offset, n), 0)


def diag(x: Tensor, offset: int = 0) -> Tensor:
    """The diagonal of a matrix; for a vector, the square matrix with it on that diagonal.

    Args:
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.

    Raises:
        ShapeError: `x` has neither one axis nor two.

    Example:
        >>> import fusewire as fw
        >>> fw.diag(fw.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    check_whole("diag", "offset", offset)
    x = as_tensor("diag", x)
    if x.ndim == 2:
        return diagonal(x, offset)
    if x.ndim != 1:
        raise ShapeError(f"diag: takes a vector or a matrix, got shape {x.shape}",
                         "fw.diagonal takes batches of matrices")
    return diagonal_matrix(x, offset)


def diagonal_matrix(x: Tensor, offset: int = 0) -> Tensor:
    """The square matrices (..., n, n) with the vectors `x` on a diagonal and zeros elsewhere."""
    *lead, count = x.shape
    n = count + abs(offset)
    if count == 0:
        return expand_to(reduce.sum(x, -1, keepdims=True)[..., None],
                         (*lead, n, n))
    start = offset if offset >= 0 else -offset * n
    flat = unslice(x, (*lead, n * n), (*(0,) * len(lead), start), (*(1,) * len(lead), n + 1))
    return reshape(flat, (*lead, n, n))


@in_float32
@names_itself
def trace(x: Tensor, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of matrices: (..., m, n) -> (...).

    Args:
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.
        dtype: of the result. Default: that of floats, else int64 or uint64.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.trace(fw.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    check_whole("trace", "offset", offset)
    return reduce.sum(diagonal(as_tensor("trace", x), offset), axis=-1, dtype=dtype)


def outer(x: Tensor, y: Tensor) -> Tensor:
    """The products of all pairs of elements of two vectors: (n,), (m,) -> (n, m).

    Raises:
        ShapeError: an input is not a vector.
        DTypeError: both inputs are bool.

    Example:
        >>> import fusewire as fw
        >>> fw.outer(fw.tensor([1, 2]), fw.tensor([1, 10, 100]))
        tensor([[  1,  10, 100],
                [  2,  20, 200]])
    """
    x, y = factors("outer", x, y)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer: takes two vectors, got shapes {x.shape} and {y.shape}",
                         "for batches write x[..., :, None] * y[..., None, :]")
    return reshape(x, (*x.shape, 1)) * reshape(y, (1, *y.shape))


def inner(x: Tensor, y: Tensor) -> Tensor:
    """The sums of products along the last axes: (..., k), (*, k) -> (..., *).

    A 0-d operand multiplies each element of the other one.

    Raises:
        ShapeError: the last axes differ in size.
        DTypeError: both inputs are bool.

    Example:
        >>> import fusewire as fw
        >>> fw.inner(fw.tensor([[1, 2], [3, 4]]), fw.tensor([10, 1]))
        tensor([12, 34])
    """
    x, y = factors("inner", x, y)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"inner: the last axes of {x.shape} and {y.shape} differ in size",
                         "fw.matmul sums along the last axis and the one before it")
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def kron(x: Tensor, y: Tensor) -> Tensor:
    """The Kronecker product: `x` with each element replaced by that element times `y`.

    Raises:
        DTypeError: both inputs are bool.

    Example:
        >>> import fusewire as fw
        >>> fw.kron(fw.tensor([1, 10]), fw.tensor([1, 2]))
        tensor([ 1,  2, 10, 20])
    """
    x, y = factors("kron", x, y)
    ndim = max(x.ndim, y.ndim)
    a, b = ((1,) * (ndim - t.ndim) + tuple(t.shape) for t in (x, y))
    left = reshape(x, tuple(n for size in a for n in (size, 1)))
    right = reshape(y, tuple(n for size in b for n in (1, size)))
    return reshape(left * right, tuple(m * n for m, n in zip(a, b)))


def cross(x: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements; the other axes broadcast.

    Args:
        axis: of the vectors. Default -1.

    Raises:
        ShapeError: the axis has another size than 3, or the other axes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.cross(fw.tensor([1, 0, 0]), fw.tensor([0, 1, 0]))
        tensor([0, 0, 1])
    """
    x, y = factors("cross", x, y)
    for t in (x, y):
        if t.shape[axis_of("cross", axis, t.ndim)] != 3:
            raise ShapeError(f"cross: axis {axis} must have size 3, got shapes {x.shape} and "
                             f"{y.shape}", "a cross product takes vectors of three elements")
    shape = broadcast("cross", x.shape, y.shape)
    at = axis_of("cross", axis, min(x.ndim, y.ndim)) - min(x.ndim, y.ndim)  # from the end
    x, y = expand_to(x, shape), expand_to(y, shape)
    (a, b, c), (d, e, f) = ([_part(t, i, len(shape) + at) for i in range(3)] for t in (x, y))
    return concat([b * f - c * e, c * d - a * f, a * e - b * d], axis=at)


def _part(x: Tensor, i: int, axis: int) -> Tensor:
    """Element `i` of `x` along `axis`, which keeps size 1."""
    start = tuple(i if a == axis else 0 for a in range(x.ndim))
    size = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    return slice_axes(x, start, (1,) * x.ndim, size)
