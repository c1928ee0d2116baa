"""Writes diagonals: of one matrix, of batches of matrices, and of matrices made of blocks."""

from __future__ import annotations

from typing import Any

from ...arguments import check_whole
from ...core.tensor import Tensor, as_tensor
from ...errors import ShapeError
from ..elementwise.pointwise import cast
from ..shape.concat import concat_same_dtype
from ..shape.join import alike, atleast_2d
from ..shape.view import pad, reshape
from .matrix import diagonal_matrix, diagonal_slice, write_diagonal

__all__ = ["block_diag", "diag_embed", "diagflat", "diagonal_scatter"]


def block_diag(*arrays: Any) -> Tensor:
    """The matrix with the matrices `arrays` along its diagonal, and zeros elsewhere.

    Args:
        arrays: matrices; a vector is a matrix of one row, a 0-d tensor one of one element.

    Raises:
        ShapeError: there is no tensor, or one has more than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.block_diag(fw.tensor([[1, 2]]), fw.tensor(3))
        tensor([[1, 2, 0],
                [0, 0, 3]])
    """
    blocks = [atleast_2d(x) for x in alike("block_diag", arrays)]
    for x in blocks:
        if x.ndim > 2:
            raise ShapeError(f"block_diag: takes matrices, got shape {x.shape}",
                             "unstack the batch first: fw.block_diag(*fw.unstack(x))")
    columns = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(pad(x, ((0, 0), (before, columns - before - x.shape[1]))))
        before = before + x.shape[1]
    return concat_same_dtype(rows, 0)


def diag_embed(x: Tensor, offset: int = 0) -> Tensor:
    """The square matrices with the vectors `x` on a diagonal: (..., k) -> (..., n, n).

    Args:
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.

    Raises:
        ShapeError: `x` is 0-d.

    Example:
        >>> import fusewire as fw
        >>> fw.diag_embed(fw.tensor([[1, 2], [3, 4]]))[1]
        tensor([[3, 0],
                [0, 4]])
    """
    check_whole("diag_embed", "offset", offset)
    x = as_tensor("diag_embed", x)
    if x.ndim == 0:
        raise ShapeError("diag_embed: takes vectors (..., k), got a 0-d tensor",
                         "fw.diagflat takes all shapes")
    return diagonal_matrix(x, offset)


def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The square matrix with all elements of `x`, in row-major order, on a diagonal.

    Args:
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.

    Example:
        >>> import fusewire as fw
        >>> fw.diagflat(fw.tensor([[1, 2]]), offset=1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    check_whole("diagflat", "offset", offset)
    return diagonal_matrix(reshape(as_tensor("diagflat", x), (-1,)), offset)


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0) -> Tensor:
    """The matrices `x` (..., m, n) with a diagonal replaced by the vectors `src` (..., k).

    Args:
        src: of the shape of fw.diagonal(x, offset), cast to the dtype of `x`.
        offset: number of the diagonal; 0 is the main one, 1 lies above it. Default 0.

    Raises:
        ShapeError: `x` has fewer than two axes, or `src` another shape.

    Example:
        >>> import fusewire as fw
        >>> fw.diagonal_scatter(fw.zeros(2, 2), fw.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    check_whole("diagonal_scatter", "offset", offset)
    x, src = as_tensor("diagonal_scatter", x), as_tensor("diagonal_scatter", src)
    if x.ndim < 2:
        raise ShapeError(f"diagonal_scatter: needs matrices (..., m, n), got shape {x.shape}",
                         "fw.diag makes a matrix of a vector")
    *lead, m, n = x.shape
    _, count = diagonal_slice(m, n, offset)
    if src.shape != (*lead, count):
        raise ShapeError(f"diagonal_scatter: values {src.shape} for diagonals "
                         f"{(*lead, count)}", "give one value for each element of a diagonal")
    return write_diagonal(x, cast(src, x.dtype), offset)
