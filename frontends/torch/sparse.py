"""Sparse tensors: fusewire stores all elements, zeros too."""

from __future__ import annotations

from typing import Any

from .base.package import fw as _fw
from .base.tensor_class import retag as _retag


def mm(mat1: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    return _retag(_fw.matmul(mat1, mat2))


def sparse_coo_tensor(indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
                      device: Any = None, requires_grad: bool = False, **ignored: Any) -> Any:
    """A tensor with `values` at `indices`, one column for each, and zeros elsewhere."""
    at = _fw.asarray(indices) if not isinstance(indices, _fw.Tensor) else indices
    held = values if isinstance(values, _fw.Tensor) else _fw.tensor(values)
    held = held if dtype is None else _fw.astype(held, dtype)
    shape = tuple(int(n) + 1 for n in _fw.max(at, 1)) if size is None else tuple(size)
    zeros = _fw.zeros(shape, dtype=held.dtype)
    rows = tuple(_fw.astype(row, _fw.int64) for row in _fw.unstack(at))
    out = _retag(_fw.index_put(zeros, rows, held, True))
    out = out if device is None else out.to(device)
    return out.requires_grad_() if requires_grad else out
