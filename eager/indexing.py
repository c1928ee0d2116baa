"""x[...]: what stands in the brackets, turned into slices, reshapes and takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from .dispatch import replace
from .errors import IndexingError, ShapeError
from .ops.pointwise import astype, where
from .ops.view import broadcast_to, put_slice, reshape, slice_axes, take
from .tensor import Tensor, tensor


class _Slices(NamedTuple):
    """A basic index: a slice of every axis, and the shape that is left after dropping and adding axes."""

    start: tuple[Any, ...]
    step: tuple[int, ...]
    size: tuple[Any, ...]
    shape: tuple[Any, ...]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: integers, slices, ..., None, and one tensor of integers."""
    items = index if isinstance(index, tuple) else (index,)
    arrays = [i for i, item in enumerate(items) if _is_array(item)]
    if arrays:
        return _getitem_array(x, items, arrays)
    found = _basic(x, items)
    return reshape(slice_axes(x, found.start, found.step, found.size), found.shape)


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value: changes `x` alone, `value` broadcasts to the part named."""
    given = value if isinstance(value, Tensor) else tensor(value, dtype=x.dtype)
    given = astype(given, x.dtype)
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and isinstance(items[0], Tensor) and items[0].dtype.kind == "b":
        replace(x, where(items[0], given, x))
        return
    if any(_is_array(i) for i in items):
        raise IndexingError("x[indices] = v with a tensor of indices is not built yet",
                            "use a boolean mask of the shape of x, or slices")
    found = _basic(x, items)
    part = reshape(broadcast_to(given, found.shape), found.size)
    replace(x, put_slice(x, part, found.start, found.step))


def _is_array(item: Any) -> bool:
    if isinstance(item, Tensor):
        return item.ndim > 0 or item.dtype.kind == "b"
    return isinstance(item, list) or (hasattr(item, "__array__") and getattr(item, "ndim", 0) > 0)


def _getitem_array(x: Tensor, items: tuple[Any, ...], arrays: list[int]) -> Tensor:
    plain = all(isinstance(i, slice) and i == slice(None) for n, i in enumerate(items) if n != arrays[0])
    picked = items[arrays[0]]
    picked = picked if isinstance(picked, Tensor) else tensor(picked)
    if len(arrays) > 1 or not plain or picked.dtype.kind not in "iu":
        raise IndexingError("indexing by a mask or by several tensors is not built yet",
                            "use one tensor of integers, with full slices before it")
    n = x.shape[arrays[0]]
    return take(x, where(picked < 0, picked + n, picked), arrays[0])


def _expanded(x: Tensor, items: tuple[Any, ...]) -> list[Any]:
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > x.ndim:
        raise IndexingError(f"too many indices: {used} for a tensor with {x.ndim} axes {x.shape}")
    if sum(1 for i in items if i is Ellipsis) > 1:
        raise IndexingError("an index can hold ... only once")
    out: list[Any] = []
    for item in items if any(i is Ellipsis for i in items) else (*items, Ellipsis):
        out.extend([slice(None)] * (x.ndim - used) if item is Ellipsis else [item])
    return out


def _basic(x: Tensor, items: tuple[Any, ...]) -> _Slices:
    start, step, size, shape = [], [], [], []
    sizes = iter(enumerate(x.shape))
    for item in _expanded(x, items):
        if item is None:
            shape.append(1)
            continue
        axis, n = next(sizes)
        if isinstance(item, slice):
            b, s, count = _slice(item, n)
            shape.append(count)
        else:
            b, s, count = _integer(item, axis, n, x.shape), 1, 1
        start.append(b)
        step.append(s)
        size.append(count)
    return _Slices(tuple(start), tuple(step), tuple(size), tuple(shape))


def _slice(item: slice, n: Any) -> tuple[Any, int, Any]:
    if item == slice(None):
        return 0, 1, n
    if item.step == 0:
        raise ShapeError("the step of a slice cannot be 0")
    begin, stop, step = item.indices(n)
    return begin, step, len(range(begin, stop, step))


def _integer(item: Any, axis: int, n: Any, shape: Any) -> Any:
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise IndexingError(f"cannot index with {item!r}",
                            "integers, slices, ..., None and tensors of integers can be used")
    i = item.__index__()
    if not -n <= i < n:
        raise IndexingError(f"index {i} is out of range for axis {axis} of shape {shape}",
                            f"indices go from {-n} to {n - 1}")
    return i + n if i < 0 else i
