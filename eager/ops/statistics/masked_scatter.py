"""Writes the elements of one tensor into another where a mask is True, by counting the mask."""

from __future__ import annotations

from ...core.tensor import Tensor, as_tensor
from ..create import full
from ..elementwise.pointwise import where
from ..indexing.scatter import along, as_mask, fitting
from ..range_checks import check_index
from ..shape.concat import concat_same_dtype
from ..shape.view import broadcast_to, reshape
from .cumulative import cumsum

__all__ = ["masked_scatter"]

_TOO_FEW = "masked_scatter: mask has more True than source has elements: number"


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`x` with the elements of `source`, in row-major order, where `mask` is True.

    Args:
        mask: bool; broadcasts to the shape of `x`.
        source: a tensor with at least as many elements as `mask` has True.

    Raises:
        DTypeError: `mask` is not bool, or `source` does not fit into the dtype of `x`.
        IndexingError: `source` has too few elements.

    Example:
        >>> import fusewire as fw
        >>> fw.masked_scatter(fw.zeros(3), fw.tensor([True, False, True]), fw.tensor([7.0, 8.0]))
        tensor([7., 0., 8.])
    """
    x = as_tensor("masked_scatter", x)
    mask = broadcast_to(as_mask("masked_scatter", mask), x.shape)
    flat = reshape(mask, (-1,))
    values = reshape(fitting("masked_scatter", x, source), (-1,))
    number = where(flat, cumsum(flat, 0), 0)  # of an element in `values`, from 1 on
    padded = concat_same_dtype([full((1,), 0, x.dtype, x.device), values], 0)
    number = check_index(number, padded.shape[0], _TOO_FEW)
    return where(mask, reshape(along(padded, number, 0), x.shape), x)
