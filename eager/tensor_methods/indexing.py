"""x[...]: what stands in the brackets, turned into slices, reshapes and takes."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .. import interpreter
from ..arrays.dtypes import int64
from ..arrays.memory import is_whole
from ..arrays.shapes import broadcast, is_one, product, slice_of_size
from ..core.dispatch import apply, new, replace
from ..core.tensor import Tensor, tensor
from ..core.tracer import Traced
from ..core.views import check_write, linked, view_of
from ..errors import IndexingError
from ..ops.create import iota
from ..ops.data_dependent import where_true
from ..ops.elementwise.pointwise import alias, cast, where
from ..ops.indexing.index_put import index_put
from ..ops.range_checks import check_index
from ..ops.shape.view import (
    broadcast_to,
    expand_to,
    from_front,
    permute_dims,
    put_slice,
    reshape,
    slice_axes,
    take_op,
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
            pass  # found out once more below, for the error
        else:
            out = new(Tensor)
            out._data = data if type(data) is np.ndarray else np.asarray(data)
            out.edge = out._grad = None
            out._base = ref(x) if x._base is None else linked(x)
            return out  # type: ignore[no-any-return]
    items = _expanded(x, index)
    if any(map(_is_array, items)):
        return _getitem_arrays(x, items)
    found = _basic(x, items)
    out = slice_axes(x, found.start, found.step, found.size)
    out = out if out.shape == found.shape else reshape(out, found.shape)
    return view_of(x, alias(x)) if out is x else out


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value: changes `x` alone, `value` broadcasts to the part named.

    Where tensors of integers name a place several times, the last value stays.

    >>> import fusewire as fw
    >>> x = fw.zeros(3, 2)
    >>> x[fw.tensor([0, -1]), 1] = fw.tensor([5.0, 6.0])
    >>> x
    tensor([[0., 5.],
            [0., 0.],
            [0., 6.]])
    """
    if sys.getrefcount(x) == _UNHELD:
        raise IndexingError("x[i][j] = value would set an element of a copy that nobody holds",
                            "x[i] is a new tensor, not a window into x: write x[i, j] = value")
    if x.edge is None and not interpreter.in_use and _is_simple(index) and _set(x, index, value):
        return
    given = value if isinstance(value, Tensor) else tensor(value, x.dtype, x.device)
    given = cast(beside(given, x) if given.ndim == 0 else given, x.dtype)
    items = _expanded(x, index)
    if any(map(_is_array, items)):
        replace(x, _with_places(x, items, given))
        return
    found = _basic(x, items)
    part = reshape(_fitting(given, found.shape), found.size)
    replace(x, put_slice(x, part, found.start, found.step))


class _SetItemProbe:
    """Something whose item is set: how many references to it `setitem` sees."""

    def __setitem__(self, seen: list[int], value: Any) -> None:
        seen.append(sys.getrefcount(self))


def _unheld() -> int:
    """References that `setitem` sees to a tensor that no variable holds, as in x[i][j] = value.

    -1 for a Python that counts no others for a tensor in a variable.
    """
    held = _SetItemProbe()
    seen: list[int] = []
    _SetItemProbe()[seen] = held[seen] = None
    return seen[0] if seen[0] < seen[1] else -1


_UNHELD = _unheld()

_SIMPLE = {int, slice, type(None), type(Ellipsis)}


def _is_simple(index: Any) -> bool:
    """Whether NumPy alone can be asked for the elements at `index`."""
    return type(index) in _SIMPLE or (type(index) is tuple and _SIMPLE.issuperset(map(type, index)))


def _references(x: Tensor) -> int:
    array = x._data
    return sys.getrefcount(array)


# References to an array that only its tensor holds, as `_set` counts them: the tensor, the variable
# and the question, which some versions of Python leave out.
_EXCLUSIVE = _references(Tensor(np.empty(1)))


def _set(x: Tensor, index: Any, value: Any) -> bool:
    """Sets elements by NumPy alone, where that is the same: in place if nobody else could tell."""
    if x._base is not None:
        check_write(x)
    array = x._data
    if type(value) is float and array.dtype.kind == "f":
        pass
    elif isinstance(value, Tensor) and value.edge is None and value._data.dtype is array.dtype:
        value = value._data
    else:
        return False
    if sys.getrefcount(array) > _EXCLUSIVE or not is_whole(array) or not array.flags.writeable:
        array = array.copy()
    try:
        array[index] = value
    except (IndexError, TypeError, ValueError):
        return False
    x._data = array
    return True


def _fitting(given: Tensor, shape: Any) -> Tensor:
    """`given` broadcast to `shape`; leading axes of size 1 too many are dropped, as in NumPy."""
    extra = given.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in given.shape[:extra]):
        given = reshape(given, given.shape[extra:])
    return broadcast_to(given, shape)


def _is_array(item: Any) -> bool:
    return isinstance(item, Tensor)


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype.kind == "b"


_ARRAYS = (list, range, np.ndarray, bool, np.bool_)  # what becomes a tensor in an index


def _as_index(item: Any) -> Tensor:
    return tensor(item, dtype=np.int64 if isinstance(item, (list, range)) and not item else None)


def _expanded(x: Tensor, index: Any) -> list[Any]:
    """The items of `index`, one per axis of `x` (a mask counts for its axes), beside Nones."""
    given = index if isinstance(index, tuple) else (index,)
    items = [i.as_index() if isinstance(i, interpreter.Symbol) else
             _as_index(i) if isinstance(i, _ARRAYS) else i for i in given]
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
    """Basic indexing of the other axes first, then one take over the indexed axes made into one.

    Integers count as indexed axes here. Where those do not stand side by side, they come first.
    """
    x, items = _without_masks(x, items)
    places = [n for n, item in enumerate(items) if not _is_slice(item)]
    indices = [items[n] for n in places]
    if not all(_is_full(item) for item in items if _is_slice(item)):
        x = getitem(x, tuple(item if _is_slice(item) else slice(None) for item in items))
    first = places[0]
    if places[-1] - first + 1 != len(places):
        x = permute_dims(x, (*places, *(n for n in range(x.ndim) if n not in places)))
        first = 0
    return _take_many(x, indices, first)


def _is_slice(item: Any) -> bool:
    return item is None or isinstance(item, slice)


def _without_masks(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Any]]:
    """The same index without masks: each is one axis, the places where it holds in all of its own.

    A mask without axes makes an axis of its own, of size 1.
    """
    if not any(map(_is_mask, items)):
        return x, items
    found: list[Any] = []
    shape: list[Any] = []
    axis, sizes = 0, x.shape
    for item in items:
        width = item.ndim if _is_mask(item) else 0 if item is None else 1
        if _is_mask(item):
            found.append(_places_of(item, sizes[axis:axis + width], sizes))
            shape.append(product(sizes[axis:axis + width]))
        else:
            found.append(item)
            shape += sizes[axis:axis + width]
        axis += width
    return reshape(x, tuple(shape)), found


def _places_of(mask: Tensor, sizes: Any, shape: Any) -> Tensor:
    """Where `mask` holds, counted in row-major order: how many is known only from its values."""
    if any(m not in (n, 0) for m, n in zip(mask.shape, sizes)):
        raise IndexingError(f"a mask of shape {mask.shape} does not fit the shape {shape}",
                            "it has the sizes of the axes that it stands for, or 0 for none")
    return where_true(reshape(mask, (-1,)) if mask.ndim != 1 else mask)


def _take_many(x: Tensor, indices: list[Any], axis: int) -> Tensor:
    """Elements of `x` at indices into the axes from `axis` on, which broadcast with each other."""
    sizes = x.shape[axis:axis + len(indices)]
    counted = [_counted(i, axis + k, n, x.shape) for k, (i, n) in enumerate(zip(indices, sizes))]
    shape = broadcast("index", *[i.shape for i in counted if _is_array(i)])
    if len(counted) > 1:  # the flat index may not fit into a small dtype
        counted = [cast(i, int64) if _is_array(i) else i for i in counted]
    flat = counted[0]
    for i, n in zip(counted[1:], sizes[1:]):
        flat = flat * n + i
    if len(indices) > 1:
        x = reshape(x, (*x.shape[:axis], product(sizes), *x.shape[axis + len(indices):]))
    return apply(take_op, (x, expand_to(flat, shape)), {"axis": axis})


def _counted(i: Any, axis: int, n: Any, shape: Any) -> Any:
    """An index into an axis of size `n`, counted from the front.

    Each axis is checked by itself: in a flat index a bad column would look like another row.
    """
    if not _is_array(i):
        return _integer(i, axis, n, shape)
    if interpreter.STATE.active is None and i._data.size and i._data.dtype.kind in "iu":
        low, high = i._data.min(), i._data.max()
        if low < -n or high >= n:
            raise IndexingError(f"index {low if low < -n else high} is out of range for an axis of "
                                f"size {n}", f"indices go from {-n} to {n - 1}")
        if low >= 0:
            return i
    places = from_front("index", i, n)
    return check_index(places, n, "index") if isinstance(i._data, Traced) else places


# ---- x[...] = v with those
def _with_places(x: Tensor, items: list[Any], given: Tensor) -> Tensor:
    """`x` with `given` where `items` point: every place has a number, and those are indexed."""
    while len(items) > 1 and _is_full(items[-1]):
        items = items[:-1]  # axes at the end that are taken whole are written whole
    used = sum(0 if i is None else i.ndim if _is_mask(i) else 1 for i in items)
    sizes, rest = x.shape[:used], x.shape[used:]
    if len(items) == 1 and _is_mask(items[0]) and _fits(given, rest) and \
            items[0].shape == sizes:
        mask = reshape(items[0], (*sizes, *(1,) * len(rest)))
        return where(mask, _fitting(given, rest), x)
    count = product(sizes)
    places = getitem(reshape(iota((count,), 0, device=x.device), sizes), tuple(items))
    values = _fitting(given, (*places.shape, *rest))
    return reshape(index_put(reshape(x, (count, *rest)), values, places), x.shape)


def _fits(given: Tensor, rest: Any) -> bool:
    """Whether one value, of the shape `rest`, is given for all places."""
    extra = given.ndim - len(rest)
    return extra <= 0 or all(map(is_one, given.shape[:extra]))  # measured sizes are not asked


def _is_full(item: Any) -> bool:
    return isinstance(item, slice) and item == slice(None)
