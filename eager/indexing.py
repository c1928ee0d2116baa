"""x[...]: what stands in the brackets, turned into slices, reshapes and takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import interpreter
from .dispatch import apply, replace
from .errors import IndexingError, ShapeError
from .ops.pointwise import alias, cast, where
from .ops.view import broadcast_to, expand_to, from_front, put_slice, reshape, slice_axes, take_op
from .shapes import broadcast, product, slice_of_size
from .tensor import Tensor, tensor


class _Slices(NamedTuple):
    """A basic index: a slice of every axis, and the shape left after dropping and adding axes."""

    start: tuple[Any, ...]
    step: tuple[int, ...]
    size: tuple[Any, ...]
    shape: tuple[Any, ...]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: integers, slices, ..., None, tensors of integers, and a mask.

    >>> import fusewire as fw
    >>> x = fw.arange(12).reshape(3, 4)
    >>> x[1, ::2], x[fw.tensor([0, 2]), fw.tensor([3, -1])], x[x > 9]
    (tensor([4, 6]), tensor([ 3, 11]), tensor([10, 11]))
    """
    items = _expanded(x, index)
    if any(map(_is_array, items)):
        return _getitem_arrays(x, items)
    found = _basic(x, items)
    out = slice_axes(x, found.start, found.step, found.size)
    out = out if out.shape == found.shape else reshape(out, found.shape)
    return alias(x) if out is x else out  # never x itself: it may be changed in place later


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value: changes `x` alone, `value` broadcasts to the part named."""
    given = value if isinstance(value, Tensor) else tensor(value, dtype=x.dtype)
    given = cast(given, x.dtype)
    items = _expanded(x, index)
    masks = [i for i in items if _is_array(i)]
    if masks:
        mask = masks[0]
        if mask.dtype.kind != "b" or items[0] is not mask or len(masks) > 1 or \
                not all(map(_is_full, items[1:])):
            raise IndexingError("x[indices] = v with a tensor of indices is not built",
                                "use a boolean mask of the shape of x, or slices")
        _check_mask(mask, x.shape)
        mask = reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
        replace(x, where(mask, _fitting(given, x.shape), x))
        return
    found = _basic(x, items)
    part = reshape(_fitting(given, found.shape), found.size)
    replace(x, put_slice(x, part, found.start, found.step))


def _fitting(given: Tensor, shape: Any) -> Tensor:
    """`given` broadcast to `shape`; leading axes of size 1 too many are dropped, as in NumPy."""
    extra = given.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in given.shape[:extra]):
        given = reshape(given, given.shape[extra:])
    return broadcast_to(given, shape)


def _is_array(item: Any) -> bool:
    return isinstance(item, Tensor)


def _as_index(item: Any) -> Tensor:
    return tensor(item, dtype=np.int64 if isinstance(item, list) and not item else None)


def _expanded(x: Tensor, index: Any) -> list[Any]:
    """The items of `index`, one per axis of `x` (a mask counts for its axes), beside Nones."""
    given = index if isinstance(index, tuple) else (index,)
    items = [_as_index(i) if isinstance(i, (list, np.ndarray)) else i for i in given]
    used = 0
    for item in items:
        if item is not None and item is not Ellipsis:
            used += item.ndim if _is_array(item) and item.dtype.kind == "b" else 1
    if used > x.ndim:
        raise IndexingError(f"too many indices: {used} for a tensor with {x.ndim} axes {x.shape}",
                            "x[..., i] indexes the last axis whatever the number of axes")
    ellipses = [n for n, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexingError("an index can hold ... only once", "write the slices in between as :")
    at = ellipses[0] if ellipses else len(items)
    return [*items[:at], *[slice(None)] * (x.ndim - used), *items[at + 1:]]


# ---- integers, slices, None
def _basic(x: Tensor, items: list[Any]) -> _Slices:
    start, step, size, shape = [], [], [], []
    sizes = iter(enumerate(x.shape))
    for item in items:
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
    if item.start is None and item.stop is None and item.step is None:
        return 0, 1, n
    if item.step == 0:
        raise IndexingError("the step of a slice cannot be 0", "use a step of 1 or -1")
    if type(n) is not int or any(type(x) is not int for x in (item.start, item.stop)
                                 if x is not None and isinstance(x, int)):
        return slice_of_size(item, n)
    try:
        begin, stop, step = item.indices(n)
    except TypeError:
        raise IndexingError(f"the limits of a slice are integers or None, got {item}",
                            "use // for limits that come from a division") from None
    return begin, step, len(range(begin, stop, step))


def _integer(item: Any, axis: int, n: Any, shape: Any) -> Any:
    if isinstance(item, (bool, np.bool_)) or not hasattr(item, "__index__"):
        raise IndexingError(f"cannot index with {item!r:.80}",
                            "integers, slices, ..., None and tensors of integers can be used")
    i = item if isinstance(item, int) else item.__index__()
    if not -n <= i < n:
        raise IndexingError(f"index {i} is out of range for axis {axis} of shape {shape}",
                            f"indices go from {-n} to {n - 1}")
    return i + n if i < 0 else i


# ---- tensors of integers, and masks
def _getitem_arrays(x: Tensor, items: list[Any]) -> Tensor:
    """Basic indexing of the other axes first, then one take over the indexed axes made into one."""
    places = [n for n, item in enumerate(items) if _is_array(item) or _is_integer(item)]
    if places[-1] - places[0] + 1 != len(places):
        raise IndexingError("tensors and integers in an index must stand side by side",
                            "index in two steps: x[:, i][..., j]")
    arrays = [item for item in items if _is_array(item)]
    if any(i.dtype.kind == "b" for i in arrays):
        if len(arrays) > 1:
            raise IndexingError("a mask cannot stand beside other tensors in an index",
                                "index in two steps")
        return _getitem_mask(x, items, arrays[0])
    x = getitem(x, tuple(slice(None) if _is_array(item) else item for item in items))
    return _take_many(x, arrays, places[0])


def _is_full(item: Any) -> bool:
    return isinstance(item, slice) and item == slice(None)


def _is_integer(item: Any) -> bool:
    return item is not None and not isinstance(item, slice) and not _is_array(item)


def _take_many(x: Tensor, arrays: list[Tensor], axis: int) -> Tensor:
    """Elements of `x` at indices into the axes from `axis` on, which broadcast with each other."""
    sizes = x.shape[axis:axis + len(arrays)]
    for i, n in zip(arrays, sizes):
        _check_range(i, n)
    shape = broadcast("index", *[i.shape for i in arrays])
    flat = from_front("index", arrays[0], sizes[0])
    for i, n in zip(arrays[1:], sizes[1:]):
        flat = flat * n + from_front("index", i, n)
    if len(arrays) > 1:
        x = reshape(x, (*x.shape[:axis], product(sizes), *x.shape[axis + len(arrays):]))
    return apply(take_op, (x, expand_to(flat, shape)), {"axis": axis})


def _check_range(i: Tensor, n: Any) -> None:
    """Each axis by itself: in the flat index a bad column would look like another row."""
    if interpreter.STATE.active is None and i.data.size and i.data.dtype.kind in "iu":
        low, high = i.data.min(), i.data.max()
        if low < -n or high >= n:
            raise IndexingError(f"index {low if low < -n else high} is out of range for an axis of "
                                f"size {n}", f"indices go from {-n} to {n - 1}")


def _getitem_mask(x: Tensor, items: list[Any], mask: Tensor) -> Tensor:
    """The elements where `mask` holds: how many is known only from its values."""
    before = next(n for n, item in enumerate(items) if _is_array(item))
    others = [*items[:before], *items[before + 1:]]
    if not all(map(_is_full, others)):
        raise IndexingError("a mask stands beside full slices only", "index in two steps")
    _check_mask(mask, x.shape[before:])
    rest = x.shape[before + mask.ndim:]
    flat = reshape(x, (*x.shape[:before], product(mask.shape), *rest))
    places = interpreter.source(Tensor(np.flatnonzero(mask.numpy())))
    return apply(take_op, (flat, places), {"axis": before})


def _check_mask(mask: Tensor, shape: Any) -> None:
    if mask.shape != shape[:mask.ndim]:
        raise ShapeError(f"a mask of shape {mask.shape} does not fit the shape {shape}",
                         "it has the sizes of the axes that it stands for")
