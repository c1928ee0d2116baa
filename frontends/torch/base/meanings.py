"""Functions that expressions of the tables of spellings use: those in which PyTorch's meaning
differs from the one of the Array API standard."""

from __future__ import annotations

import math as math
from collections import namedtuple
from typing import Any

from ....eager.core.tensor import Tensor as Plain
from ....eager.core.tensor import value_of
from ....eager.errors import ArgumentError, DTypeError, ShapeError
from .package import fw
from .tensor_class import operands

PAIRS: dict[str, Any] = {
    name: namedtuple(name, ("values", "indices"))
    for name in ("max", "min", "median", "nanmedian", "mode", "kthvalue", "topk", "sort", "cummax",
                 "cummin")}
"""Types of pairs by the name of their function."""


def picked(name: str, pair: Any) -> Any:
    """The values and indices of `pair` as the pair of a function."""
    return PAIRS[name](*pair)


def signed(total: Any, x: Any, dtype: Any = None) -> Any:
    """The total of unsigned integers `x` as int64, as in PyTorch: x.sum() - 1 may be below 0."""
    is_wider = total._data.dtype.kind == "u" and total._data.dtype != x._data.dtype
    return fw.astype(total, fw.int64) if is_wider and dtype is None else total


# ---- arguments
def sizes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes or axes that are given one by one or as one sequence."""
    if len(args) == 1 and not _is_number(args[0]):
        return tuple(args[0])
    return args


given_sizes = sizes


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, Plain)) or hasattr(value, "__index__")


def given_list(args: tuple[Any, ...]) -> Any:
    """Tensors that are given one by one or as one list."""
    return args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args


def each(function: Any, tensors: tuple[Any, ...]) -> Any:
    """The result of `function` for one tensor, or a tuple of its results for several or a list."""
    if len(tensors) == 1 and isinstance(tensors[0], Plain):
        return function(tensors[0])
    return tuple(map(function, given_list(tensors)))


def padded_sizes(repeats: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """`repeats` with ones in front, so that there is one for each axis."""
    return (1,) * (ndim - len(repeats)) + tuple(repeats)


def axes(dim: Any) -> Any:
    """Axes of a reduction; none, and an empty sequence, are all axes."""
    return None if dim is None or (isinstance(dim, (tuple, list)) and not dim) else \
        tuple(dim) if isinstance(dim, list) else dim


def bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds of random integers; one number is the upper bound."""
    return (0, low) if high is None else (low, high)


def cast(x: Any, dtype: Any) -> Any:
    """`x` in a dtype, or as it is."""
    return x if dtype is None else fw.astype(x, dtype)


def same(x: Any) -> Any:
    """`x`."""
    return x


def scaled(other: Any, alpha: Any) -> Any:
    """`other` times `alpha`."""
    return other if alpha == 1 else fw.multiply(other, alpha) if isinstance(other, Plain) else \
        other * alpha


# ---- elements
def divided(x: Any, y: Any, rounding_mode: str | None) -> Any:
    """The quotient: exact, or rounded down ("floor") or to zero ("trunc")."""
    if rounding_mode is None:
        return fw.divide(x, y)
    if rounding_mode == "floor":
        return fw.floor_divide(x, y)
    if rounding_mode != "trunc":
        raise ArgumentError(f"div: rounding_mode={rounding_mode!r}",
                            'it is None, "floor" or "trunc"')
    quotient = fw.trunc(fw.divide(x, y))
    return quotient if not _whole(x) or not _whole(y) else fw.floor_divide(
        fw.subtract(x, fw.fmod(x, y)), y)


def _whole(x: Any) -> bool:
    return isinstance(x, int) or (isinstance(x, Plain) and x.dtype.kind in "iub")


def clipped(x: Any, low: Any, high: Any) -> Any:
    """`x` limited to the range from `low` to `high`."""
    if isinstance(low, Plain):
        x, low = fw.maximum(*operands(x, low)), None
    if isinstance(high, Plain):
        return fw.minimum(*operands(x if low is None else fw.clip(x, low, None), high))
    return x if low is None and high is None else fw.clip(x, low, high)


def all_equal(x: Any, y: Any) -> bool:
    """True if both tensors have the same shape and elements."""
    return tuple(x.shape) == tuple(y.shape) and bool(fw.all(fw.equal(x, y)))


def selected(condition: Any, x: Any, y: Any) -> Any:
    """The elements of `x` where `condition` holds, else of `y`; without them the places where it
    holds."""
    return fw.nonzero(condition) if x is None and y is None else fw.where(condition, x, y)


def rounded(x: Any, decimals: int) -> Any:
    """`x` rounded to a number of decimals."""
    return fw.round(x) if not decimals else fw.divide(
        fw.round(fw.multiply(x, 10.0 ** decimals)), 10.0 ** decimals)


NAMES_OF_TYPES = {"float32": "FloatTensor", "float64": "DoubleTensor", "int64": "LongTensor",
                  "int32": "IntTensor", "int16": "ShortTensor", "int8": "CharTensor",
                  "uint8": "ByteTensor", "bool": "BoolTensor", "float16": "HalfTensor",
                  "bfloat16": "BFloat16Tensor"}


def typed(x: Any, dtype: Any) -> Any:
    """`x` in a dtype; without a dtype the name of its type."""
    if dtype is None:
        return f"torch.{NAMES_OF_TYPES[x.dtype.name]}"
    if isinstance(dtype, str):
        dtype = _dtype_named(dtype)
    return fw.astype(x, getattr(dtype, "dtype_of_elements", dtype))


def _dtype_named(name: str) -> Any:
    for dtype, type_name in NAMES_OF_TYPES.items():
        if name.rpartition(".")[2] in (dtype, type_name):
            return getattr(fw, dtype)
    raise DTypeError(f"type: there is no type {name!r}", "as in torch.FloatTensor")


# ---- reductions
def largest(x: Any, dim: Any, keepdim: bool) -> Any:
    """The largest element; with a tensor the larger elements; with an axis also where they are."""
    return _extreme("max", fw.max, fw.argmax, fw.maximum, x, dim, keepdim)


def smallest(x: Any, dim: Any, keepdim: bool) -> Any:
    """The smallest element; with a tensor the smaller elements; with an axis also where they are.
    """
    return _extreme("min", fw.min, fw.argmin, fw.minimum, x, dim, keepdim)


def _extreme(name: str, reduce: Any, place: Any, pairwise: Any, x: Any, dim: Any, keepdim: bool
             ) -> Any:
    if isinstance(dim, Plain):
        return pairwise(*operands(x, dim))
    if dim is None:
        return reduce(x)
    where = place(x, dim, keepdim)
    if x.ndim == 0:
        return PAIRS[name](x, where)
    index = where if keepdim else fw.expand_dims(where, dim)
    values = fw.take_along_axis(x, index, axis=dim)
    return PAIRS[name](values if keepdim else fw.squeeze(values, dim), where)


def median_of(x: Any, dim: Any, keepdim: bool) -> Any:
    """The lower of the two middle elements, along all axes or one; nan if there is one."""
    return _median("median", x, dim, keepdim)


def nanmedian_of(x: Any, dim: Any, keepdim: bool) -> Any:
    """The lower of the two middle elements that are numbers."""
    return _median("nanmedian", x, dim, keepdim)


def _median(name: str, x: Any, dim: Any, keepdim: bool) -> Any:
    flat = fw.flatten(x) if dim is None else x
    axis = -1 if dim is None else dim
    order = fw.argsort(flat, axis)
    ordered = fw.take_along_axis(flat, order, axis=axis)
    n = flat.shape[axis]
    missing = fw.sum(fw.isnan(flat), axis, True) if x.dtype.kind == "f" else None
    if missing is None:
        place = fw.full(tuple(1 if i == axis % flat.ndim else m for i, m in enumerate(flat.shape)),
                        (n - 1) // 2)
    elif name == "median":
        place = fw.where(fw.greater(missing, 0), n - 1, (n - 1) // 2)
    else:
        place = fw.floor_divide(fw.maximum(fw.subtract(n - 1, missing), 0), 2)
    values = fw.take_along_axis(ordered, place, axis=axis)
    if dim is None:
        return fw.reshape(values, ())
    pair = values, fw.take_along_axis(order, place, axis=axis)
    return PAIRS[name](*(pair if keepdim else [fw.squeeze(v, axis) for v in pair]))


def sorted_with_indices(x: Any, dim: int, descending: bool) -> Any:
    """The sorted elements and their indices."""
    if x.ndim == 0:
        return PAIRS["sort"](x, fw.zeros_like(x, dtype=fw.int64))
    order = fw.argsort(x, dim, descending)
    return PAIRS["sort"](fw.take_along_axis(x, order, axis=dim), order)


def spread(function: Any, x: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    """A standard deviation or a variance, by default with the divisor n - 1."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return function(x, axes(dim), correction, keepdim)


def norm_of(x: Any, p: Any, dim: Any, keepdim: bool) -> Any:
    """The norm of a vector or, with p="nuc", of a matrix."""
    if p == "nuc":
        return fw.linalg.matrix_norm(x, ord="nuc")
    order = 2 if p in ("fro", None) else p
    return fw.linalg.vector_norm(x, axis=axes(dim), keepdims=keepdim, ord=order)


def places_of_nonzero(x: Any, as_tuple: bool) -> Any:
    """The indices of the elements that are not 0: rows of a matrix, or one tensor for each axis."""
    return fw.nonzero(x) if as_tuple else fw.argwhere(x)


def unique_of(x: Any, return_inverse: bool, return_counts: bool, dim: Any) -> Any:
    """The distinct elements in order; with flags also their places and their counts."""
    if dim is not None:
        raise ArgumentError(f"unique: dim={dim} is not supported",
                            "sort the rows and call torch.unique_consecutive(x, dim=dim)")
    if not return_inverse and not return_counts:
        return fw.unique_values(x)
    every = fw.unique_all(x)
    parts = [every.values, *[every.inverse_indices] * return_inverse,
             *[every.counts] * return_counts]
    return tuple(parts)


def counts_between(x: Any, bins: int, low: Any, high: Any) -> Any:
    """The numbers of elements in equal parts of a range."""
    limits = None if low == high == 0 else (low, high)
    return fw.astype(fw.histogram(x, bins, limits).hist, x.dtype)


def crossed(x: Any, y: Any, dim: Any) -> Any:
    """The vector product along an axis of size 3, the first one by default."""
    axis = next((i for i, n in enumerate(x.shape) if n == 3), -1) if dim is None else dim
    return fw.cross(x, y, axis)


def svd_of(x: Any, some: bool) -> Any:
    """The singular value decomposition with V, not its transpose."""
    u, s, vh = fw.linalg.svd(x, full_matrices=not some)
    return u, s, fw.conj(fw.matrix_transpose(vh))


# ---- creation
def as_tensor_of(data: Any, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """`data` as a tensor, without a copy if it is one already."""
    if isinstance(data, Plain) and not copy:
        return data if dtype is None and device is None else data.to(dtype=dtype, device=device)
    return fw.tensor(data, dtype, device)


def integers_between(low: Any, high: Any, size: Any, generator: Any, dtype: Any, device: Any
                     ) -> Any:
    """Random integers: `randint(high, size)` or `randint(low, high, size)`."""
    if size is None:
        if not isinstance(high, (tuple, list)):
            raise ShapeError(f"randint: got low={low!r}, high={high!r} and no size",
                             "as in torch.randint(0, 10, (2, 3))")
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    return fw.randint(int(low), int(high), tuple(size), generator, dtype, device)


def copied(x: Any) -> Any:
    """A copy on the tape."""
    return fw.asarray(x, copy=True)


def random_integers(x: Any, low: int, high: Any, generator: Any) -> Any:
    """`x`, filled with random integers from `low`, or from 0, up to a bound."""
    if high is None:
        low, high = 0, low or (1 << 24 if x.dtype.kind == "f" else fw.iinfo(x.dtype).max)
    return x.copy_(fw.randint(low, high, tuple(x.shape), generator))


def narrow_index(index: Any, out_int32: bool) -> Any:
    """Indices, in int32 if asked for."""
    return fw.astype(index, fw.int32) if out_int32 else index


# ---- shapes
def joined(tensors: Any, dim: int) -> Any:
    """The tensors one after the other along an axis. Vectors without elements fit everywhere."""
    kept = [x for x in tensors if x.ndim != 1 or x.shape[0] != 0]
    return fw.concat(kept if kept and kept[0].ndim > 1 else tensors, dim)


def taken_along(x: Any, indices: Any, dim: Any) -> Any:
    """The elements at `indices` along an axis, or of the flattened tensor."""
    if dim is None:
        return fw.take_along_axis(fw.flatten(x), fw.flatten(indices), axis=0)
    axis = dim % x.ndim
    shape = fw.broadcast_shapes(tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
                                tuple(1 if i == axis else n for i, n in enumerate(indices.shape)))
    parts = [fw.broadcast_to(y, (*shape[:axis], y.shape[axis], *shape[axis + 1:]))
             for y in (x, indices)]
    return fw.take_along_axis(*parts, axis=axis)


def places(indices: Any) -> tuple[Any, ...]:
    """Indices of elements; a mask stands for the places where it holds."""
    rows: list[Any] = []
    for index in indices:
        is_mask = isinstance(index, Plain) and index.dtype == fw.bool
        rows.extend(fw.nonzero(index) if is_mask else [index])
    return tuple(rows)


def summed_to(x: Any, shape: tuple[Any, ...]) -> Any:
    """`x` summed over the axes along which `shape` was broadcast."""
    extra = x.ndim - len(shape)
    out = fw.sum(x, tuple(range(extra))) if extra else x
    single = tuple(i for i, n in enumerate(shape) if n == 1 and out.shape[i] != 1)
    return fw.sum(out, single, True) if single else out


def scattered_diagonal(x: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    """`x` with `src` in the place of the diagonal of two axes."""
    turned = fw.diagonal_scatter(fw.moveaxis(x, (dim1, dim2), (-2, -1)), src, offset)
    return fw.moveaxis(turned, (-2, -1), (dim1, dim2))


def vector(x: Any) -> Any:
    """`x`; a tensor without axes as a vector of one element, as indices and their values are."""
    return fw.reshape(x, (1,)) if isinstance(x, Plain) and x.ndim == 0 else x


def gathered(x: Any, dim: int, index: Any) -> Any:
    """The elements of `x` at `index` along `dim`, in the shape of `index`."""
    out = fw.gather(vector(x), dim, vector(index))
    return out if index.ndim else fw.reshape(out, ())


def viewed(x: Any, shape: tuple[Any, ...]) -> Any:
    """`x` in another shape, or the bytes of `x` in another dtype."""
    if len(shape) == 1 and not _is_number(shape[0]) and not isinstance(shape[0], (tuple, list)):
        if x.dtype == shape[0]:
            return x
        return fw.tensor(x.detach().numpy().view(shape[0]))
    return fw.reshape(x, sizes(shape))


def expanded(x: Any, shape: tuple[Any, ...]) -> Any:
    """`x` with axes of size 1 repeated; -1 keeps a size."""
    old = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
    return fw.broadcast_to(x, tuple(o if type(n) is int and n == -1 else n
                                    for o, n in zip(old, shape, strict=True)))


def squeezed(x: Any, dim: Any) -> Any:
    """`x` without the axes of size 1 among `dim`."""
    if dim is None:
        return fw.squeeze(x)
    chosen = [dim] if _is_number(dim) else list(dim)
    single = tuple(d for d in chosen if x.ndim and x.shape[d] == 1)
    return fw.squeeze(x, single) if single else x


def transposed(x: Any) -> Any:
    """The transposed matrix; vectors as they are."""
    return fw.transpose(x, 0, 1) if x.ndim == 2 else x


def sliced(x: Any, dim: int, start: int, length: int) -> Any:
    """`length` elements along an axis, from `start` on."""
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, start + length),)]


def row_at(x: Any, dim: int, index: int) -> Any:
    """The part of `x` at an index of an axis."""
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


def in_new_shape(x: Any, y: Any) -> Any:
    """`x`, changed in place to `y`, which may have another shape."""
    x.data = y.detach()
    return x


def diagonal_of(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of two axes, as the last axis."""
    return fw.diagonal(fw.moveaxis(x, (dim1, dim2), (-2, -1)), offset)


def diagonal_matrices(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Matrices with the last axis as a diagonal, whose axes are `dim1` and `dim2`."""
    out = fw.diag_embed(x, offset)
    return out if (dim1, dim2) == (-2, -1) else fw.moveaxis(out, (-2, -1), (dim1, dim2))


def strides(x: Any, dim: Any) -> Any:
    """The strides of a contiguous tensor of this shape, in elements."""
    steps, step = [], 1
    for n in reversed(tuple(x.shape)):
        steps.append(step)
        step *= max(n, 1)
    return tuple(reversed(steps)) if dim is None else steps[::-1][dim]


def address_of(x: Any) -> int:
    """The address of the elements."""
    return int(value_of(x).numpy().ctypes.data)
