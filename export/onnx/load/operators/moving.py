"""Defines operators that move elements: join, split, gather, scatter, sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.arrays.shapes import product
from .....eager.core.tensor import tensor
from .....eager.errors import ShapeError
from .....eager.nn import functional as F
from .....eager.ops import create
from .....eager.ops.elementwise import pointwise
from .....eager.ops.indexing import scatter, search, sort
from .....eager.ops.shape import padding, view
from .....eager.ops.shape.join import concat, split
from .....eager.ops.shape.take import take
from ..runtime.table import Number, Sizes, Tensor, operator
from ..runtime.values import check_room, is_tensor, is_texts, tensor_of
from .shapes import along, axes_of

__all__: list[str] = []


@operator("Concat")
def _concat(*parts: Tensor, axis: int = 1) -> Tensor:
    return concat(list(parts), axis)


@operator("Split", many=True)
def _split(x: Tensor, split: Sizes = None, axis: int = 0, num_outputs: int | None = None,
           outputs: int = 1) -> Any:
    if split is None:
        if num_outputs is not None and num_outputs != outputs:
            raise ShapeError(f"Split has {outputs} outputs, and num_outputs is {num_outputs}")
        n, parts = x.shape[axis], num_outputs or outputs
        size = -(-n // parts)
        split = (*[size] * (parts - 1), n - size * (parts - 1))
    return _split_by(x, split, axis)


def _split_by(x: Tensor, sizes: Any, axis: int) -> Any:
    return split(x, list(sizes), axis)


@operator("Slice", since=10)
def _slice(x: Any, starts: Sizes, ends: Sizes, axes: Sizes = None, steps: Sizes = None) -> Any:
    x = x if is_texts(x) else tensor_of(x)
    axes = tuple(range(len(starts))) if axes is None else axes_of(axes, x.ndim)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(starts)):
        index[axis] = _slice_of(x.shape[axis], start, end, step)
    return x[tuple(index)]


def _slice_of(n: Any, start: Any, end: Any, step: int) -> slice:
    """A slice with ONNX's limits, which may be far out of range."""
    far = 2 ** 31 - 1
    if type(end) is int and (end >= far or end <= -far):
        end = None if (end > 0) == (step > 0) else (0 if step > 0 else n)
    if type(start) is int and (start >= far or start <= -far):
        start = None if (start < 0) == (step > 0) else (n if step > 0 else 0)
    if step < 0 and type(end) is int and type(n) is int and end < -n:
        end = None
    return slice(start, end, step)


@operator("Slice", since=1)
def _slice_by_attributes(x: Any, starts: Any, ends: Any, axes: Any = None) -> Any:
    return _slice(x, starts, ends, axes)


@operator("Pad", since=11, settings=(2,))
def _pad(x: Tensor, pads: Sizes, value: Tensor | None = None, axes: Sizes = None,
         mode: str = "constant") -> Tensor:
    axes = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis] = (pads[i], pads[i + len(axes)])
    check_room([n + a + b for (a, b), n in zip(widths, x.shape)], x.dtype)
    cut = tuple(slice(-min(a, 0), n + min(b, 0)) for (a, b), n in zip(widths, x.shape))
    x = x[cut] if any(min(w) < 0 for w in widths) else x
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode != "constant":
        return padding.pad(x, widths, mode)
    if value is not None and value.size:
        return _padded_with(x, widths, value.reshape(()))
    return padding.pad(x, widths, constant_values=0)


def _padded_with(x: Tensor, widths: Any, value: Tensor) -> Tensor:
    """`x` padded by a number that is a tensor."""
    if x.dtype.kind == "b":
        return pointwise.not_equal(
            _padded_with(x.astype("int8"), widths, value.astype("int8")), 0)
    inside = padding.pad(create.ones(x.shape, dtype="bool").astype("int8"), widths)
    return pointwise.where(pointwise.not_equal(inside, 0), padding.pad(x, widths), value)


@operator("Pad", since=2)
def _pad_by_attributes(x: Tensor, pads: Any, value: float = 0.0, mode: str = "constant"
                       ) -> Tensor:
    return _pad(x, pads, tensor_of(value).astype(x.dtype), None, mode)


@operator("Pad", since=1)
def _pad_by_old_attributes(x: Tensor, paddings: Any, value: float = 0.0, mode: str = "constant"
                           ) -> Tensor:
    return _pad_by_attributes(x, paddings, value, mode)


# ---- gathering
@operator("Gather")
def _gather(x: Any, indices: Any, axis: int = 0) -> Any:
    if is_texts(x):
        return np.take(x, tensor_of(indices).numpy(), axis)
    x = tensor_of(x)
    if isinstance(indices, tuple) or type(indices) is int:
        indices = tensor(indices, "int64")
    return take(x, _signed(tensor_of(indices)), axis=axis)


def _signed(indices: Tensor) -> Tensor:
    return indices if indices.dtype.kind == "i" else indices.astype("int64")


@operator("GatherElements")
def _gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Indices may cover fewer elements of the other axes than `x` has."""
    axis = axes_of([axis], x.ndim)[0]
    cut = tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(indices.shape))
    return scatter.take_along_axis(x[cut], indices, axis=axis)


def _flat_indices(indices: Tensor, shape: Any, batch: int = 0) -> Tensor:
    """Multi-indices of elements of `shape`, after the batch axes, as flat indices."""
    width = indices.shape[-1]
    flat = None
    for i in range(width):
        n = shape[batch + i]
        one = indices[..., i]
        one = pointwise.where(one < 0, one + n, one)
        flat = one if flat is None else flat * n + one
    return flat if flat is not None else create.zeros(indices.shape[:-1], dtype="int64")


@operator("GatherND")
def _gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    width, b = indices.shape[-1], batch_dims
    flat_indices = _flat_indices(indices, x.shape, b)
    rest = x.shape[b + width:]
    count, inner = product(x.shape[:b]), product(x.shape[b:b + width])
    flat = x.reshape((count * inner, *rest))
    if b:
        own = create.arange(count).reshape((*x.shape[:b], *[1] * (flat_indices.ndim - b)))
        flat_indices = flat_indices + own * inner
    return take(flat, flat_indices, axis=0)


@operator("Compress")
def _compress(x: Tensor, condition: Tensor, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    chosen, = search.nonzero(condition)
    return take(x, chosen, axis=axis)


@operator("ReverseSequence")
def _reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0
                      ) -> Tensor:
    at = create.iota(x.shape, time_axis)
    own = lengths.reshape([-1 if i == batch_axis else 1 for i in range(x.ndim)])
    indices = pointwise.where(at < own, own - 1 - at, at)
    return scatter.take_along_axis(x, view.broadcast_to(indices, x.shape), axis=time_axis)


@operator("OneHot")
def _one_hot(indices: Tensor, depth: Number, values: Tensor, axis: int = -1) -> Tensor:
    depth = int(depth)
    check_room((*indices.shape, depth), values.dtype)
    at = axes_of([axis], indices.ndim + 1)[0]
    targets = indices.astype("int64")
    targets = view.expand_dims(pointwise.where(targets < 0, targets + depth, targets), at)
    classes = create.arange(depth).reshape(
        [depth if i == at else 1 for i in range(indices.ndim + 1)])
    return pointwise.where(pointwise.equal(targets, classes), values[1], values[0])


# ---- scattering
_REDUCED = {"none": None, "add": "add", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def _scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0,
                      reduction: str = "none") -> Tensor:
    return scatter.scatter(x, axis, _signed(indices), updates, _REDUCED[reduction])


@operator("ScatterND")
def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    width = indices.shape[-1]
    rest = x.shape[width:]
    inner = product(rest)
    flat = x.reshape((-1, inner)) if inner else x.reshape((0, 0))
    flat_indices = _flat_indices(indices, x.shape).reshape((-1, 1))
    rows = updates.reshape((-1, inner))
    out = scatter.scatter(flat, 0, view.broadcast_to(flat_indices, rows.shape), rows,
                          _REDUCED[reduction])
    return out.reshape(x.shape)


@operator("TensorScatter")
def _tensor_scatter(past: Tensor, update: Tensor, write_indices: Tensor | None = None,
                    axis: int = -2, mode: str = "linear") -> Tensor:
    at = axes_of([axis], past.ndim)[0]
    n = past.shape[at]
    indices = create.iota(update.shape, at)
    if write_indices is not None:
        indices = indices + write_indices.reshape((-1, *[1] * (past.ndim - 1)))
    if mode == "circular":
        indices = pointwise.remainder(indices, n)
    return scatter.scatter(past, at, indices, update)


# ---- sorting and searching
@operator("TopK", many=True)
def _top_k(x: Tensor, k: Number, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    wide = x.astype("int64") if dtypes.kind(x.dtype) in "u" and x.dtype.itemsize < 8 else x
    indices = sort.argsort(wide, axis, bool(largest))
    at = axes_of([axis], x.ndim)[0]
    indices = along(indices, at, slice(0, int(k)))
    return scatter.take_along_axis(x, indices, axis=at), indices


def _best(name: str, function: Any) -> None:
    @operator(name)
    def computed(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
                 ) -> Tensor:
        if select_last_index:
            n = x.shape[axis]
            return n - 1 - function(view.flip(x, axis), axis, bool(keepdims))
        return function(x, axis, bool(keepdims))


_best("ArgMax", search.argmax)
_best("ArgMin", search.argmin)


@operator("NonZero")
def _nonzero(x: Tensor) -> Tensor:
    return view.permute_dims(search.argwhere(x), (1, 0))


@operator("Unique", many=True)
def _unique(x: Any, axis: int | None = None, sorted: int = 1) -> Any:
    array = x.numpy() if is_tensor(x) else x
    distinct, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        ranking = np.argsort(first)
        distinct = np.take(distinct, ranking, axis=0 if axis is None else axis)
        rank = np.empty_like(ranking)
        rank[ranking] = np.arange(len(ranking))
        first, counts, inverse = first[ranking], counts[ranking], rank[inverse]
    values = tensor(distinct) if is_tensor(x) else distinct
    return (values, *(tensor(np.asarray(a, np.int64)) for a in (first, inverse, counts)))


@operator("DepthToSpace")
def _depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    shape, perm = ((n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)) if mode == "DCR" else \
        ((n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3))
    moved = view.permute_dims(view.reshape(x, shape), perm)
    return view.reshape(moved, (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if mode != "DCR":
        return F.pixel_unshuffle(x, blocksize)
    n, c, h, w = x.shape
    b = blocksize
    parts = view.reshape(x, (n, c, h // b, b, w // b, b))
    return view.reshape(view.permute_dims(parts, (0, 3, 5, 1, 2, 4)),
                        (n, c * b * b, h // b, w // b))


@operator("CenterCropPad")
def _center_crop_pad(x: Tensor, shape: Sizes, axes: Any = None) -> Tensor:
    axes = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    cut, widths = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, n in zip(axes, shape):
        own = x.shape[axis]
        if own > n:
            cut[axis] = slice((own - n) // 2, (own - n) // 2 + n)
        else:
            widths[axis] = ((n - own) // 2, n - own - (n - own) // 2)
    return padding.pad(x[tuple(cut)], widths)

