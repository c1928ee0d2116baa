"""Moves elements without changing them: reshape, permute, broadcast, slice and pad.

Each op has an index map from an element of its result to the element of its input. The map is
written over indices that may be Python ints, NumPy arrays or expressions of the loop IR. It
therefore uses only arithmetic, comparisons and `&`, and applies `//` and `%` only to values that
are not negative wherever the mask holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import interpreter
from ...arrays import devices, shapes
from ...arrays.shapes import TensorType, axis_of, product
from ...core.dispatch import apply, with_data
from ...core.lazy import AbstractLazyArray
from ...core.op import OPS, Op, Source, define, each
from ...core.tensor import SAME, Tensor, as_tensor
from ...core.views import base_of, define_access, layout, view_of
from ...errors import ShapeError
from .. import batching
from ..batching import permuted, prefixed
from ..elementwise.pointwise import alias

__all__ = [
    "broadcast_to", "expand_dims", "flatten", "flip", "matrix_transpose", "permute_dims",
    "reshape", "squeeze", "transpose",
]


# ---- reshape
def flatten_index(index: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The position of element `index` in row-major order."""
    flat: Any = 0
    for i, n in zip(index, shape):
        flat = flat * n + i
    return flat


def unflatten_index(flat: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The index of the element at position `flat` in row-major order."""
    out: list[Any] = []
    for n in reversed(shape[1:]):
        out.append(flat % n)
        flat = flat // n
    return (flat, *reversed(out)) if len(shape) else ()


def _reshape_read(k: Any, index: Any, types: Any, at: Any, shape: Any) -> list[Source]:
    read: list[Any] = []
    for new, old in _equal_runs(tuple(shape), tuple(types[0].shape)):
        read += unflatten_index(flatten_index(index[new], shape[new]), types[0].shape[old])
    return [Source(0, tuple(read))]


def _equal_runs(new: tuple[Any, ...], old: tuple[Any, ...]) -> list[tuple[slice, slice]]:
    """The axes of two shapes in runs that have equally many elements, as short as possible.

    An index of one run says nothing of the others, so that no division mixes them. A size that is
    0 or not known makes one run of all axes."""
    if any(type(n) is not int or n < 1 for n in (*new, *old)):
        return [(slice(None), slice(None))]
    runs, i, j = [], len(new), len(old)
    while i and j:
        first, second, count, other = i - 1, j - 1, new[i - 1], old[j - 1]
        while count != other:
            if count < other:
                first -= 1
                count *= new[first]
            else:
                second -= 1
                other *= old[second]
        runs.append((slice(first, i), slice(second, j)))
        i, j = first, second
    if i or j:  # axes of size 1 are left
        first_new, first_old = runs.pop() if runs else (slice(0, i), slice(0, j))
        runs.append((slice(0, first_new.stop), slice(0, first_old.stop)))
    return runs[::-1]


reshape_op = define(Op(
    "reshape", "view", lambda x, shape: TensorType(shapes.resolve_reshape(x.shape, shape), x.dtype),
    lambda xp, x, shape: x.reshape(shape), _reshape_read,
    each(lambda g, out, x, shape: reshape(g, x.shape)), batch=prefixed(sizes=("shape",)),
    stored=True))


def reshape(x: Tensor, shape: Any, copy: bool | None = None) -> Tensor:
    """The elements of `x` in row-major order, in another shape.

    Args:
        shape: the new sizes; one of them may be -1 and follows from the others.
        copy: False forbids a copy of the elements. Default None: copies where memory requires it.

    Raises:
        ShapeError: the sizes do not hold as many elements as `x`, or copy=False needs a copy.

    Example:
        >>> import fusewire as fw
        >>> fw.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    if not interpreter.in_use and copy is None and isinstance(x, Tensor):
        try:
            data = x._data.reshape(shape)
        except (ValueError, TypeError):
            pass  # the checks below raise the error that says what to do
        else:  # NumPy also takes None, and any negative size for -1
            if shape == -1 if type(shape) is int else type(shape) is tuple and (
                    data.shape == shape or min(shape) == -1):
                out = with_data(reshape_op, x, data, {"shape": data.shape})
                if x._view is None or _is_view(x, out):
                    view_of(x, out, RESHAPED, data.shape)
                return out
    x = as_tensor("reshape", x)
    new_shape = shapes.resolve_reshape(x.shape, shapes.sizes_of("reshape", shape))
    out = reshape_unmarked(x, new_shape)
    if _is_view(x, out):
        view_of(x, out, RESHAPED, new_shape)
    if copy is False and x.size and isinstance(x._data, np.ndarray) and \
            not np.may_share_memory(x._data, out._data):
        raise ShapeError(f"reshape: {x.shape} to {new_shape} needs a copy of these elements",
                         "omit copy=False")
    return out


def reshape_unmarked(x: Tensor, shape: Any) -> Tensor:
    """The elements of `x` in another shape, which fits, as a tensor that is no view."""
    return alias(x) if shapes.same(shape, x.shape) else apply(reshape_op, (x,), {"shape": shape})


RESHAPED = define_access("reshape", reshape_unmarked,
                         lambda x, value, shape: reshape_unmarked(value, x.shape))


def _is_view(x: Tensor, out: Tensor) -> bool:
    """True if `out`, a reshape of `x`, is a view of it: the elements of `x` lie in its root so that
    no copy is needed. Roots count as row-major: equal programs have equal views, compiled or not,
    on every device."""
    if base_of(x) is None or not (isinstance(x._data, (np.ndarray, AbstractLazyArray))
                                  or type(x._data) in devices.LOADED):
        return True  # or a node of a graph, whose sizes may have no numbers
    array, data = layout(x), out._data
    _guard_sizes_of_one(x, out, array)
    if array is not x._data:  # `x` has no elements yet, or a copy of its elements
        data = array.reshape(data.shape)
    return data is array or data.base is array or data.base is array.base is not None


def _guard_sizes_of_one(x: Tensor, out: Tensor, array: Any) -> None:
    """Guard which symbolic sizes of `x` are 0 or 1: strides of such axes have no meaning, so a
    reshape may be a view for them, and a copy for others. `array`: the layout of `x`."""
    if not array.flags.c_contiguous or min(array.shape, default=2) < 2:
        for size in x.shape:
            if type(size) is not int:
                size.guard_reshape(x, out)


def expand_dims(x: Tensor, axis: Any = 0) -> Tensor:
    """`x` with new axes of size 1.

    Args:
        axis: position of the new axis in the result, or several positions. Default 0.

    Example:
        >>> import fusewire as fw
        >>> fw.expand_dims(fw.zeros(3), (0, -1)).shape
        (1, 3, 1)
    """
    x = as_tensor("expand_dims", x)
    if shapes.whole(axis) is not None:
        at = axis_of("expand_dims", axis, x.ndim + 1)
        return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    listed = shapes.listed("expand_dims", axis)
    new = shapes.axes_of("expand_dims", listed, x.ndim + len(listed))
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in new else next(sizes) for i in range(x.ndim + len(listed))))


def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    """`x` without axes of size 1.

    Args:
        axis: one axis or several. Default None: all axes of size 1.

    Raises:
        ShapeError: a named axis has another size than 1.

    Example:
        >>> import fusewire as fw
        >>> fw.squeeze(fw.zeros(1, 3, 1)).shape, fw.squeeze(fw.zeros(1, 3, 1), 0).shape
        ((3,), (3, 1))
    """
    x = as_tensor("squeeze", x)
    sizes = x.shape
    axes = [i for i, n in enumerate(sizes) if n == 1] if axis is None else \
        shapes.axes_of("squeeze", axis, x.ndim)
    for i in axes:
        if sizes[i] != 1:
            raise ShapeError(f"squeeze: axis {i} of shape {sizes} has size {sizes[i]}, not 1",
                             "squeeze removes axes of size 1; reduce or index the others")
    return reshape(x, tuple(n for i, n in enumerate(sizes) if i not in axes))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`x` with the axes from `start_dim` to `end_dim` joined into one.

    Args:
        start_dim: the first of these axes. Default 0.
        end_dim: the last of these axes. Default -1.

    Raises:
        ShapeError: `start_dim` comes after `end_dim`.

    Example:
        >>> import fusewire as fw
        >>> fw.flatten(fw.zeros(2, 3, 4), 1).shape
        (2, 12)
    """
    x = as_tensor("flatten", x)
    first, last = (axis_of("flatten", a, max(x.ndim, 1)) for a in (start_dim, end_dim))
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} in shape "
                         f"{x.shape}", "give the first axis first")
    sizes = x.shape
    return reshape(x, (*sizes[:first], product(sizes[first:last + 1]), *sizes[last + 1:]))


# ---- permutations of axes
permute_op = define(Op(
    "permute_dims", "view",
    lambda x, axes: TensorType(tuple(x.shape[a] for a in axes), x.dtype),
    lambda xp, x, axes: x.transpose(axes),
    lambda k, index, types, at, axes: [Source(0, tuple(index[axes.index(i)]
                                                       for i in range(len(axes))))],
    each(lambda g, out, x, axes: permute_dims(g, tuple(axes.index(i) for i in range(len(axes))))),
    "Transpose", batch=permuted, stored=True))


def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """`x` with its axes in the order `axes`: axis i of the result is axis axes[i] of `x`.

    Raises:
        ShapeError: `axes` does not name every axis once.

    Example:
        >>> import fusewire as fw
        >>> fw.permute_dims(fw.zeros(2, 3, 4), (2, 0, 1)).shape
        (4, 2, 3)
    """
    x, listed = as_tensor("permute_dims", x), shapes.listed("permute_dims", axes)
    checked = tuple(axis_of("permute_dims", a, x.ndim) for a in listed)
    if sorted(checked) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: {listed} is not an order of the {x.ndim} axes of shape "
                         f"{x.shape}", "name every axis once")
    return view_of(x, permute_unmarked(x, checked), PERMUTED, checked)


def permute_unmarked(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """`permute_dims` for checked axes, as a tensor that is no view."""
    same = axes == tuple(range(x.ndim))
    return alias(x) if same else apply(permute_op, (x,), {"axes": axes})


def _write_permuted(x: Tensor, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The permuted `value`, in the memory layout of `x`."""
    new = permute_unmarked(value, tuple(axes.index(i) for i in range(len(axes))))
    whole = {"start": (0,) * x.ndim, "step": (1,) * x.ndim}
    return apply(OPS["put_slice"], (x, new), whole)


PERMUTED = define_access("permute_dims", permute_unmarked, _write_permuted)


def transpose(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """`x` with the axes `axis0` and `axis1` exchanged.

    Example:
        >>> import fusewire as fw
        >>> fw.transpose(fw.zeros(2, 3, 4), 0, -1).shape
        (4, 3, 2)
    """
    x = as_tensor("transpose", x)
    a, b = (axis_of("transpose", i, x.ndim) for i in (axis0, axis1))
    axes = list(range(x.ndim))
    axes[a], axes[b] = b, a
    return permute_dims(x, axes)


def matrix_transpose(x: Tensor) -> Tensor:
    """The transposed matrices: (..., m, n) -> (..., n, m).

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.matrix_transpose(fw.zeros(5, 2, 3)).shape
        (5, 3, 2)
    """
    x = as_tensor("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs two axes or more, got shape {x.shape}",
                         "a vector becomes a row with x[None, :], a column with x[:, None]")
    return transpose(x, -1, -2)


# ---- repeated elements
def _broadcast_result(x: TensorType, shape: Any) -> TensorType:
    if any(n < 0 for n in shape) \
            or shapes.broadcast("broadcast_to", x.shape, shape) != tuple(shape):
        raise ShapeError(f"broadcast_to: shape {x.shape} does not grow to {tuple(shape)}",
                         "only axes of size 1 and new leading axes are repeated")
    return TensorType(tuple(shape), x.dtype)


def _broadcast_read(k: Any, index: Any, types: Any, at: Any, shape: Any) -> list[Source]:
    sizes = types[0].shape
    own = index[len(index) - len(sizes):]
    return [Source(0, tuple(0 if n == 1 else i for i, n in zip(own, sizes)))]


def _broadcast_vjp(g: Tensor, out: Tensor, x: Tensor, shape: Any) -> Tensor:
    return g  # the backward pass sums over broadcast axes


broadcast_op = define(Op(
    "broadcast_to", "view", _broadcast_result,
    lambda xp, x, shape: xp.broadcast_to(x, shape), _broadcast_read, each(_broadcast_vjp),
    batch=batching.broadcast, stored=True))


def broadcast_to(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """`x` with axes of size 1 and new leading axes repeated up to `shape`.

    Raises:
        ShapeError: `x` does not broadcast to `shape`.

    Example:
        >>> import fusewire as fw
        >>> fw.broadcast_to(fw.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    x, new_shape = as_tensor("broadcast_to", x), shapes.sizes_of("broadcast_to", shape)
    if shapes.same(new_shape, x.shape):
        return view_of(x, alias(x), SAME)
    _broadcast_result(TensorType(x.shape, x.dtype), new_shape)
    out = apply(broadcast_op, (x,), {"shape": new_shape})
    if all(n == 1 for n in new_shape[:out.ndim - x.ndim]) and \
            shapes.same(new_shape[out.ndim - x.ndim:], x.shape):
        return view_of(x, out, RESHAPED, new_shape)
    return view_of(x, out, BROADCAST, new_shape)


BROADCAST = define_access("broadcast_to", lambda x, shape: expand_to(x, shape), None)


def expand_to(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """`broadcast_to` for shapes that fit; returns `x` itself where it has that shape already."""
    return x if shapes.same(x.shape, shape) else apply(broadcast_op, (x,), {"shape": shape})


# ---- slices, and their gradient
def _slice_read(k: Any, index: Any, types: Any, at: Any, start: Any, step: Any, size: Any) -> Any:
    return [Source(0, tuple(b + i * s for i, b, s in zip(index, start, step)))]


def _slice_impl(xp: Any, x: Any, start: Any, step: Any, size: Any) -> Any:
    return x[tuple(as_slice(b, s, n) for b, s, n in zip(start, step, size))]


def as_slice(start: int, step: int, size: int) -> slice:
    if size == 0:  # a negative start would count from the end
        return slice(0, 0)
    stop = start + step * size
    return slice(start, None if stop < 0 else stop, step)


slice_op = define(Op(
    "slice", "view", lambda x, start, step, size: TensorType(tuple(size), x.dtype), _slice_impl,
    _slice_read,
    each(lambda g, out, x, start, step, size: unslice(g, x.shape, start, step)),
    batch=prefixed(("start",), ("step",), ("size",)), stored=True))


def slice_axes(x: Tensor, start: Any, step: Any, size: Any) -> Tensor:
    """The slice of `x` with `size` elements along each axis, from `start` on, every `step`-th.

    Returns `x` itself where the slice covers it.
    """
    out = slice_unmarked(x, start, step, size)
    return x if out is x else view_of(x, out, SLICED, (tuple(start), tuple(step), tuple(size)))


def slice_unmarked(x: Tensor, start: Any, step: Any, size: Any) -> Tensor:
    """`slice_axes` as a tensor that is no view."""
    if tuple(size) == x.shape and all(s == 1 for s in step) and all(b == 0 for b in start):
        return x
    params = {"start": tuple(start), "step": tuple(step), "size": tuple(size)}
    return apply(slice_op, (x,), params)


def _write_slice(x: Tensor, value: Tensor, params: Any) -> Tensor:
    return apply(OPS["put_slice"], (x, value), {"start": params[0], "step": params[1]})


SLICED = define_access("slice", lambda x, params: slice_unmarked(x, *params), _write_slice)


def unslice_read(k: Any, index: Any, types: Any, at: Any, shape: Any, start: Any, step: Any,
                 fill: Any) -> list[Source]:
    where, mask = [], None
    for i, b, s, n in zip(index, start, step, types[0].shape):
        offset = (i - b) if s > 0 else (b - i)
        hit = (offset >= 0) & (offset < n * abs(s))
        if abs(s) != 1:
            hit = hit & (offset % abs(s) == 0)
            offset = offset // abs(s)
        where.append(offset)
        mask = hit if mask is None else mask & hit
    return [Source(0, tuple(where), mask)]


def _unslice_impl(xp: Any, x: Any, shape: Any, start: Any, step: Any, fill: Any) -> Any:
    out = xp.full(shape, fill, x.dtype)
    out[tuple(as_slice(b, s, n) for b, s, n in zip(start, step, x.shape))] = x
    return out


unslice_op = define(Op(
    "unslice", "view", lambda x, shape, start, step, fill: TensorType(tuple(shape), x.dtype),
    _unslice_impl, unslice_read,
    each(lambda g, out, x, shape, start, step, fill: slice_axes(g, start, step, x.shape)),
    batch=prefixed(("start",), ("step",), ("shape",)), stored=True))


def unslice(x: Tensor, shape: Any, start: Any, step: Any, fill: Any = 0) -> Tensor:
    """A tensor of `shape` filled with `fill`, except for the slice that holds `x`.

    It is the inverse of `slice_axes`.
    """
    params = {"shape": tuple(shape), "start": tuple(start), "step": tuple(step), "fill": fill}
    return apply(unslice_op, (x,), params)


def pad(x: Tensor, width: Sequence[tuple[int, int]], value: Any = 0) -> Tensor:
    """`x` with (before, after) elements of `value` added along each axis."""
    x = as_tensor("pad", x)
    if len(width) != x.ndim or any(len(w) != 2 or min(w) < 0 for w in width):
        raise ShapeError(f"pad: needs (before, after), not negative, for each of the {x.ndim} axes "
                         f"of shape {x.shape}, got {width!r}",
                         "as in pad(x, [(0, 0), (1, 1)]); slices take elements away")
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, width))
    return unslice(x, shape, tuple(a for a, _ in width), (1,) * x.ndim, value)


def flip(x: Tensor, axis: Any = None) -> Tensor:
    """`x` with its elements in reverse order along `axis`.

    Args:
        axis: one axis or several. Default None: all axes.

    Example:
        >>> import fusewire as fw
        >>> fw.flip(fw.tensor([1, 2, 3]))
        tensor([3, 2, 1])
    """
    x = as_tensor("flip", x)
    axes = shapes.axes_of("flip", axis, x.ndim)
    if not axes:
        return alias(x)
    start = tuple(n - 1 if i in axes else 0 for i, n in enumerate(x.shape))
    # As in PyTorch flip copies.
    out = slice_unmarked(x, start, tuple(-1 if i in axes else 1 for i in range(x.ndim)), x.shape)
    return alias(x) if out is x else out
