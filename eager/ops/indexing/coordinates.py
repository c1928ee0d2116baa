"""Computes indices of elements: of the triangles of a matrix, and from row-major positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arguments import check_whole, names_itself
from ...arrays import shapes
from ...arrays.devices import resolve_device
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError
from ..create import full
from ..elementwise.pointwise import floor_divide, remainder
from ..shape.grid import tril, triu
from ..shape.take import from_front
from .search import nonzero

__all__ = ["tril_indices", "triu_indices", "unravel_index"]


@names_itself
def tril_indices(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, device: Any = None
                 ) -> tuple[Tensor, ...]:
    """The rows and the columns of the elements of a matrix that do not lie above diagonal `k`.

    x[fw.tril_indices(*x.shape)] is the lower triangle of the matrix `x`, row by row.

    Args:
        n_rows: number of rows of the matrix.
        n_cols: number of columns. Default None: `n_rows`.
        k: the last diagonal; 0 starts in the corner, 1 lies above it. Default 0.
        device: of the result. Default: the current device.

    Example:
        >>> import fusewire as fw
        >>> fw.tril_indices(2)
        (tensor([0, 1, 1]), tensor([0, 0, 1]))
    """
    return nonzero(tril(_ones("tril_indices", n_rows, n_cols, device), k=k))


@names_itself
def triu_indices(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, device: Any = None
                 ) -> tuple[Tensor, ...]:
    """The rows and the columns of the elements of a matrix that do not lie below diagonal `k`.

    The parameters are those of `tril_indices`; `k` is the first diagonal.

    Example:
        >>> import fusewire as fw
        >>> fw.triu_indices(2)
        (tensor([0, 0, 1]), tensor([0, 1, 1]))
    """
    return nonzero(triu(_ones("triu_indices", n_rows, n_cols, device), k=k))


def _ones(name: str, n_rows: Any, n_cols: Any, device: Any) -> Tensor:
    shape = (check_whole(name, "n_rows", n_rows, 0),
             check_whole(name, "n_cols", n_rows if n_cols is None else n_cols, 0))
    return full(shape, True, device=resolve_device(device))


def unravel_index(indices: Tensor, shape: Sequence[int]) -> tuple[Tensor, ...]:
    """The indices along each axis of `shape` for row-major positions: a tensor for each axis.

    Args:
        indices: integers; negative ones count from the end.
        shape: sizes of the axes.

    Raises:
        DTypeError: `indices` does not hold integers.
        IndexingError: an index is out of range.

    Example:
        >>> import fusewire as fw
        >>> fw.unravel_index(fw.tensor([1, 5]), (2, 3))
        (tensor([0, 1]), tensor([1, 2]))
    """
    indices = as_tensor("unravel_index", indices)
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"unravel_index: indices are integers, not {indices.dtype.name}",
                         "cast them: indices.astype(fw.int64)")
    sizes = shapes.sizes_of("unravel_index", shape)
    count = shapes.product(sizes)
    rest = from_front("unravel_index", indices, count)
    out = []
    for n in reversed(sizes):
        out.append(remainder(rest, n or 1))
        rest = floor_divide(rest, n or 1)
    return tuple(reversed(out))
