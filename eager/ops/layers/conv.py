"""Declares convolution over (n, channels, *space) and its gradients, as contractions of windows.

The sum over n, f, c, o, k of x[n, c, o * stride + k * dilation - pad] * w[f, c, k] * y[n, f, o] is
linear in each of its three tensors. The factor of y is the convolution of x with w, the factor of x
the transposed convolution of y with w, and the factor of w the gradient of w. So each of the three
ops is one contraction, and the gradients of each are the other two.

groups: channels and filters are split into that many parts, each convolved by itself.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from itertools import product as cartesian
from typing import Any, NamedTuple

import numpy as np

from ...arrays import cpu_kernels, dtypes, memory
from ...arrays.shapes import TensorType, product
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..elementwise.complex import conj_of
from ..elementwise.composite import call, composite
from ..products.contract import contract
from ..shape.view import flip, permute_dims, reshape
from ..shape.view import pad as pad_with
from ..shape.window import window, window_op

_SPACE = "uvw"  # letters of the positions of windows
_KERNEL = "xyz"  # letters of the positions inside a window
_SHARE = "pqr"  # letters of the elements between two windows of a strided convolution
_MIN_ZERO_PRODUCTS = 64  # products with zeros, per product, from which summing products is cheaper
_BLOCK_ELEMENTS = 1 << 20  # elements of windows that eager writes to memory at once
_MULTIPLIED_BYTES_PER_NS, _WRITTEN_BYTES_PER_NS = 256, 12
_MEMORY_PASSES = 64
Pads = tuple[tuple[Any, Any], ...]  # elements added before and after each axis


# ---- shapes
def _sizes(x: Any, kernel: Any, stride: Any, dilation: Any, pad: Pads) -> tuple[Any, ...]:
    """The number of windows along each axis of space."""
    counts = []
    for n, k, s, r, (before, after) in zip(x.shape[2:], kernel, stride, dilation, pad):
        reach = r * (k - 1) + 1
        count = (n + before + after - reach) // s + 1
        if count < 1:
            raise ShapeError(f"conv: a window of {reach} does not fit into an axis of size {n} "
                             f"padded by {before} and {after}",
                             "use a smaller kernel or more padding")
        counts.append(count)
    return tuple(counts)


def _conv_result(x: TensorType, w: TensorType, stride: Any, dilation: Any, pad: Pads, groups: int
                 ) -> TensorType:
    _check("conv", x, w)
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"conv: input {x.shape} does not fit the weight {w.shape} in {groups} groups",
            "the weight is (out, in / groups, *kernel), and groups divides in and out")
    return TensorType((x.shape[0], w.shape[0],
                       *_sizes(x, w.shape[2:], stride, dilation, pad)), x.dtype)


def _transpose_result(y: TensorType, w: TensorType, space: Any, groups: int, **rest: Any
                      ) -> TensorType:
    _check("conv_transpose", y, w)
    if y.shape[1] != w.shape[0] or y.shape[1] % groups:
        raise ShapeError(
            f"conv_transpose: input {y.shape} does not fit the weight {w.shape} in {groups} groups",
            "the weight is (in, out / groups, *kernel), and groups divides in")
    if min(space) < 1:
        raise ShapeError(f"conv_transpose: input {y.shape} gives the sizes {tuple(space)} with the "
                         f"weight {w.shape}", "use less padding, which is removed from the result")
    return TensorType((y.shape[0], w.shape[1] * groups, *space), y.dtype)


def _weight_result(x: TensorType, y: TensorType, kernel: Any, stride: Any, dilation: Any, pad: Pads,
                   groups: int) -> TensorType:
    out = _sizes(x, kernel, stride, dilation, pad)
    if y.shape != (x.shape[0], y.shape[1], *out):
        raise ShapeError(f"conv_weight: input {x.shape} and windows {y.shape}: there are {out} of "
                         f"{tuple(kernel)}", "y has the shape of the convolution of x")
    return TensorType((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)


def _check(name: str, x: Any, w: Any) -> None:
    if x.ndim != w.ndim or x.ndim < 3:
        raise ShapeError(f"{name}: input {x.shape} does not fit the weight {w.shape}",
                         "the input is (n, in, *space), the weight has as many axes")
    if x.dtype != w.dtype:
        raise DTypeError(f"{name}: the input is {x.dtype.name}, the weight {w.dtype.name}",
                         f"cast one of them: x.astype(fw.{w.dtype.name})")
    if dtypes.kind(x.dtype) == "b":
        raise DTypeError(f"{name}: takes numbers, not bool", "cast first: x.astype(fw.float32)")


# ---- meaning
def _grouped(x: Tensor, axis: int, groups: int) -> Tensor:
    """`x` with the axis split into groups and the elements of each; unchanged for one group."""
    if groups == 1:
        return x
    return reshape(x, (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1:]))


def _contracted(left: Tensor, right: Tensor, spec: str, groups: int, result: TensorType) -> Tensor:
    """The contraction in which o and k stand for all axes of windows, g for that of groups."""
    d = result.ndim - 2
    spec = spec if groups > 1 else spec.replace("g", "")
    spec = spec.replace("o", _SPACE[:d]).replace("k", _KERNEL[:d])
    out = contract(left, right, spec)
    return out if groups == 1 else reshape(out, result.shape)


def _conv(x: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Pads, groups: int) -> Tensor:
    result = _conv_result(x, w, stride, dilation, pad, groups)  # type: ignore[arg-type]
    windows = window(_grouped(x, 1, groups), w.shape[2:], result.shape[2:], stride, dilation,
                     _before(pad))
    return _contracted(windows, _grouped(w, 0, groups), "ngcok,gfck->ngfo", groups, result)


def _conv_transpose(y: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Pads, groups: int,
                    space: Any) -> Tensor:
    """The transposed convolution: every element gathers from the windows that contain it.

    For a stride, y has holes between its elements. Without holes, each element reads only the
    windows that reach it.
    """
    result = _transpose_result(y, w, space, groups)  # type: ignore[arg-type]
    fixed_sizes = all(type(n) is int for n in (*space, *w.shape[2:], *y.shape[2:]))
    if max(stride) > 1 and set(dilation) == {1} and groups == 1 and fixed_sizes:
        return _without_holes(y, w, stride, pad, space)
    kernel, d = w.shape[2:], len(stride)
    windows = window(_grouped(y, 1, groups), kernel, space, (1,) * d, dilation,
                     _transposed_pads(kernel, dilation, pad), spread=stride)
    mirrored = _grouped(flip(w, tuple(range(2, 2 + d))), 0, groups)
    return _contracted(windows, mirrored, "ngfok,gfck->ngco", groups, result)


class _Shares:
    """Assigns weights of a strided convolution to the elements between two windows, on one axis.

    Element s * t + a gets the weights at s * j + a + before, from windows t - j. There are `reach`
    such shares once `fill` zeros stand before the weight and `rest` behind it.
    """

    def __init__(self, space: int, kernel: int, stride: int, before: int) -> None:
        self.stride, self.count = stride, -(-space // stride)
        self.ahead = -(-before // stride)
        self.reach = max(1, -(-(kernel - before) // stride) + self.ahead)
        self.fill = stride * self.ahead - before
        self.rest = stride * self.reach - kernel - self.fill

    def reached(self, windows: int) -> list[_Share]:
        """The shares that any of that many windows has, and the positions of those windows."""
        shares = []
        for share in range(self.reach):
            first = self.ahead - share  # the window at the first element
            before, start = max(0, -first), max(0, first)
            stop = min(windows, self.count + first)
            if start < stop:
                after = self.count - before - (stop - start)
                shares.append(_Share(share, slice(start, stop), (before, after)))
        return shares


class _Share(NamedTuple):
    """One share of the weights: its number, and the windows that have it.

    `around`: the numbers of elements before and after those of the windows.
    """

    number: int
    windows: slice
    around: tuple[int, int]


def _without_holes(y: Tensor, w: Tensor, stride: Any, pad: Pads, space: Any) -> Tensor:
    """`_conv_transpose` for a stride, without products with holes."""
    axes = [_Shares(*a) for a in zip(space, w.shape[2:], stride, _before(pad))]
    filled = product(a.reach * a.stride for a in axes) / product(w.shape[2:])
    shares = [a.reached(n) for a, n in zip(axes, y.shape[2:])]
    exact = dtypes.summed_in(y.dtype) == y.dtype  # otherwise sums would be rounded twice
    own = exact and all(shares) and (filled - 1) * w.shape[0] >= _MIN_ZERO_PRODUCTS
    out = _sum_of_products(y, w, axes, shares) if own else _side_by_side(y, w, axes)
    joined = reshape(out, (*out.shape[:2], *(a.count * a.stride for a in axes)))
    inner: Any = (..., *(slice(0, n) for n in space))
    return joined[inner] if tuple(joined.shape[2:]) != tuple(space) else joined


def _side_by_side(y: Tensor, w: Tensor, axes: list[_Shares]) -> Tensor:
    """All elements from one contraction, each with its own share of the weight."""
    d = len(axes)
    mirrored = flip(_shared(w, 2, axes), tuple(range(2, 2 + 2 * d, 2)))
    before = [a.reach - 1 - a.ahead for a in axes]
    windows = window(y, [a.reach for a in axes], [a.count for a in axes], (1,) * d, (1,) * d,
                     before)
    inside = "".join(a + b for a, b in zip(_KERNEL[:d], _SHARE))
    apart = "".join(a + b for a, b in zip(_SPACE[:d], _SHARE))
    return contract(windows, mirrored, f"nf{_SPACE[:d]}{_KERNEL[:d]},fc{inside}->nc{apart}")


def _sum_of_products(y: Tensor, w: Tensor, axes: list[_Shares], shares: list[list[_Share]]
                     ) -> Tensor:
    """Every window times the whole weight, then the sums of these products at their elements."""
    d, every = len(axes), slice(None)
    u, k = _SPACE[:d], _KERNEL[:d]
    products = _shared(contract(y, w, f"nf{u},fc{k}->nc{k}{u}"), 2, axes)
    moved = []
    for combination in cartesian(*shares):
        index: Any = (every, every, *(i for share in combination for i in (share.number, every)),
                      *(share.windows for share in combination))
        around = [(0, 0)] * (2 + d) + [share.around for share in combination]
        moved.append(pad_with(products[index], around))
    total = functools.reduce(operator.add, moved)
    return permute_dims(total, (0, 1, *(n for a in range(d) for n in (2 + d + a, 2 + a))))


def _shared(w: Tensor, first: int, axes: list[_Shares]) -> Tensor:
    """`w` with `len(axes)` axes from `first` on filled up and split into shares of elements."""
    behind = w.shape[first + len(axes):]
    width = [(0, 0)] * first + [(a.fill, a.rest) for a in axes] + [(0, 0)] * len(behind)
    return reshape(pad_with(w, width), (
        *w.shape[:first], *(n for a in axes for n in (a.reach, a.stride)), *behind))


def _conv_weight(x: Tensor, y: Tensor, stride: Any, dilation: Any, pad: Pads, groups: int,
                 kernel: Any) -> Tensor:
    result = _weight_result(x, y, kernel, stride, dilation, pad, groups)  # type: ignore[arg-type]
    windows = window(_grouped(x, 1, groups), kernel, y.shape[2:], stride, dilation, _before(pad))
    return _contracted(_grouped(y, 1, groups), windows, "ngfo,ngcok->gfck", groups, result)


def _before(pad: Pads) -> tuple[Any, ...]:
    return tuple(before for before, _ in pad)


def _transposed_pads(kernel: Any, dilation: Any, pad: Pads) -> tuple[Any, ...]:
    """The padding before the elements that a transposed convolution reads."""
    return tuple(r * (k - 1) - p for r, k, p in zip(dilation, kernel, _before(pad)))


# ---- eager: windows written to memory for some examples at a time, and products of matrices
def _in_float32(product_of: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation of an op that sums 16-bit floats in float32."""

    def impl(xp: Any, a: Any, b: Any, **params: Any) -> Any:
        if a.itemsize == 2 and dtypes.kind(a.dtype) == "f":
            wide = product_of(a.astype(np.float32), b.astype(np.float32), **params)
            return wide.astype(a.dtype)
        return product_of(a, b, **params)

    return impl


def _blocks(count: int, each_size: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // max(1, each_size))
    return (slice(i, i + step) for i in range(0, count, step))


def _columns(x: Any, kernel: Any, out: Any, stride: Any, dilation: Any, pad: Pads, first: str
             ) -> Any:
    """The windows of `x` with the axes n, c, k, o; or with c, k, n, o if `first` is "c"."""
    d = len(kernel)
    windows = window_op.impl(cpu_kernels, x, kernel, out, stride, dilation, _before(pad),
                             (1,) * d, 0)
    inside, outside = range(2 + d, 2 + 2 * d), range(2, 2 + d)
    windows = windows.transpose(0, 1, *inside, *outside) if first == "n" else \
        windows.transpose(1, *inside, 0, *outside)
    if product(kernel) == 1:  # each window is one element, so none is repeated
        return windows
    copy = memory.empty(windows.shape, x.dtype)
    np.copyto(copy, windows)
    return copy


@_in_float32
def _conv_impl(x: Any, w: Any, stride: Any, dilation: Any, pad: Pads, groups: int) -> Any:
    n, filters, depth, kernel = x.shape[0], w.shape[0], product(w.shape[1:]), w.shape[2:]
    out = _sizes(x, kernel, stride, dilation, pad)
    size = product(out)
    rows = w.reshape(groups, filters // groups, depth)
    result = memory.empty((n, groups, filters // groups, size), x.dtype)
    for part in _blocks(n, groups * depth * size):
        columns = _columns(x[part], kernel, out, stride, dilation, pad, "n")
        np.matmul(rows, columns.reshape(len(columns), groups, depth, size), out=result[part])
    return result.reshape(n, filters, *out)


@_in_float32
def _transpose_impl(y: Any, w: Any, stride: Any, dilation: Any, pad: Pads, groups: int, space: Any
                    ) -> Any:
    """The products of elements of `y` with the weight, added at the positions of their windows."""
    n, filters, depth, kernel = y.shape[0], w.shape[0], product(w.shape[1:]), w.shape[2:]
    channels, out, size = w.shape[1] * groups, y.shape[2:], product(y.shape[2:])
    w = w.reshape(groups, filters // groups, *w.shape[1:]).swapaxes(1, 2)
    if set(stride) == {1} and filters <= channels:  # gathering moves no more memory than adding
        mirrored = np.flip(w, tuple(range(3, w.ndim))).reshape(
            channels, filters // groups, *kernel)
        gather_pads = tuple((p, 0) for p in _transposed_pads(kernel, dilation, pad))
        pad = _exact(space, kernel, out, stride, dilation, gather_pads)
        return _conv_impl(cpu_kernels, y, mirrored, stride=stride, dilation=dilation, pad=pad,
                          groups=groups)
    columns = np.moveaxis(w, 2, -1).reshape(groups, depth, filters // groups)
    y = y.reshape(n, groups, filters // groups, size)
    times = np.multiply if filters == groups else np.matmul
    result = memory.empty((n, channels, *space), y.dtype)
    result[...] = 0
    for part in _blocks(n, groups * depth * size):
        products = memory.empty((len(result[part]), groups, depth, size), y.dtype)
        times(columns, y[part], out=products)
        apart = products.reshape(len(products), channels, *kernel, *out)
        for k in cartesian(*map(range, kernel)):
            into, taken = _overlap(k, out, stride, dilation, pad, space)
            result[part][into] += apart[taken]
    return result


def _overlap(k: Any, out: Any, stride: Any, dilation: Any, pad: Pads, space: Any) -> Any:
    """The elements of images at `k` in their windows, and the same elements in (n, c, *k, *out)."""
    into: list[Any] = [...]
    taken: list[Any] = [slice(None), slice(None), *k]
    for a, offset in enumerate(r * i - p for r, i, p in zip(dilation, k, _before(pad))):
        first = max(0, -(offset // stride[a]))
        end = max(first, min(out[a], (space[a] - 1 - offset) // stride[a] + 1))
        start = offset + first * stride[a]
        into.append(slice(start, start + (end - first) * stride[a], stride[a]))
        taken.append(slice(first, end))
    return tuple(into), tuple(taken)


@_in_float32
def _weight_impl(x: Any, y: Any, stride: Any, dilation: Any, pad: Pads, groups: int, kernel: Any
                 ) -> Any:
    n, filters, out, size = x.shape[0], y.shape[1], y.shape[2:], product(y.shape[2:])
    depth = x.shape[1] // groups * product(kernel)
    result = np.zeros((groups, filters // groups, depth), x.dtype)
    for part in _blocks(n, groups * depth * size):
        columns = _columns(x[part], kernel, out, stride, dilation, pad, "c")
        rows = y[part].reshape(-1, filters, size).swapaxes(0, 1)
        result += np.matmul(rows.reshape(groups, filters // groups, -1),
                            columns.reshape(groups, depth, rows[0].size).swapaxes(1, 2))
    return result.reshape(filters, x.shape[1] // groups, *kernel)


# ---- cost
def _conv_work(x: TensorType, w: TensorType, **how: Any) -> float:
    out = _conv_result(x, w, **how)
    return _work(out, w)


def _transpose_work(y: TensorType, w: TensorType, **how: Any) -> float:
    return _work(y, w)


def _weight_work(x: TensorType, y: TensorType, **how: Any) -> float:
    return _work(y, _weight_result(x, y, **how))


def _work(out: TensorType, w: TensorType) -> float:
    """Nanoseconds to write the windows to memory, and of their products with the weight."""
    if dtypes.kind(out.dtype) != "f":
        return 0.0
    elements = product(w.shape[1:]) * product(out.shape[2:]) * out.shape[0]  # in all windows
    nanoseconds_per_byte = out.shape[1] / _MULTIPLIED_BYTES_PER_NS + 1 / _WRITTEN_BYTES_PER_NS
    return elements * out.dtype.itemsize * nanoseconds_per_byte


# ---- the ops
def _conv_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, w: Tensor, **how: Any) -> Any:
    return (call(transpose_op, g, conj_of(w), space=x.shape[2:], **how) if needs[0] else None,
            call(weight_op, conj_of(x), g, kernel=w.shape[2:], **how) if needs[1] else None)


def _transpose_vjp(needs: Any, g: Tensor, out: Tensor, y: Tensor, w: Tensor, space: Any, **how: Any
                   ) -> Any:
    how["pad"] = _exact(y.shape[2:], w.shape[2:], space, how["stride"], how["dilation"], how["pad"])
    return (call(conv_op, g, conj_of(w), **how) if needs[0] else None,
            call(weight_op, g, conj_of(y), kernel=w.shape[2:], **how) if needs[1] else None)


def _weight_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, y: Tensor, kernel: Any, **how: Any
                ) -> Any:
    return (call(transpose_op, conj_of(y), g, space=x.shape[2:], **how) if needs[0] else None,
            call(conv_op, conj_of(x), g, **how) if needs[1] else None)


def _exact(out: Any, kernel: Any, space: Any, stride: Any, dilation: Any, pad: Pads) -> Pads:
    """The padding that ends `space` at the last window, so that `out` windows fit."""
    axes = zip(out, kernel, space, stride, dilation, _before(pad))
    return tuple((p, (o - 1) * s + r * (k - 1) + 1 - n - p) for o, k, n, s, r, p in axes)


conv_op = composite("conv", _conv, _conv_result, _conv_impl, _conv_vjp, "Conv",
                    alike=True, work=_conv_work, passes=_MEMORY_PASSES)
transpose_op = composite("conv_transpose", _conv_transpose, _transpose_result, _transpose_impl,
                         _transpose_vjp, "ConvTranspose", alike=True, work=_transpose_work,
                         passes=_MEMORY_PASSES)
weight_op = composite("conv_weight", _conv_weight, _weight_result, _weight_impl, _weight_vjp,
                      alike=True, work=_weight_work, passes=_MEMORY_PASSES)


def conv(x: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Any, groups: int = 1) -> Tensor:
    """The cross-correlation of x (n, c, *space) with w (f, c / groups, *kernel): (n, f, *out).

    pad: elements added on both sides of each axis, or pairs (before, after).
    """
    x, w = as_tensor("conv", x), as_tensor("conv", w)
    how = _how(stride, dilation, pad, groups)
    _conv_result(TensorType(x.shape, x.dtype), TensorType(w.shape, w.dtype), **how)
    return call(conv_op, x, w, **how)


def conv_transpose(y: Tensor, w: Tensor, stride: Any, dilation: Any, pad: Any, more: Any,
                   groups: int = 1) -> Tensor:
    """The transposed convolution of y (n, c, *out) with w (c, f / groups, *kernel): (n, f, *space).

    It is the gradient of a convolution by its input.

    more: number of elements of space beyond the last window.
    """
    y, w = as_tensor("conv_transpose", y), as_tensor("conv_transpose", w)
    how = _how(stride, dilation, pad, groups)
    space = tuple((n - 1) * s + r * (k - 1) + 1 - sum(p) + m for n, s, r, k, p, m in zip(
        y.shape[2:], how["stride"], how["dilation"], w.shape[2:], how["pad"], more))
    _transpose_result(TensorType(y.shape, y.dtype), TensorType(w.shape, w.dtype), space, groups)
    return call(transpose_op, y, w, space=space, **how)


def conv_weight(x: Tensor, y: Tensor, kernel: Any, stride: Any, dilation: Any, pad: Any,
                groups: int = 1) -> Tensor:
    """The gradient of a convolution by its weight: (f, c / groups, *kernel).

    x is (n, c, *space), y is (n, f, *out).
    """
    how = _how(stride, dilation, pad, groups)
    _weight_result(TensorType(x.shape, x.dtype), TensorType(y.shape, y.dtype), kernel, **how)
    return call(weight_op, x, y, kernel=tuple(kernel), **how)


def _how(stride: Any, dilation: Any, pad: Any, groups: int) -> dict[str, Any]:
    pairs = tuple((p, p) if isinstance(p, int) else tuple(p) for p in pad)
    return {"stride": tuple(stride), "dilation": tuple(dilation), "pad": pairs, "groups": groups}
