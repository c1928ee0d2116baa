"""Reads and writes elements at a tensor of indices along one axis: gather, scatter, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arguments import names_itself
from ...arrays import dtypes
from ...arrays.shapes import TensorType, axis_of, broadcast, product
from ...core.dispatch import apply
from ...core.op import Op, Source, define, each
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ..batching import shifted
from ..create import full, iota, ones_like, zeros_like
from ..data_dependent import where_true
from ..elementwise.complex import conj_of
from ..elementwise.pointwise import cast, equal, where
from ..range_checks import check_index
from ..reduction.reduce import products_of_others
from ..shape.take import add_at, check_indices, from_front, take_op
from ..shape.view import broadcast_to, permute_dims, reshape
from .index_put import index_put

__all__ = [
    "gather", "index_add", "index_fill", "masked_fill", "masked_select", "scatter", "scatter_add",
    "take_along_axis",
]


# ---- one element read for each index
def _along_result(x: TensorType, i: TensorType, axis: int) -> TensorType:
    _check_index_shape("take_along_axis", x, i, axis)
    return TensorType(i.shape, x.dtype)


def _check_index_shape(name: str, x: Any, i: Any, axis: int) -> None:
    """Raises ShapeError if the indices are larger than `x` along an axis other than `axis`."""
    if len(i.shape) != len(x.shape):
        raise ShapeError(f"{name}: a tensor with {len(x.shape)} axes {x.shape} and indices with "
                         f"{len(i.shape)} axes {i.shape}", "both must have as many axes")
    for a, (n, m) in enumerate(zip(x.shape, i.shape)):
        if a != axis and m > n:
            raise ShapeError(f"{name}: indices {i.shape} are larger than the tensor {x.shape} "
                             f"along axis {a}", f"only along axis {axis} may there be more of them")


def _leading(x: Any, i: Any, axis: int) -> Any:
    """The part of `x` that indices `i` reach: all of `axis`, and their size along other axes."""
    return x[tuple(slice(None) if a == axis else slice(m) for a, m in enumerate(i.shape))]


def _in_range(name: str, i: Any, n: int, axis: int) -> Any:
    """The array `i` as indices for NumPy, or an IndexingError."""
    check_indices(name, i, n, axis)
    return i.astype(np.int64, copy=False)


def _along_impl(xp: Any, x: Any, i: Any, axis: int) -> Any:
    _check_index_shape("take_along_axis", x, i, axis)
    indices = _in_range("take_along_axis", i, x.shape[axis], axis)
    return np.take_along_axis(_leading(x, i, axis), indices, axis)


def _along_read(k: Any, index: Any, types: Any, at: Any, axis: int) -> list[Source]:
    return [Source(0, (*index[:axis], at(1, index), *index[axis + 1:]))]


along_op = define(Op(
    "take_along_axis", "view", _along_result, _along_impl, _along_read,
    each(lambda g, out, x, i, axis: _scatter(zeros_like(x, dtype=g.dtype), i, g, axis, "add"),
         None),
    "GatherElements", bounds=lambda x, i, axis: ((1, x.shape[axis]),), batch=shifted("axis"),
    stored=True))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements of `x` at `indices` along `axis`.

    Along the other axes an index reads at its own position.

    Args:
        indices: integers; negative ones count from the end.
        axis: the axis of the indices. Default -1. The other axes broadcast.

    Raises:
        IndexingError: an index is out of range, or `indices` are not integers.
        ShapeError: the numbers of axes differ, or the other axes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([[10, 20, 30], [40, 50, 60]])
        >>> fw.take_along_axis(x, fw.tensor([[2, 0], [1, 1]]))
        tensor([[30, 10],
                [50, 50]])
    """
    x, i = as_tensor("take_along_axis", x), as_tensor("take_along_axis", indices)
    at = axis_of("take_along_axis", axis, x.ndim)
    if i.ndim != x.ndim:
        _check_index_shape("take_along_axis", x, i, at)
    rest = broadcast("take_along_axis", *[(*s[:at], 1, *s[at + 1:]) for s in (x.shape, i.shape)])
    x, i = (broadcast_to(t, (*rest[:at], t.shape[at], *rest[at + 1:])) for t in (x, i))
    return along(x, from_front("take_along_axis", i, x.shape[at]), at)


def gather(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """The elements of `x` at `index` along `axis`, of the shape of `index`.

    It is `take_along_axis` without broadcasting: along other axes `index` may be smaller than `x`.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `index` has more elements than `x` along another axis.

    Example:
        >>> import fusewire as fw
        >>> fw.gather(fw.tensor([[1, 2], [3, 4]]), 1, fw.tensor([[1, 0, 1]]))
        tensor([[2, 1, 2]])
    """
    x, index = as_tensor("gather", x), as_tensor("gather", index)
    at = axis_of("gather", axis, x.ndim)
    _check_index_shape("gather", x, index, at)
    return along(x, from_front("gather", index, x.shape[at]), at)


def along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """`take_along_axis` at indices of 0 or more, which may be smaller than `x` along other axes."""
    return apply(along_op, (x, indices), {"axis": axis})


# ---- one element written for each index
_COMBINE: dict[str | None, str] = {"add": "add", "prod": "multiply", "amax": "maximum",
                                   "amin": "minimum", None: ""}


def _scatter_result(x: TensorType, i: TensorType, src: TensorType, axis: int, reduce: Any
                    ) -> TensorType:
    _check_index_shape("scatter", x, i, axis)
    if src.shape != i.shape:
        raise ShapeError(f"scatter: values {src.shape} and indices {i.shape} differ in shape",
                         "give one value for each index")
    return x


def _scatter_impl(xp: Any, x: Any, i: Any, src: Any, axis: int, reduce: Any) -> Any:
    _scatter_result(x, i, src, axis, reduce)
    flat_indices = _flat(xp, _in_range("scatter", i, x.shape[axis], axis), x.shape, axis)
    out = x.astype(dtypes.summed_in(x.dtype), order="C")
    values = src.reshape(-1).astype(out.dtype)  # flat: much faster than several axes
    xp.scatter(_COMBINE[reduce], out.reshape(-1), flat_indices, values)
    return out.astype(x.dtype, copy=False)


def _flat(xp: Any, i: Any, shape: tuple[int, ...], axis: int) -> Any:
    """The positions in row-major order that the indices `i` along an axis of `shape` stand for."""
    flat, step = 0, 1
    for a in reversed(range(i.ndim)):
        counted = xp.arange(i.shape[a]).reshape((-1, *(1,) * (i.ndim - a - 1)))
        flat, step = flat + (i if a == axis else counted) * step, step * shape[a]
    return xp.broadcast_to(flat, i.shape).reshape(-1)


def _scatter_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, i: Tensor, src: Tensor, axis: int,
                 reduce: Any) -> list[Any]:
    to_x, to_src = _SCATTER_VJPS[reduce](needs, g, out, x, i, src, axis)
    return [to_x if needs[0] else None, None, to_src if needs[2] else None]


def _replaced_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, i: Tensor, src: Tensor, axis: int
                  ) -> tuple[Tensor, Tensor]:
    """The gradients where values replace: only the last of several values for an index has one."""
    number = reshape(iota((product(src.shape),), 0, device=src.device), src.shape)
    nobody = iota(x.shape, 0, device=x.device) * 0 - 1
    stays = equal(along(_scatter(nobody, i, number, axis, None), i, axis), number)
    return (_scatter(g, i, zeros_like(src), axis, None), where(stays, along(g, i, axis), 0.0))


def _added_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, i: Tensor, src: Tensor, axis: int
               ) -> tuple[Tensor, Tensor]:
    return g, along(g, i, axis)


def _multiplied_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, i: Tensor, src: Tensor,
                    axis: int) -> tuple[Tensor, Any]:
    """The gradients where values multiply: products of all others, without divisions by zeros."""
    to_x = g * conj_of(_scatter(ones_like(x), i, src, axis, "prod"))
    if not needs[2]:
        return to_x, None
    axes = tuple(a for a in range(x.ndim) if a != axis) + (axis,)
    inverse = tuple(axes.index(a) for a in range(x.ndim))
    indices, values = permute_dims(i, axes), permute_dims(src, axes)
    others = permute_dims(_products_of_same_index(indices, values), inverse)
    return to_x, along(g * conj_of(x), i, axis) * conj_of(others)


def _products_of_same_index(indices: Tensor, values: Tensor) -> Tensor:
    """For each value, the product of the others with its index, along the last axis."""
    last = indices.ndim - 1
    permutation = sorting(indices, last)
    sorted_indices = along(indices, permutation, last)
    others = products_of_others(along(values, permutation, last), sorted_indices)
    return along(others, sorting(permutation, last), last)


def _extreme_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, i: Tensor, src: Tensor, axis: int
                 ) -> tuple[Tensor, Tensor]:
    """The gradients for amax and amin, shared equally by all values equal to the extreme one."""
    from_x = cast(equal(x, out), x.dtype)
    from_src = cast(equal(src, along(out, i, axis)), x.dtype)
    share = g / _scatter(from_x, i, from_src, axis, "add")
    return from_x * share, from_src * along(share, i, axis)


_SCATTER_VJPS: dict[str | None, Any] = {
    None: _replaced_vjp, "add": _added_vjp, "prod": _multiplied_vjp, "amax": _extreme_vjp,
    "amin": _extreme_vjp}


def _by_add_at(x: Tensor, i: Tensor, src: Tensor, axis: int, reduce: str) -> Tensor:
    wide = dtypes.summed_in(x.dtype)
    sums = add_at(reshape(cast(src, wide), (-1,)), _flat_indices(x, i, axis), product(x.shape))
    return cast(cast(x, wide) + reshape(sums, x.shape), x.dtype)


def _by_index_put(x: Tensor, i: Tensor, src: Tensor, axis: int, reduce: None) -> Tensor:
    out = index_put(reshape(x, (-1,)), reshape(src, (-1,)), _flat_indices(x, i, axis))
    return reshape(out, x.shape)


def _flat_indices(x: Tensor, i: Tensor, axis: int) -> Tensor:
    """The positions in row-major order that the indices `i` along an axis of `x` stand for."""
    inside = cast(check_index(i, x.shape[axis], "scatter: index"), dtypes.int64)
    flat, step = inside * product(x.shape[axis + 1:]), 1
    for a in reversed(range(i.ndim)):
        flat = flat if a == axis else flat + iota(i.shape, a) * step
        step *= x.shape[a]
    return reshape(flat, (-1,))


_DECOMPOSITIONS: dict[str | None, Any] = {"add": _by_add_at, None: _by_index_put}

scatter_op = define(Op(
    "scatter", "opaque", _scatter_result, _scatter_impl,
    lambda axis, reduce: _DECOMPOSITIONS.get(reduce), _scatter_vjp, "ScatterElements",
    why={"meaning": "several values may go to one index, which only run time tells"},
    bounds=lambda x, i, src, axis, reduce: ((1, x.shape[axis]),), batch=shifted("axis"),
    stored=True))


def _scatter(x: Tensor, indices: Tensor, src: Tensor, axis: int, reduce: str | None) -> Tensor:
    if reduce is not None:
        dtypes.require_computed("scatter", x.dtype)
    return apply(scatter_op, (x, indices, src), {"axis": axis, "reduce": reduce})


def scatter(
    x: Tensor, axis: int, index: Tensor, src: Any, reduce: str | None = None
) -> Tensor:
    """`x` with the values `src` written at `index` along `axis`.

    Along axis 0, src[i, j] is written to [index[i, j], j].

    Args:
        axis: the axis of the indices.
        index: integers; negative ones count from the end.
        src: a tensor of the shape of `index`, or a number.
        reduce: "add", "prod", "amax" or "amin" combines the values for an index with each other
            and with the element of `x`. Default None: the last value replaces it.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: the shapes of `index`, `src` and `x` do not fit.
        DTypeError: `src` does not fit into the dtype of `x`.
        ArgumentError: `reduce` has another value.

    Example:
        >>> import fusewire as fw
        >>> fw.scatter(fw.zeros(4), 0, fw.tensor([2, 0, 2]), fw.tensor([1.0, 2.0, 3.0]), "add")
        tensor([2., 0., 4., 0.])
    """
    if reduce not in _COMBINE:
        raise ArgumentError(f"scatter: reduce={reduce!r} is not known",
                            'it is None, "add", "prod", "amax" or "amin"')
    x, index = as_tensor("scatter", x), as_tensor("scatter", index)
    if reduce in ("amax", "amin") and dtypes.kind(x.dtype) == "c":
        raise DTypeError(f"scatter: complex numbers have no order, got {x.dtype.name}",
                         "compare their absolute values: x.abs()")
    at = axis_of("scatter", axis, x.ndim)
    indices = from_front("scatter", index, x.shape[at])
    source = fitting("scatter", x, src)
    values = source if source.ndim else broadcast_to(source, index.shape)
    return _scatter(x, indices, values, at, reduce)


@names_itself
def scatter_add(x: Tensor, axis: int, index: Tensor, src: Any) -> Tensor:
    """`x` with the values `src` added at `index` along `axis`: `scatter` with reduce="add".

    Example:
        >>> import fusewire as fw
        >>> fw.scatter_add(fw.zeros(3), 0, fw.tensor([2, 2]), fw.tensor([1.0, 2.0]))
        tensor([0., 0., 3.])
    """
    return scatter(x, axis, index, src, "add")


def fitting(name: str, x: Tensor, src: Any) -> Tensor:
    """`src`, a tensor or a number, in the dtype of `x`; DTypeError where that loses information."""
    if not isinstance(src, dtypes.SCALARS):
        values = as_tensor(name, src)
        if dtypes.holds(x.dtype, values.dtype):
            return cast(values, x.dtype)
        source = values.dtype.name
    elif dtypes.promote_scalar(x.dtype, src) == x.dtype:
        return full((), src, x.dtype, x.device)
    else:
        source = type(src).__name__
    raise DTypeError(f"{name}: values of {source} do not fit into {x.dtype.name}",
                     "cast the tensor first, as with x.astype(fw.float32)")


# ---- whole slices along an axis
def slices(name: str, x: Any, axis: int, index: Any) -> tuple[Tensor, int, Tensor]:
    x, index = as_tensor(name, x), as_tensor(name, index)
    if index.ndim > 1:
        raise ShapeError(f"{name}: the index has {index.ndim} axes {index.shape}, not one",
                         "flatten it, or use scatter")
    at = axis_of(name, axis, x.ndim)
    return x, at, from_front(name, reshape(index, (-1,)), x.shape[at])


@names_itself
def index_add(x: Tensor, axis: int, index: Tensor, src: Tensor) -> Tensor:
    """`x` with slice i of `src` added to its slice index[i] along `axis`.

    Args:
        axis: the axis of the slices.
        index: a vector of integers; negative ones count from the end.
        src: a tensor with a slice for each index, or a number.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `index` is not a vector, or `src` does not fit.
        DTypeError: `src` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.index_add(fw.zeros(3, 2), 0, fw.tensor([2, 2]), fw.ones(2, 2))
        tensor([[0., 0.],
                [0., 0.],
                [2., 2.]])
    """
    x, at, index = slices("index_add", x, axis, index)
    shape = (*x.shape[:at], index.shape[0], *x.shape[at + 1:])
    src = fitting("index_add", x, src)
    if src.ndim and src.shape != shape:
        raise ShapeError(f"index_add: values {src.shape} do not fit {index.shape[0]} slices of "
                         f"{x.shape} along axis {at}", f"they have the shape {shape}")
    return x + add_at(broadcast_to(src, shape), index, x.shape[at], at)


@names_itself
def index_fill(x: Tensor, axis: int, index: Tensor, value: Any) -> Tensor:
    """`x` with the slices `index` along `axis` filled with `value`, a number or 0-d tensor.

    Raises:
        IndexingError: an index is out of range, or `index` does not hold integers.
        ShapeError: `index` is not a vector.
        DTypeError: `value` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.index_fill(fw.zeros(3), 0, fw.tensor([0, -1]), 5.0)
        tensor([5., 0., 5.])
    """
    x, at, index = slices("index_fill", x, axis, index)
    n = x.shape[at]
    hit = add_at(iota(index.shape, 0, device=index.device) * 0 + 1, index, n) > 0
    return where(reshape(hit, (n, *(1,) * (x.ndim - at - 1))), fitting("index_fill", x, value), x)


# ---- masks
def as_mask(name: str, mask: Any) -> Tensor:
    mask = as_tensor(name, mask)
    if mask.dtype != dtypes.bool:
        raise DTypeError(f"{name}: a mask is bool, not {mask.dtype.name}",
                         "compare, as in x > 0; for indices use take or index_fill")
    return mask


@names_itself
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`x` with `value`, a number or a tensor, where `mask` is True; shapes broadcast.

    Raises:
        DTypeError: `mask` is not bool, or `value` does not fit into the dtype of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([1.0, 2.0, 3.0]).masked_fill(fw.tensor([True, False, True]), 0)
        tensor([0., 2., 0.])
    """
    x = as_tensor("masked_fill", x)
    return where(as_mask("masked_fill", mask), fitting("masked_fill", x, value), x)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of `x` where `mask` is True, as a vector; shapes broadcast.

    Raises:
        DTypeError: `mask` is not bool.

    Example:
        >>> import fusewire as fw
        >>> fw.masked_select(fw.tensor([1, 2, 3]), fw.tensor([True, False, True]))
        tensor([1, 3])
    """
    x, mask = as_tensor("masked_select", x), as_mask("masked_select", mask)
    shape = broadcast("masked_select", x.shape, mask.shape)
    chosen = where_true(reshape(broadcast_to(mask, shape), (-1,)))
    return apply(take_op, (reshape(broadcast_to(x, shape), (-1,)), chosen), {"axis": 0})


# ---- argsort: in this module, since gradients of `scatter` need it
def _sorting_impl(xp: Any, x: Any, axis: int, descending: bool, count: int) -> Any:
    x = x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x
    n = x.shape[axis]
    if 0 < count <= n // 4 and n > 64 and not (x.dtype.kind == "f" and np.isnan(x).any()):
        keys = x if not descending else -x if x.dtype.kind == "f" else ~x
        return np.moveaxis(_first(np.moveaxis(keys, axis, -1), count), -1, axis)
    if not descending:
        indices = x.argsort(axis, kind="stable")
    else:  # flipped twice, so that equal elements keep their order
        indices = n - 1 - np.flip(np.flip(x, axis).argsort(axis, kind="stable"), axis)
    return indices[tuple(slice(count) if a == axis else slice(None) for a in range(x.ndim))]


def _first(x: Any, count: int) -> Any:
    """The first `count` of the indices that sort `x` along its last axis, without a full sort."""
    limit = np.partition(x, count - 1, -1)[..., count - 1:count]
    below, at = x < limit, x == limit
    room = count - below.sum(-1, keepdims=True)
    selected = below | (at & (at.cumsum(-1) <= room))
    indices = selected.nonzero()[-1].reshape(*x.shape[:-1], count)
    ranks = np.take_along_axis(x, indices, -1).argsort(-1, kind="stable")
    return np.take_along_axis(indices, ranks, -1)


def _sorting_result(x: TensorType, axis: int, descending: bool, count: Any) -> TensorType:
    return TensorType((*x.shape[:axis], count, *x.shape[axis + 1:]), dtypes.int64)


argsort_op = define(Op(
    "argsort", "sort", _sorting_result, _sorting_impl, None, None, "TopK",
    why={"meaning": "sorting is no loop over independent elements",
         "vjp": "its result holds integers, constant between jumps"}, batch=shifted("axis"),
    rows=lambda x, axis, **params: (axis,), passes=16))


def sorting(x: Tensor, axis: int, descending: bool = False, count: Any = None) -> Tensor:
    """The first `count` (None: all) of the indices that sort `x` along `axis`.

    The sort is stable, and nan is the largest value.
    """
    params = {"axis": axis, "descending": descending,
              "count": x.shape[axis] if count is None else count}
    return apply(argsort_op, (x.detach(),), params)
