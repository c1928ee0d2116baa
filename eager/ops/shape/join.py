"""Joins several tensors into one, and splits one into several."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

from ... import interpreter
from ...arguments import check_whole, names_itself, whole
from ...arrays.dtypes import promote
from ...arrays.shapes import axis_of, listed, same
from ...core.tensor import SAME, Tensor, as_tensor
from ...core.views import view_of
from ...errors import ShapeError
from ...interpreter import Rows
from ..elementwise.pointwise import alias, cast
from .concat import concat_same_dtype
from .view import expand_dims, permute_dims, reshape, reshape_unmarked, slice_axes

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "chunk", "column_stack", "concat", "dsplit", "dstack",
    "hsplit", "hstack", "split", "stack", "tensor_split", "unstack", "vsplit", "vstack",
]


def alike(name: str, xs: Sequence[Any]) -> list[Tensor]:
    """`xs` as tensors of the dtype to which they promote; ShapeError for an empty list."""
    if isinstance(xs, Tensor) or not len(xs):
        raise ShapeError(f"{name}: takes a list or tuple of at least one tensor",
                         f"write {name}([x, y])")
    tensors = [x if type(x) is Tensor else as_tensor(name, x) for x in xs]
    dtypes = dict.fromkeys([x.dtype for x in tensors])
    if len(dtypes) == 1:
        return tensors
    dtype = reduce(promote, dtypes)
    return [cast(x, dtype) for x in tensors]


def concat(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    """The tensors `arrays` one after the other along `axis`, in the dtype to which they promote.

    Args:
        arrays: a list or tuple of tensors whose other sizes are equal.
        axis: along which they are joined; None flattens them first. Default 0.

    Raises:
        ShapeError: there are no tensors, they are 0-d, or their other sizes differ.

    Example:
        >>> import fusewire as fw
        >>> fw.concat([fw.tensor([1, 2]), fw.tensor([3.0])])
        tensor([1., 2., 3.])
    """
    rows = arrays.joined() if isinstance(arrays, Rows) else None
    if rows is not None and rows.ndim > 1:
        return _concat_rows(rows, axis)
    tensors = alike("concat", arrays)
    if axis is None:
        return concat_same_dtype([reshape(x, (-1,)) for x in tensors], 0)
    if tensors[0].ndim == 0:
        raise ShapeError("concat: 0-d tensors have no axis to be joined along", "use fw.stack")
    return concat_same_dtype(tensors, axis_of("concat", axis, tensors[0].ndim))


def _concat_rows(rows: Tensor, axis: int | None) -> Tensor:
    """The rows of a tensor one after the other along an axis of theirs."""
    if axis is None:
        return reshape(alias(rows), (-1,))
    at = axis_of("concat", axis, rows.ndim - 1)
    shape = rows.shape[1:]
    sizes = *shape[:at], rows.shape[0] * shape[at], *shape[at + 1:]
    return reshape(_with_first_axis_at(rows, at), sizes)


def _with_first_axis_at(x: Tensor, at: int) -> Tensor:
    """`x` with its first axis at another position, as a tensor that is no view."""
    return alias(permute_dims(x, (*range(1, at + 1), 0, *range(at + 1, x.ndim))))


def stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    """The tensors `arrays`, all of one shape, along a new axis.

    Args:
        arrays: a list or tuple of tensors.
        axis: position of the new axis in the result. Default 0.

    Raises:
        ShapeError: there are no tensors, or their shapes differ.

    Example:
        >>> import fusewire as fw
        >>> fw.stack([fw.ones(2), fw.zeros(2)], axis=1)
        tensor([[1., 0.],
                [1., 0.]])
    """
    rows = arrays.joined() if isinstance(arrays, Rows) else None
    if rows is not None:
        return _with_first_axis_at(rows, axis_of("stack", axis, rows.ndim))
    tensors = alike("stack", arrays)
    shapes = [x.shape for x in tensors]
    shape = shapes[0]
    other = next((s for s in shapes if s is not shape and not same(s, shape)), None) \
        if interpreter.in_use or len(set(shapes)) > 1 else None
    if other is not None:
        raise ShapeError(f"stack: shapes {shape} and {other} differ",
                         "all must have one shape; fw.concat joins along an existing axis")
    at = axis_of("stack", axis, len(shape) + 1)
    if at == 0 and shape:
        return reshape_unmarked(concat_same_dtype(tensors, 0), (len(tensors), *shape))
    apart = *shape[:at], 1, *shape[at:]
    return concat_same_dtype([reshape_unmarked(x, apart) for x in tensors], at)


def atleast_1d(x: Any) -> Tensor:
    """`x` with one axis or more: a 0-d tensor becomes (1,).

    Example:
        >>> import fusewire as fw
        >>> fw.atleast_1d(fw.tensor(3))
        tensor([3])
    """
    x = as_tensor("atleast_1d", x)
    return alias(x) if x.ndim else reshape(x, (1,))


def atleast_2d(x: Any) -> Tensor:
    """`x` with two axes or more: (n,) becomes (1, n).

    Example:
        >>> import fusewire as fw
        >>> fw.atleast_2d(fw.tensor([1, 2])).shape
        (1, 2)
    """
    x = atleast_1d(x)
    return expand_dims(x, 0) if x.ndim < 2 else x


def atleast_3d(x: Any) -> Tensor:
    """`x` with three axes or more: (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1).

    Example:
        >>> import fusewire as fw
        >>> fw.atleast_3d(fw.zeros(2, 3)).shape
        (2, 3, 1)
    """
    x = atleast_2d(x)
    return expand_dims(x, 2) if x.ndim < 3 else x


def hstack(arrays: Sequence[Any]) -> Tensor:
    """The tensors joined along axis 1; vectors are joined along axis 0.

    Example:
        >>> import fusewire as fw
        >>> fw.hstack([fw.tensor([1, 2]), fw.tensor([3])])
        tensor([1, 2, 3])
    """
    tensors = [atleast_1d(x) for x in alike("hstack", arrays)]
    return concat(tensors, axis=0 if tensors[0].ndim == 1 else 1)


def vstack(arrays: Sequence[Any]) -> Tensor:
    """The tensors joined along axis 0; each vector becomes a row.

    Example:
        >>> import fusewire as fw
        >>> fw.vstack([fw.tensor([1, 2]), fw.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    return concat([atleast_2d(x) for x in alike("vstack", arrays)], axis=0)


def dstack(arrays: Sequence[Any]) -> Tensor:
    """The tensors joined along axis 2: a vector (n,) becomes (1, n, 1), a matrix (m, n, 1).

    Example:
        >>> import fusewire as fw
        >>> fw.dstack([fw.tensor([1, 2]), fw.tensor([3, 4])])
        tensor([[[1, 3],
                 [2, 4]]])
    """
    return concat([atleast_3d(x) for x in alike("dstack", arrays)], axis=2)


def column_stack(arrays: Sequence[Any]) -> Tensor:
    """The tensors joined along axis 1; each vector becomes a column.

    Example:
        >>> import fusewire as fw
        >>> fw.column_stack([fw.tensor([1, 2]), fw.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    tensors = alike("column_stack", arrays)
    return concat([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in tensors], axis=1)


# ---- splitting
def unstack(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, each without that axis, as a tuple.

    Example:
        >>> import fusewire as fw
        >>> fw.unstack(fw.tensor([[1, 2], [3, 4]]), axis=1)
        (tensor([1, 3]), tensor([2, 4]))
    """
    x = as_tensor("unstack", x)
    at = axis_of("unstack", axis, x.ndim)
    shape = (*x.shape[:at], *x.shape[at + 1:])
    return tuple(reshape(part, shape) for part in _between(x, range(x.shape[at] + 1), at))


def _between(x: Tensor, limits: Sequence[Any], axis: int) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis` from each of `limits` to the next."""
    parts = []
    for start, stop in pairwise(limits):
        begin = tuple(start if i == axis else 0 for i in range(x.ndim))
        count = stop - start if stop > start else 0
        size = tuple(count if i == axis else n for i, n in enumerate(x.shape))
        part = slice_axes(x, begin, (1,) * x.ndim, size)
        parts.append(view_of(x, alias(x), SAME) if part is x else part)
    return tuple(parts)


@names_itself
def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Slices of `x` along `axis`, as a tuple.

    Args:
        sizes: the size of each slice; or one size for all, of which the last may be smaller.
        axis: along which `x` is cut. Default 0.

    Raises:
        ShapeError: `sizes` do not add up to the size of the axis, or the one size is below 1.

    Example:
        >>> import fusewire as fw
        >>> fw.split(fw.arange(5), 2), fw.split(fw.arange(5), [1, 4])
        ((tensor([0, 1]), tensor([2, 3]), tensor([4])), (tensor([0]), tensor([1, 2, 3, 4])))
    """
    x = as_tensor("split", x)
    at = axis_of("split", axis, x.ndim)
    n, size = x.shape[at], whole(sizes)
    if size is not None:
        if size < 1:
            raise ShapeError(f"split: a size of {size}", "sizes of parts are positive")
        return _between(x, [*range(0, n, size), n] if n else [0, 0], at)
    counts = [whole(s) for s in listed("split", sizes)]
    if None in counts or any(s < 0 for s in counts) or builtins.sum(counts) != n:
        raise ShapeError(f"split: sizes {sizes!r} do not make up axis {at} of shape {x.shape}",
                         f"they are whole numbers that add up to {n}; tensor_split takes indices")
    return _between(x, list(accumulate(counts, initial=0)), at)


@names_itself
def tensor_split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Slices of `x` along `axis`, as a tuple: a number of them, or cut at given indices.

    Args:
        parts: how many slices; their sizes differ by 1 at most, and the larger ones come first.
            Or the indices at which slices after the first begin.
        axis: along which `x` is cut. Default 0.

    Raises:
        ShapeError: `parts` is a number below 1.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor_split(fw.arange(5), 2), fw.tensor_split(fw.arange(5), [1, 3])
        ((tensor([0, 1, 2]), tensor([3, 4])), (tensor([0]), tensor([1, 2]), tensor([3, 4])))
    """
    x = as_tensor("tensor_split", x)
    at = axis_of("tensor_split", axis, x.ndim)
    n, count = x.shape[at], whole(parts)
    if count is None:
        positions = [slice(check_whole("tensor_split", "parts", p), None).indices(n)[0]
                     for p in listed("tensor_split", parts)]
        return _between(x, [0, *positions, n], at)
    if count < 1:
        raise ShapeError(f"tensor_split: {count} parts", "ask for one part or more")
    return _between(x, [i * (n // count) + min(i, n % count) for i in range(count + 1)], at)


@names_itself
def hsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Slices of `x` along axis 1, or axis 0 of a vector: a number of equal ones, or cut at indices.

    Raises:
        ShapeError: `x` is 0-d, or cannot be cut into that number of equal slices.

    Example:
        >>> import fusewire as fw
        >>> fw.hsplit(fw.arange(4), 2), fw.hsplit(fw.arange(4), [1])
        ((tensor([0, 1]), tensor([2, 3])), (tensor([0]), tensor([1, 2, 3])))
    """
    x = as_tensor("hsplit", x)
    return _equal_parts("hsplit", x, parts, 1 if x.ndim > 1 else 0)


@names_itself
def dsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Slices of `x` along axis 2: a number of equal ones, or cut at given indices.

    Raises:
        ShapeError: `x` has fewer than three axes, or cannot be cut into so many equal slices.

    Example:
        >>> import fusewire as fw
        >>> [part.shape for part in fw.dsplit(fw.zeros(2, 3, 4), 2)]
        [(2, 3, 2), (2, 3, 2)]
    """
    return _equal_parts("dsplit", as_tensor("dsplit", x), parts, 2)


def _equal_parts(name: str, x: Tensor, parts: Any, axis: int) -> tuple[Tensor, ...]:
    if x.ndim <= axis:
        raise ShapeError(f"{name}: needs {axis + 1} axes or more, got shape {x.shape}",
                         "fw.tensor_split takes an axis")
    count = whole(parts)
    if count is not None and (count < 1 or x.shape[axis] % count):
        raise ShapeError(f"{name}: {count} equal parts of axis {axis} of shape {x.shape}",
                         "fw.tensor_split takes sizes that differ by 1")
    return tensor_split(x, parts, axis)


def chunk(x: Tensor, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most `parts` slices of `x` along `axis`, all of one size except for a smaller last one.

    Raises:
        ShapeError: `parts` is not a whole number of 1 or more.

    Example:
        >>> import fusewire as fw
        >>> fw.chunk(fw.arange(5), 3)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    x = as_tensor("chunk", x)
    at = axis_of("chunk", axis, x.ndim)
    if whole(parts) is None or parts < 1:
        raise ShapeError(f"chunk: {parts!r} parts", "ask for one part or more")
    return split(x, max(-(-x.shape[at] // parts), 1), at)


@names_itself
def vsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Slices of `x` along the first axis, as a tuple; `parts` as for `tensor_split`.

    Raises:
        ShapeError: `x` has fewer than two axes, or a number of parts does not divide the axis.

    Example:
        >>> import fusewire as fw
        >>> [part.shape for part in fw.vsplit(fw.zeros(4, 3), 2)]
        [(2, 3), (2, 3)]
    """
    x = as_tensor("vsplit", x)
    if x.ndim < 2:
        raise ShapeError(f"vsplit: takes two axes or more, got shape {x.shape}",
                         "fw.tensor_split takes vectors")
    return _equal_parts("vsplit", x, parts, 0)
