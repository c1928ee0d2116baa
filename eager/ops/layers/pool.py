"""Pools windows over the last axes of (n, channels, *space), each to one element.

`at` of a window is the index of one of its elements in row-major order. `pick` reads these
elements, `unpool` writes values back to them; each is the gradient of the other. The gradient of a
sum of windows is such a sum again, with holes instead of the stride: see `shape/window.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import cpu_kernels, dtypes
from ...arrays.shapes import TensorType, product
from ...core.op import each
from ...core.tensor import Tensor, tensor
from ...errors import ShapeError
from ..batching import folded, shifted
from ..create import iota, zeros_like
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import equal, isnan, maximum, minimum, where
from ..reduction import reduce
from ..shape.take import take
from ..shape.view import expand_to, flatten_index, reshape, unflatten_index
from ..shape.window import fold, window, window_count, window_op

Sizes = Any  # a number for each axis of space


def pool_count(name: str, size: Any, kernel: int, stride: int, dilation: int, pad: int, ceil: bool
               ) -> Any:
    """The number of windows along an axis; `ceil` counts one that extends beyond the end, too."""
    if not ceil:
        return window_count(size, kernel, stride, dilation, pad, name)
    reach = dilation * (kernel - 1) + 1
    count = (size + 2 * pad - reach + stride - 1) // stride + 1
    count = count - 1 if (count - 1) * stride >= size + pad else count  # drops one outside
    if count < 1:
        raise ShapeError(f"{name}: no window of {reach} begins in an axis of size {size} padded by "
                         f"{pad}", "use a smaller kernel or more padding")
    return count


def _result(x: TensorType, kernel: Sizes, out: Sizes, **rest: Any) -> TensorType:
    return TensorType((*x.shape[:x.ndim - len(kernel)], *out), x.dtype)


def _parts(x: Any, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes, pad: Sizes,
           fill: Any, spread: Any = None) -> Any:
    """For each position in a window, an array of the elements that all windows have there."""
    windows = window_op.impl(cpu_kernels, x, kernel, out, stride, dilation, pad,
                             spread or (1,) * len(kernel), fill)
    offsets = [(..., *offset) for offset in np.ndindex(*kernel)]
    return (windows[offset] for offset in offsets)


def _inner(kernel: Sizes) -> tuple[int, ...]:
    """The axes inside of windows."""
    return tuple(range(-len(kernel), 0))


def _numbers(windows: Tensor, kernel: Sizes) -> Tensor:
    """For each element of windows (..., *kernel), its index in the window, in row-major order."""
    indices = [iota(windows.shape, a, device=windows.device) for a in _inner(kernel)]
    return flatten_index(indices, kernel)  # type: ignore[no-any-return]


def _apart(x: Tensor, kernel: Sizes) -> Tensor:
    """`x`, one value for each window, repeated to all elements of the windows."""
    return expand_to(reshape(x, (*x.shape, *(1,) * len(kernel))), (*x.shape, *kernel))


# ---- the largest element, and its index
def _max(x: Tensor, **how: Any) -> Tensor:
    return reduce.max(window(x, **how, fill=reduce.lowest(x.dtype)), _inner(how["kernel"]))


def _max_impl(xp: Any, x: Any, **how: Any) -> Any:
    parts = _parts(x, **how, fill=reduce.lowest(x.dtype))
    best = next(parts).copy()
    for part in parts:
        np.maximum(best, part, out=best)
    return best


def largest(values: Tensor, numbers: Tensor, count: Any, axes: tuple[int, ...]) -> Tensor:
    """The element of `numbers` along `axes` at the first largest value, or at the last nan."""
    top = expand_to(reduce.max(values, axes, keepdims=True), values.shape)
    candidates = where(equal(values, top), numbers, count)
    if dtypes.kind(values.dtype) != "f":
        return reduce.min(candidates, axes)
    first = reduce.min(where(isnan(values), -1 - numbers, candidates), axes)  # nan counts backwards
    return where(first < 0, -1 - first, first)


def _at_result(x: TensorType, **how: Any) -> TensorType:
    return TensorType(_result(x, **how).shape, dtypes.int64)


def _at(x: Tensor, **how: Any) -> Tensor:
    kernel, windows = how["kernel"], window(x, **how, fill=reduce.lowest(x.dtype))
    index = largest(windows, _numbers(windows, kernel), product(kernel), _inner(kernel))
    return maximum(index, _begin(index, **how)) if any(how["pad"]) else index


def _begin(index: Tensor, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes, pad: Sizes
           ) -> Tensor:
    """The first index of each window outside the padding, for windows in which all else is -inf."""
    outside = [pad[a] - iota(index.shape, a - len(kernel)) * stride[a] for a in range(len(kernel))]
    steps = [(n + (r - 1)) // r for n, r in zip(outside, dilation, strict=True)]
    return flatten_index([maximum(n, 0) for n in steps], kernel)  # type: ignore[no-any-return]


def _at_impl(xp: Any, x: Any, **how: Any) -> Any:
    parts = _parts(x, **how, fill=reduce.lowest(x.dtype))
    best = next(parts).copy()
    at = np.zeros(best.shape, np.int64)
    for number, part in enumerate(parts, 1):
        better = np.greater(part, best) | (part != part)
        np.copyto(best, part, where=better)
        np.copyto(at, number, where=better)
    if any(how["pad"]):
        at = np.maximum(at, _begin(Tensor(at), **how)._data)
    return at


# ---- elements by their index
def _pick_result(x: TensorType, at: TensorType, **how: Any) -> TensorType:
    return TensorType(at.shape, x.dtype)


def _pick(x: Tensor, at: Tensor, **how: Any) -> Tensor:
    kernel, windows = how["kernel"], window(x, **how)
    hit = equal(_numbers(windows, kernel), _apart(at, kernel))
    return reduce.sum(where(hit, windows, 0), _inner(kernel))


def _pick_impl(xp: Any, x: Any, at: Any, **how: Any) -> Any:
    result = np.zeros(at.shape, x.dtype)
    for number, part in enumerate(_parts(x, **how, fill=0)):
        np.copyto(result, part, where=at == number)
    return result


def _unpool_result(g: TensorType, at: TensorType, size: Sizes, **how: Any) -> TensorType:
    return TensorType((*g.shape[:g.ndim - len(size)], *size), g.dtype)


def _unpool(g: Tensor, at: Tensor, size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes,
            dilation: Sizes, pad: Sizes) -> Tensor:
    spread = _apart(g, kernel)
    chosen = where(equal(_numbers(spread, kernel), _apart(at, kernel)), spread, 0)
    return fold(chosen, size, kernel, stride, dilation, pad, (1,) * len(kernel))


def _unpool_impl(xp: Any, g: Any, at: Any, size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes,
                 dilation: Sizes, pad: Sizes) -> Any:
    each_axis = list(zip(size, kernel, out, stride, dilation, pad, strict=True))
    lead = g.shape[:g.ndim - len(size)]
    wide = [max(n + p, (o - 1) * s + (k - 1) * r + 1) for n, k, o, s, r, p in each_axis]
    result = np.zeros((*lead, *wide), g.dtype)
    for number, offset in enumerate(np.ndindex(*kernel)):
        taken: Any = (..., *(slice(w * r, w * r + (o - 1) * s + 1, s)
                             for w, (_, _, o, s, r, _) in zip(offset, each_axis, strict=True)))
        result[taken] += np.where(at == number, g, g.dtype.type(0))
    inside: Any = (..., *(slice(p, p + n) for n, _, _, _, _, p in each_axis))
    return result[inside]


def _max_vjp(g: Tensor, out: Tensor, x: Tensor, /, **how: Any) -> Tensor:
    return call(max_backward_op, g, x, **how)


def _max_backward(g: Tensor, x: Tensor, **how: Any) -> Tensor:
    """The gradient, which goes to the first largest element of each window."""
    return _to_input(g, call(at_op, x, **how), x, how)


def _max_backward_impl(xp: Any, g: Any, x: Any, **how: Any) -> Any:
    at = _at_impl(xp, x, **how)
    return _unpool_impl(xp, g, at, size=x.shape[x.ndim - len(how["kernel"]):], **how)


def _to_input(g: Tensor, at: Tensor, x: Tensor, how: Any) -> Tensor:
    return call(unpool_op, g, at, size=x.shape[x.ndim - len(how["kernel"]):], **how)


def _planes(*types: TensorType, kernel: Sizes, **rest: Any) -> tuple[int, ...]:
    """The axes of rows: each channel of each sample is a row."""
    return tuple(t.ndim - len(kernel) for t in types)


max_pool_op = composite("max_pool", _max, _result, _max_impl, each(_max_vjp), onnx="MaxPool",
                        batch=folded, rows=_planes, alike=True)
_WHY = "only gradients and return_indices need indices in windows"
at_op = composite("pool_argmax", _at, _at_result, _at_impl, each(None), batch=folded,
                  rows=_planes, unwritten=_WHY, alike=True)
pick_op = composite(
    "pool_pick", _pick, _pick_result, _pick_impl, batch=folded, rows=_planes, unwritten=_WHY,
    alike=True, vjp=each(lambda g, out, x, at, /, **how: _to_input(g, at, x, how), None))
unpool_op = composite(
    "pool_put", _unpool, _unpool_result, _unpool_impl, batch=folded, rows=_planes, unwritten=_WHY,
    vjp=each(lambda g, out, x, at, /, size, **how: call(pick_op, g, at, **how), None))
max_backward_op = composite(
    "max_pool_back", _max_backward, lambda g, x, **how: x, _max_backward_impl, batch=folded,
    rows=_planes, unwritten=_WHY,
    vjp=each(lambda gg, out, g, x, /, **how: call(pick_op, gg, call(at_op, x, **how), **how),
             lambda gg, out, g, x, /, **how: zeros_like(x)))


# ---- sums
def _sum(x: Tensor, kernel: Sizes, out: Sizes, stride: Sizes, pad: Sizes, spread: Sizes) -> Tensor:
    windows = window(x, kernel, out, stride, (1,) * len(kernel), pad, spread)
    return reduce.sum(windows, _inner(kernel))


def _sum_impl(xp: Any, x: Any, kernel: Sizes, out: Sizes, stride: Sizes, pad: Sizes, spread: Sizes
              ) -> Any:
    ones = (1,) * len(kernel)
    if product(kernel) > product(out):  # few windows of many elements
        windows = window_op.impl(cpu_kernels, x, kernel, out, stride, ones, pad, spread, 0)
        return windows.sum(_inner(kernel))
    parts = _parts(x, kernel, out, stride, ones, pad, 0, spread)
    total = next(parts).copy()
    for part in parts:
        np.add(total, part, out=total)
    return total


def _sum_vjp(g: Tensor, out: Tensor, x: Tensor, /, **how: Any) -> Tensor:
    kernel = how["kernel"]
    pads = tuple(k - 1 - p for k, p in zip(kernel, how["pad"], strict=True))
    return call(sum_op, g, kernel=kernel, out=x.shape[x.ndim - len(kernel):],
                stride=how["spread"], pad=pads, spread=how["stride"])


sum_op = composite("pool_sum", _sum, _result, _sum_impl, each(_sum_vjp), batch=folded,
                   rows=_planes)


# ---- sums of stretches: windows whose ends follow from both sizes
def stretches(n: int, size: int) -> Any:
    """The indices of `size` stretches in an axis of `n`: (size, longest), the last one repeated.

    Stretch i covers the i-th of `size` equal parts: floor(i n / size) to ceil((i + 1) n / size).
    """
    begin, end = _ends(n, size)
    return np.minimum(begin[:, None] + np.arange((end - begin).max()), end[:, None] - 1)


def stretch_indices(n: int, size: int, device: str) -> Tensor:
    """`stretches` as a tensor that ops compute, so that traces know its origin."""
    begin, end = _ends(n, size)
    at = iota((size, 1), 0, device=device)
    last = (at * n + n + size - 1) // size - 1
    longest = iota((1, int((end - begin).max())), 1, device=device)
    return minimum(at * n // size + longest, last)


def _ends(n: int, size: int) -> tuple[Any, Any]:
    at = np.arange(size, dtype=np.int64)
    return at * n // size, -(-(at + 1) * n // size)


def stretch_lengths(n: int, size: int, after: tuple[int, ...], dtype: Any, device: str) -> Tensor:
    """The number of elements of each stretch: (size, *after)."""
    begin, end = _ends(n, size)
    return tensor((end - begin).reshape(-1, *after).astype(dtype), device=device)


def _stretch_sums(x: Tensor, axis: int, size: int) -> Tensor:
    begin, end = _ends(x.shape[axis], size)
    indices = stretches(x.shape[axis], size)
    inside = begin[:, None] + np.arange(indices.shape[1]) < end[:, None]
    parts = take(x, tensor(indices, device=x.device), axis)
    mask = inside.reshape(*inside.shape, *(1,) * (x.ndim - axis - 1))
    return reduce.sum(where(tensor(mask, device=x.device), parts, 0), axis + 1)


def _stretch_vjp(g: Tensor, out: Tensor, x: Tensor, /, axis: int, size: int) -> Tensor:
    """The sums over the stretches that touch each element, which are stretches themselves."""
    return call(stretch_op, g, axis=axis, size=x.shape[axis])


stretch_op = composite(
    "stretch_sums", _stretch_sums, vjp=each(_stretch_vjp), batch=shifted("axis"),
    result=lambda x, axis, size: TensorType(
        (*x.shape[:axis], size, *x.shape[axis + 1:]), x.dtype))


def stretch_sums(x: Tensor, axis: int, size: int) -> Tensor:
    """The sums of `size` stretches of `x` along `axis`."""
    return call(stretch_op, x, axis=axis, size=size)


# ---- functions for layers
def max_pool(x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, pad: Sizes,
             ceil: bool = False) -> Tensor:
    """The largest element of each window of x (n, c, *space): (n, c, *out)."""
    return call(max_pool_op, x, **_described(x, kernel, stride, dilation, pad, ceil))


def max_pool_indices(x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, pad: Sizes,
                     ceil: bool = False) -> tuple[Tensor, Tensor]:
    """The largest elements, and the index of each in its (*space), in row-major order."""
    how = _described(x, kernel, stride, dilation, pad, ceil)
    at, d = call(at_op, x.detach(), **how), len(kernel)
    inside = unflatten_index(at, kernel)
    coordinates = [
        iota(at.shape, a - d, device=at.device) * stride[a] + inside[a] * dilation[a] - pad[a]
        for a in range(d)]
    return call(pick_op, x, at, **how), flatten_index(coordinates, x.shape[2:])


def _described(x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, pad: Sizes, ceil: bool
               ) -> dict[str, Any]:
    if x.ndim != 2 + len(kernel):
        raise ShapeError(f"max_pool: input {x.shape} does not fit a window {tuple(kernel)}",
                         f"it is (n, channels, *space) with {2 + len(kernel)} axes")
    axes = zip(x.shape[2:], kernel, stride, dilation, pad, strict=True)
    out = tuple(pool_count("max_pool", *axis, ceil) for axis in axes)
    return {"kernel": tuple(kernel), "out": out, "stride": tuple(stride),
            "dilation": tuple(dilation), "pad": tuple(pad)}


def window_sums(x: Tensor, kernel: Sizes, out: Sizes, stride: Sizes, pad: Sizes) -> Tensor:
    """The sum of each window of the last axes of x (n, c, *space): (n, c, *out)."""
    return call(sum_op, x, kernel=tuple(kernel), out=tuple(out), stride=tuple(stride),
                pad=tuple(pad), spread=(1,) * len(kernel))
