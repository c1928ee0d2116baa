"""Reads slices at indices that are a tensor, and adds slices at such indices, its gradient."""

from __future__ import annotations

from typing import Any

from ... import interpreter
from ...arrays import devices
from ...arrays.dtypes import int64
from ...arrays.shapes import TensorType, axis_of
from ...core.dispatch import apply
from ...core.op import Op, Source, define, each
from ...core.tensor import Tensor, as_tensor
from ...core.transform_value import TransformValue
from ...errors import IndexingError, ShapeError
from .. import batching
from ..elementwise.pointwise import cast, where
from ..range_checks import check_index, require

__all__ = ["take"]


# ---- take: indices are a tensor
def _take_result(x: TensorType, i: TensorType, axis: int) -> TensorType:
    return TensorType((*x.shape[:axis], *i.shape, *x.shape[axis + 1:]), x.dtype)


def _take_read(k: Any, index: Any, types: Any, at: Any, axis: int) -> list[Source]:
    width = types[1].ndim
    row = at(1, index[axis:axis + width])
    return [Source(0, (*index[:axis], row, *index[axis + width:]))]


def _take_impl(xp: Any, x: Any, i: Any, axis: int) -> Any:
    check_indices("take", i, x.shape[axis], axis)
    return x.take(i, axis=axis)


def check_indices(name: str, i: Any, n: int, axis: int) -> None:
    if i.size and (i.min() < 0 or i.max() >= n):
        bad = int(i.min()) if i.min() < 0 else int(i.max())
        raise IndexingError(f"{name}: index {bad} is out of range for axis {axis} with size {n}",
                            f"indices go from {-n} to {n - 1}")


take_op = define(Op(
    "take", "view", _take_result, _take_impl, _take_read,
    each(lambda g, out, x, i, axis: add_at(g, i, x.shape[axis], axis), None), "Gather",
    bounds=lambda x, i, axis: ((1, x.shape[axis]),),
    rows=lambda x, i, axis: (0, i.ndim if axis == 0 else 0), batch=batching.taken, stored=True))


def take(x: Tensor, indices: Tensor, /, axis: int | None = None) -> Tensor:
    """The elements of `x` at `indices` along `axis`: the shape of `indices` replaces that axis.

    Args:
        indices: integers; negative ones count from the end.
        axis: may be omitted for a vector. Default None.

    Raises:
        IndexingError: an index is out of range, or `indices` are not integers.
        ShapeError: `axis` is missing for more than one axis.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([10, 20, 30]).take(fw.tensor([0, -1]))
        tensor([10, 30])
    """
    x, indices = as_tensor("take", x), as_tensor("take", indices)
    if axis is None and x.ndim > 1:
        raise ShapeError(f"take: needs an axis of the shape {x.shape}",
                         "as in take(x, indices, axis=0)")
    at = axis_of("take", 0 if axis is None else axis, x.ndim)
    return apply(take_op, (x, from_front("take", indices, x.shape[at])), {"axis": at})


def from_front(name: str, indices: Tensor, n: Any) -> Tensor:
    """`indices` into an axis of size `n`, with `n` added to the negative ones.

    Raises IndexingError for an index out of range, with its value as the caller gave it. A trace
    gets a check that does so.
    """
    kind = indices.dtype.kind
    if kind not in "iu":
        raise IndexingError(f"{name or 'index'}: indices must be integers, not "
                            f"{indices.dtype.name}", "cast them: indices.astype(fw.int64)")
    array = indices._data
    if interpreter.STATE.active is not None or isinstance(array, TransformValue):
        indices = check_index(indices, n, _index_of(name), 0 if kind == "u" else -n)
    elif _is_counted(name, array, n):
        return indices
    if kind == "u":
        return indices
    if indices.dtype.itemsize < 4:  # n may not fit in this dtype
        indices = cast(indices, int64)
    return where(indices < 0, indices + n, indices)


def _is_counted(name: str, array: Any, n: int) -> bool:
    """True if no index is negative; IndexingError unless all are in -n ... n - 1."""
    if not array.size:
        return True
    low, high = devices.extremes(array)
    if low < -n or high >= n:
        require(array, n, _index_of(name), -n)
    return bool(low >= 0)


def _index_of(name: str) -> str:
    """The words before a bad index, for the function `name` or for `x[...]`, without a name."""
    return f"{name}: index" if name else "index"


# ---- add_at: the gradient of take, which adds elements at indices of run time
def _scatter_result(g: TensorType, i: TensorType, size: Any, axis: int) -> TensorType:
    return TensorType((*g.shape[:axis], size, *g.shape[axis + i.ndim:]), g.dtype)


def _scatter_impl(xp: Any, g: Any, i: Any, size: int, axis: int) -> Any:
    check_indices("add_at", i, size, axis)
    return xp.add_rows(g, i, size, axis)


add_at_op = define(Op(
    "add_at", "opaque", _scatter_result, _scatter_impl, None,
    each(lambda g, out, x, i, size, axis: apply(take_op, (g, i), {"axis": axis}), None),
    why={"meaning": "several elements may be added at one index, which only run time tells",
         "onnx": "written as ScatterND with reduction='add'"},
    bounds=lambda g, i, size, axis: ((1, size),), batch=batching.added_at))


def add_at(values: Tensor, indices: Tensor, size: Any, axis: int = 0) -> Tensor:
    """A tensor of zeros with `size` elements along `axis`, and each of `values` added at its index.

    The axes of `indices`, integers from 0 to size - 1, replace `axis` in the shape of `values`.

    Example:
        >>> import fusewire as fw
        >>> add_at(fw.tensor([1.0, 2.0, 3.0]), fw.tensor([0, 2, 0]), 3)
        tensor([4., 0., 2.])
    """
    values, indices = as_tensor("add_at", values), as_tensor("add_at", indices)
    at = axis_of("add_at", axis, values.ndim - indices.ndim + 1)
    if indices.dtype.kind not in "iu":
        raise IndexingError(f"add_at: indices must be integers, not {indices.dtype.name}",
                            "cast them: indices.astype(fw.int64)")
    if values.shape[at:at + indices.ndim] != indices.shape:
        raise ShapeError(f"add_at: values {values.shape} do not have the shape of the indices "
                         f"{indices.shape} from axis {at} on", "give one value for each index")
    return apply(add_at_op, (values, indices), {"size": size, "axis": at})
