"""Tensors of class and token numbers."""

from __future__ import annotations

from ... import dtypes
from ...errors import DTypeError
from ...ops.create import iota
from ...ops.pointwise import astype, equal
from ...ops.view import broadcast_to, expand_dims
from ...tensor import Tensor

__all__ = ["one_hot"]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 of shape (*tensor.shape, num_classes), 1 where the last index is the tensor's value.

    num_classes -1: the largest value plus one. Values outside give a row of zeros.
    """
    if tensor.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: takes class numbers, integers, not {tensor.dtype.name}",
                         "cast them: x.astype(fw.int64)")
    count = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    shape = (*tensor.shape, count)
    hit = equal(iota(shape, -1, tensor.dtype), broadcast_to(expand_dims(tensor, -1), shape))
    return astype(hit, dtypes.int64)
