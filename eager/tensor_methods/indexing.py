"""Reads and writes elements: `x[...]` becomes slices, reshapes and takes."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from .. import interpreter
from ..arrays.dtypes import int64
from ..arrays.memory import is_whole
from ..arrays.shapes import broadcast, is_one, product, same, slice_of_size
from ..core.dispatch import apply, new
from ..core.in_place import replace, shares_memory
from ..core.tensor import Tensor, tensor, value_of
from ..core.views import base_of, define_access, is_shared, repeats_elements, view_of
from ..errors import IndexingError
from ..ops.create import iota
from ..ops.data_dependent import where_true
from ..ops.elementwise.pointwise import alias, cast, explicit_cast, where
from ..ops.indexing.index_put import index_put
from ..ops.shape.put_slice import put_slice
from ..ops.shape.take import from_front, take_op
from ..ops.shape.view import (
    broadcast_to,
    expand_to,
    permute_dims,
    reshape,
    reshape_unmarked,
    slice_unmarked,
)
from ..ops.transfer import beside


class _Slices(NamedTuple):
    """A basic index: a slice of every axis, and the shape left after dropping and adding axes."""

    start: tuple[Any, ...]
    step: tuple[int, ...]
    size: tuple[Any, ...]
    shape: tuple[Any, ...]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: integers, slices, ..., None, tensors of integers, and masks, in NumPy's order.

    >>> import fusewire as fw
    >>> x = fw.arange(12).reshape(3, 4)
    >>> x[1, ::2], x[fw.tensor([0, 2]), fw.tensor([3, -1])], x[x > 9]
    (tensor([4, 6]), tensor([ 3, 11]), tensor([10, 11]))
    """
    if x.edge is None and not interpreter.in_use and _is_simple(index):
        try:
            data = x._data[index]
        except (IndexError, TypeError, ValueError):
            pass  # the code below fails as well and explains the error
        else:
            out = new(Tensor)
            out._data = data if type(data) is np.ndarray else np.asarray(data)
            out.edge = out._grad = None
            return view_of(x, out, INDEX, index)  # type: ignore[no-any-return]
    items = _expanded(x, index)
    if any(map(_is_array, items)):
        out = _getitem_arrays(x, items)
        out._view = None
        return out if any(map(_copies, items)) else view_of(x, out, INDEX, _frozen(index))
    return view_of(x, _basic_part(x, _basic(x, items)), INDEX, index)


def _copies(item: Any) -> bool:
    """True if an item of an index makes the result a copy. A 0-d tensor stands for an integer."""
    return _is_array(item) and (item.ndim > 0 or item.dtype.kind == "b")


def _frozen(index: Any) -> Any:
    """An index whose 0-d tensors keep the values of now: as ints, if nobody records them."""
    if isinstance(index, tuple):
        return tuple(map(_frozen, index))
    if not isinstance(index, Tensor):
        return index
    return value_of(index) if interpreter.in_use else int(index._data)


def _basic_part(x: Tensor, slices: _Slices) -> Tensor:
    """A new tensor with the elements of a basic index."""
    out = slice_unmarked(x, slices.start, slices.step, slices.size)
    if not same(out.shape, slices.shape):
        return reshape_unmarked(out, slices.shape)
    return alias(x) if out is x else out


def _read_index(x: Tensor, index: Any) -> Tensor:
    return getitem(x, index)


def _write_index(x: Tensor, value: Tensor, index: Any) -> Tensor:
    """A tensor with the elements of `x`, except for those at a basic index."""
    if x.edge is value.edge is None and not interpreter.in_use and _is_simple(index):
        array = x._data.copy()
        array[index] = value._data
        return Tensor(array)
    items = _expanded(x, index)
    if any(map(_is_array, items)):
        return _with_elements(x, items, value)
    slices = _basic(x, items)
    return put_slice(x, reshape_unmarked(value, slices.size), slices.start, slices.step)


INDEX = define_access("index", _read_index, _write_index)


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Sets x[index] to `value`, which broadcasts to the shape of x[index].

    Where tensors of integers name an element several times, the last value stays.

    >>> import fusewire as fw
    >>> x = fw.zeros(3, 2)
    >>> x[fw.tensor([0, -1]), 1] = fw.tensor([5.0, 6.0])
    >>> x
    tensor([[0., 5.],
            [0., 0.],
            [0., 6.]])
    """
    if sys.getrefcount(x) == _UNHELD and base_of(x) is None:
        raise IndexingError("an element of a tensor is set that is discarded at once",
                            "indexing with tensors, masks or lists makes a copy: write x[i, j] = "
                            "value in place of x[i][j] = value")
    if type(value) is not float and _is_view_at(value, x, index):
        return  # Python completes x[0] += 1 by x[0] = the view
    if x.edge is None and not interpreter.in_use and _is_simple(index) and _set(x, index, value):
        return
    source = value if isinstance(value, Tensor) else tensor(value, x.dtype, x.device)
    source = explicit_cast(beside(source, x) if source.ndim == 0 else source, x.dtype)
    items = _expanded(x, index)
    if x._view is not None and repeats_elements(x) and not any(map(_copies, items)):
        part = getitem(x, index)  # its elements may be distinct
        replace(part, _fitting(source, part.shape))
        return
    if any(map(_is_array, items)):
        replace(x, _with_elements(x, items, source))
        return
    slices = _basic(x, items)
    part = reshape_unmarked(_fitting(source, slices.shape), slices.size)
    replace(x, put_slice(x, part, slices.start, slices.step))


def _is_view_at(value: Any, x: Tensor, index: Any) -> bool:
    node = value._view if isinstance(value, Tensor) else None
    return node is not None and node.base is x and node.params is index and node.access is INDEX


class _SetItemProbe:
    """An object whose `__setitem__` appends the number of references to it to a list."""

    def __setitem__(self, seen: list[int], value: Any) -> None:
        seen.append(sys.getrefcount(self))


def _unheld() -> int:
    """References that `setitem` sees to a tensor that no variable holds, as in x[i][j] = value.

    -1 if Python counts as many for a tensor in a variable.
    """
    held = _SetItemProbe()
    seen: list[int] = []
    _SetItemProbe()[seen] = held[seen] = None
    return seen[0] if seen[0] < seen[1] else -1


_UNHELD = _unheld()

_SIMPLE = {int, slice, type(None), type(Ellipsis)}


def _is_simple(index: Any) -> bool:
    """True if NumPy alone can return the elements at `index`."""
    return type(index) in _SIMPLE or (type(index) is tuple and _SIMPLE.issuperset(map(type, index)))


def _references(x: Tensor) -> int:
    array = x._data
    return sys.getrefcount(array)


# References to an array that only its tensor holds, as `_set` counts them: by the tensor, by the
# variable and by the call of getrefcount, which some versions of Python do not count.
_EXCLUSIVE = _references(Tensor(np.empty(1)))


def _set(x: Tensor, index: Any, value: Any) -> bool:
    """True if NumPy alone has set the elements: in place if only this tensor holds the array."""
    shared = x._view is not None and is_shared(x)
    if shared and not shares_memory(x):
        return False
    array = x._data
    if type(value) is float and array.dtype.kind == "f":
        pass
    elif isinstance(value, Tensor) and value.edge is None and value._data.dtype is array.dtype:
        value = value._data
    else:
        return False
    if not shared and (sys.getrefcount(array) > _EXCLUSIVE or not is_whole(array)
                       or not array.flags.writeable):
        array = array.copy()
    try:
        array[index] = value
    except (IndexError, TypeError, ValueError):
        return False
    x._data = array
    return True


def _fitting(values: Tensor, shape: Any) -> Tensor:
    """`values` broadcast to `shape`; extra leading axes of size 1 are dropped, as in NumPy."""
    extra = values.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in values.shape[:extra]):
        values = reshape(values, values.shape[extra:])
    return broadcast_to(values, shape)


def _is_array(item: Any) -> bool:
    return isinstance(item, Tensor)


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype.kind == "b"


_ARRAYS = (list, range, np.ndarray, bool, np.bool_)  # types that become tensors in an index


def _as_index(item: Any) -> Tensor:
    return tensor(item, dtype=np.int64 if isinstance(item, (list, range)) and not item else None)


def _expanded(x: Tensor, index: Any) -> list[Any]:
    """The items of `index`: one per axis of `x` or per axes of a mask, and Nones for new axes."""
    parts = index if isinstance(index, tuple) else (index,)
    items = [_as_index(i) if isinstance(i, _ARRAYS) else i for i in parts]
    items = [beside(i, x) if isinstance(i, Tensor) else i for i in items]
    used = 0
    for item in items:
        if item is not None and item is not Ellipsis:
            used += item.ndim if _is_mask(item) else 1
    if used > x.ndim:
        raise IndexingError(f"too many indices: {used} for a tensor with {x.ndim} axes {x.shape}",
                            "x[..., i] indexes the last axis whatever the number of axes")
    ellipses = [n for n, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexingError("an index can hold ... only once", "write the slices in between as :")
    at = ellipses[0] if ellipses else len(items)
    items = [*items[:at], *[slice(None)] * (x.ndim - used), *items[at + 1:]]
    return _without_symbols(x, items) if any(map(_is_symbol, items)) else items


def _is_symbol(item: Any) -> bool:
    return isinstance(item, interpreter.Symbol)


def _without_symbols(x: Tensor, items: list[Any]) -> list[Any]:
    """`items` with tensors for the symbolic numbers: no call is traced again for other values."""
    result, axis = list[Any](), 0
    for item in items:
        result.append(_without_symbol(x, axis, item) if _is_symbol(item) else item)
        axis += item.ndim if _is_mask(item) else item is not None
    return result


def _without_symbol(x: Tensor, axis: int, number: Any) -> Any:
    index = number.as_index(x.shape[axis])
    return beside(index, x) if isinstance(index, Tensor) else \
        _integer(number, axis, x.shape[axis], x.shape)


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
    if not hasattr(item, "__index__"):
        raise IndexingError(f"cannot index with {item!r:.80}",
                            "integers, slices, ..., None and tensors of integers can be used")
    i = item if isinstance(item, int) else item.__index__()
    if not -n <= i < n:
        raise IndexingError(f"index {i} is out of range for axis {axis} of shape {shape}",
                            f"indices go from {-n} to {n - 1}")
    return i + n if i < 0 else i


# ---- tensors of integers, and masks
def _getitem_arrays(x: Tensor, items: list[Any]) -> Tensor:
    """The elements of `x` at `items`: basic indexing, then one take over the indexed axes as one.

    Integers count as indexed axes. Indexed axes that are not adjacent come first in the result.
    """
    x, items = _without_masks(x, items)
    axes = [n for n, item in enumerate(items) if not _is_slice(item)]
    indices = [items[n] for n in axes]
    if not all(_is_full(item) for item in items if _is_slice(item)):
        x = getitem(x, tuple(item if _is_slice(item) else slice(None) for item in items))
    first = axes[0]
    if axes[-1] - first + 1 != len(axes):
        x = permute_dims(x, (*axes, *(n for n in range(x.ndim) if n not in axes)))
        first = 0
    return _take_many(x, indices, first)


def _is_slice(item: Any) -> bool:
    return item is None or isinstance(item, slice)


def _without_masks(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Any]]:
    """`x` and `items` without masks: the axes of a mask are one axis, indexed where it is True.

    A mask without axes adds an axis of size 1.
    """
    if not any(map(_is_mask, items)):
        return x, items
    indices: list[Any] = []
    shape: list[Any] = []
    axis, sizes = 0, x.shape
    for item in items:
        width = item.ndim if _is_mask(item) else 0 if item is None else 1
        if _is_mask(item):
            indices.append(_positions_in(item, sizes[axis:axis + width], sizes))
            shape.append(product(sizes[axis:axis + width]))
        else:
            indices.append(item)
            shape += sizes[axis:axis + width]
        axis += width
    return reshape(x, tuple(shape)), indices


def _positions_in(mask: Tensor, sizes: Any, shape: Any) -> Tensor:
    """Row-major indices of the elements of `mask` that are True; their number depends on values."""
    if any(m not in (n, 0) for m, n in zip(mask.shape, sizes)):
        raise IndexingError(f"a mask of shape {mask.shape} does not fit the shape {shape}",
                            "it needs the sizes of the axes that it indexes, or 0")
    return where_true(reshape(mask, (-1,)) if mask.ndim != 1 else mask)


def _take_many(x: Tensor, indices: list[Any], axis: int) -> Tensor:
    """Elements of `x` at `indices` of the axes from `axis` on; the indices broadcast."""
    sizes = x.shape[axis:axis + len(indices)]
    counted = [_counted(i, axis + k, n, x.shape) for k, (i, n) in enumerate(zip(indices, sizes))]
    shape = broadcast("index", *[i.shape for i in counted if _is_array(i)])
    if len(counted) > 1:  # the flat index may overflow a small dtype
        counted = [cast(i, int64) if _is_array(i) else i for i in counted]
    flat = counted[0]
    for i, n in zip(counted[1:], sizes[1:]):
        flat = flat * n + i
    if len(indices) > 1:
        x = reshape(x, (*x.shape[:axis], product(sizes), *x.shape[axis + len(indices):]))
    return apply(take_op, (x, expand_to(flat, shape)), {"axis": axis})


def _counted(i: Any, axis: int, n: Any, shape: Any) -> Any:
    """The index `i` into an axis of size `n`, counted from the front.

    Each axis has its own check: in a flat index a bad column would look like another row.
    """
    if not _is_array(i):
        return _integer(i, axis, n, shape)
    return from_front("", i, n)


# ---- x[...] = v with tensors
def _with_elements(x: Tensor, items: list[Any], source: Tensor) -> Tensor:
    """`x` with `source` at `items`: the items index the row-major numbers of the elements."""
    while len(items) > 1 and _is_full(items[-1]):
        items = items[:-1]  # whole axes at the end are written as rows
    used = sum(0 if i is None else i.ndim if _is_mask(i) else 1 for i in items)
    sizes, rest = x.shape[:used], x.shape[used:]
    if len(items) == 1 and _is_mask(items[0]) and _fits(source, rest) and \
            items[0].shape == sizes:
        mask = reshape(items[0], (*sizes, *(1,) * len(rest)))
        return where(mask, _fitting(source, rest), x)
    count = product(sizes)
    positions = getitem(reshape(iota((count,), 0, device=x.device), sizes), tuple(items))
    values = _fitting(source, (*positions.shape, *rest))
    return reshape(index_put(reshape(x, (count, *rest)), values, positions), x.shape)


def _fits(source: Tensor, rest: Any) -> bool:
    """True if `source` is one value of the shape `rest`, for all elements."""
    extra = source.ndim - len(rest)
    return extra <= 0 or all(map(is_one, source.shape[:extra]))  # `==` would limit a symbolic size


def _is_full(item: Any) -> bool:
    return isinstance(item, slice) and item == slice(None)
