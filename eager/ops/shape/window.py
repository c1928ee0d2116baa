"""Reads sliding windows over the last axes for convolutions and pools, and sums them in gradients.

`window` of x (..., s1, s2) is (..., o1, o2, k1, k2). Its element (o, k) of an axis is element
`(o * stride + k * dilation - pad) / spread` of x where that is a whole number inside the axis, else
`fill`. `spread` > 1 reads x as if `spread - 1` holes lay between its elements, as the gradient of a
strided convolution needs.

`unwindow` maps back, to (..., s1, s2, k1, k2): for each element of x and each position in a window
it holds the window's element that was read from there, or 0. Its sum over the last axes is the
gradient of `window`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.shapes import TensorType, axis_of
from ...core.dispatch import apply
from ...core.op import Op, Source, define, each
from ...core.tensor import Tensor, as_tensor
from ...core.views import define_access, view_of
from ...errors import ShapeError
from ..batching import leading
from .put_slice import put_slice
from .view import pad as pad_with
from .view import permute_dims, reshape


def _result(x: TensorType, kernel: Any, out: Any, **rest: Any) -> TensorType:
    lead = x.shape[:x.ndim - len(kernel)]
    return TensorType((*lead, *out, *kernel), x.dtype)


def _read(k: Any, index: Any, types: Any, at: Any, kernel: Any, out: Any, stride: Any,
          dilation: Any, pad: Any, spread: Any, fill: Any) -> list[Source]:
    d = len(kernel)
    lead, o, w = index[:-2 * d], index[-2 * d:-d], index[-d:]
    source, mask = [], None
    for a in range(d):
        position = o[a] * stride[a] + w[a] * dilation[a] - pad[a]
        size = types[0].shape[-d + a]
        inside = position_mask(position, size, spread[a], always=_never_outside(
            out[a], kernel[a], stride[a], dilation[a], pad[a], size, spread[a]))
        source.append(position // spread[a] if spread[a] != 1 else position)
        mask = inside if mask is None else (mask if inside is None else mask & inside)
    return [Source(0, (*lead, *source), mask)]


def _never_outside(out: Any, kernel: Any, stride: Any, dilation: Any, pad: Any, size: Any,
                   spread: Any) -> bool:
    last = (out - 1) * stride + (kernel - 1) * dilation - pad
    return bool(spread == 1 and pad == 0 and last < size)


def position_mask(position: Any, size: Any, spread: int, always: bool = False) -> Any:
    """True where `position` hits one of `size` elements with holes between; None: everywhere."""
    if always:
        return None
    inside = (position >= 0) & (position < (size - 1) * spread + 1)
    return inside if spread == 1 else inside & (position % spread == 0)


def _impl(xp: Any, x: Any, kernel: Any, out: Any, stride: Any, dilation: Any, pad: Any,
          spread: Any, fill: Any) -> Any:
    d = len(kernel)
    lead = x.shape[:-d]
    need = [(o - 1) * s + (k - 1) * r + 1 for o, s, k, r in zip(out, stride, kernel, dilation)]
    if any(spread[a] != 1 or pad[a] != 0 or need[a] > x.shape[-d + a] for a in range(d)):
        x = _spread_and_padded(xp, x, need, pad, spread, fill)
    steps = x.strides[-d:]
    strides = (*x.strides[:-d], *(s * t for s, t in zip(stride, steps)),
               *(r * t for r, t in zip(dilation, steps)))
    return xp.strided(x, (*lead, *out, *kernel), strides)


def _spread_and_padded(xp: Any, x: Any, need: Any, pad: Any, spread: Any, fill: Any) -> Any:
    d = len(need)
    result = xp.full((*x.shape[:-d], *need), fill, x.dtype)
    into: list[Any] = [...]
    taken: list[Any] = [...]
    for a in range(d):
        size, s = x.shape[-d + a], spread[a]
        first = max(0, -(pad[a] // s))  # the first element that lands inside
        last = min(size - 1, (need[a] - 1 - pad[a]) // s)
        begin = first * s + pad[a]
        end = begin + (last - first) * s + 1 if last >= first else begin
        into.append(slice(begin, end, s))
        taken.append(slice(first, last + 1))
    result[tuple(into)] = x[tuple(taken)]
    return result


def _unwindow_result(g: TensorType, size: Any, kernel: Any, **rest: Any) -> TensorType:
    lead = g.shape[:g.ndim - 2 * len(kernel)]
    return TensorType((*lead, *size, *kernel), g.dtype)


def _unwindow_read(k: Any, index: Any, types: Any, at: Any, kernel: Any, size: Any, stride: Any,
                   dilation: Any, pad: Any, spread: Any) -> list[Source]:
    d = len(kernel)
    lead, y, w = index[:-2 * d], index[-2 * d:-d], index[-d:]
    outs = types[0].shape[-2 * d:-d]
    source, mask = [], None
    for a in range(d):
        position = y[a] * spread[a] + pad[a] - w[a] * dilation[a]
        inside = position_mask(position, outs[a], stride[a])
        source.append(position // stride[a] if stride[a] != 1 else position)
        mask = inside if mask is None else mask & inside
    return [Source(0, (*lead, *source, *w), mask)]


def _unwindow_impl(xp: Any, g: Any, kernel: Any, size: Any, stride: Any, dilation: Any, pad: Any,
                   spread: Any) -> Any:
    d = len(kernel)
    lead = g.shape[:-2 * d]
    out = xp.zeros((*lead, *size, *kernel), g.dtype)
    for w in np.ndindex(*kernel):
        source, target = _overlap(g, w, size, stride, dilation, pad, spread)
        if source is not None:
            into, taken = (..., *target, *w), (..., *source, *w)
            out[into] = g[taken]
    return out


def _overlap(g: Any, w: Any, size: Any, stride: Any, dilation: Any, pad: Any, spread: Any) -> Any:
    """The windows whose position `w` falls on an element of x, and those elements, as indices."""
    d = len(w)
    source, target = [], []
    for a in range(d):
        y = np.arange(size[a])
        position = y * spread[a] + pad[a] - w[a] * dilation[a]
        ok = position_mask(position, g.shape[-2 * d + a], stride[a])
        if not ok.any():
            return None, None
        source.append(position[ok] // stride[a])
        target.append(y[ok])
    return np.ix_(*source), np.ix_(*target)


# The tensors are positional-only in these rules, since a param is also called `out`.
def _window_vjp(g: Tensor, out: Tensor, x: Tensor, /, kernel: Any, stride: Any, dilation: Any,
                pad: Any, spread: Any, **rest: Any) -> Tensor:
    d = len(kernel)
    return fold(g, x.shape[-d:], kernel, stride, dilation, pad, spread)


def _unwindow_vjp(g: Tensor, out: Tensor, x: Tensor, /, kernel: Any, stride: Any, dilation: Any,
                  pad: Any, spread: Any, **rest: Any) -> Tensor:
    d = len(kernel)
    return rewindow(g, x.shape[-2 * d:-d], kernel, stride, dilation, pad, spread)


def _rewindow_vjp(g: Tensor, out: Tensor, x: Tensor, /, kernel: Any, stride: Any, dilation: Any,
                  pad: Any, spread: Any, **rest: Any) -> Tensor:
    d = len(kernel)
    return unwindow(g, x.shape[-2 * d:-d], kernel, stride, dilation, pad, spread)


def _rewindow_read(k: Any, index: Any, types: Any, at: Any, kernel: Any, out: Any, stride: Any,
                   dilation: Any, pad: Any, spread: Any) -> list[Source]:
    source = _read(k, index, [TensorType(types[0].shape[:-len(kernel)], types[0].dtype)], at,
                   kernel, out, stride, dilation, pad, spread, 0)[0]
    return [Source(0, (*source.index, *index[-len(kernel):]), source.mask)]


def _rewindow_result(x: TensorType, kernel: Any, out: Any, **rest: Any) -> TensorType:
    return TensorType((*x.shape[:x.ndim - 2 * len(kernel)], *out, *kernel), x.dtype)


def _rewindow_impl(xp: Any, x: Any, kernel: Any, out: Any, stride: Any, dilation: Any, pad: Any,
                   spread: Any) -> Any:
    d = len(kernel)
    result = xp.zeros((*x.shape[:-2 * d], *out, *kernel), x.dtype)
    size = x.shape[-2 * d:-d]
    for w in np.ndindex(*kernel):
        source, target = _overlap(result, w, size, stride, dilation, pad, spread)
        if source is not None:
            into, taken = (..., *source, *w), (..., *target, *w)
            result[into] = x[taken]
    return result


_WHY = {"onnx": "ONNX has no operator for it alone; Conv and the pools are exported whole"}
window_op = define(Op("window", "view", _result, _impl, _read, each(_window_vjp), why=_WHY,
                      batch=leading))
unwindow_op = define(Op("unwindow", "view", _unwindow_result, _unwindow_impl, _unwindow_read,
                        each(_unwindow_vjp), why=_WHY, batch=leading))
rewindow_op = define(Op("rewindow", "view", _rewindow_result, _rewindow_impl, _rewindow_read,
                        each(_rewindow_vjp), why=_WHY, batch=leading))


def window_count(size: Any, kernel: int, stride: int, dilation: int, pad: int, name: str) -> Any:
    """The number of windows along an axis of `size` with `pad` elements added on both sides."""
    count = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        raise ShapeError(f"{name}: a window of {dilation * (kernel - 1) + 1} does not fit into an "
                         f"axis of size {size} padded by {pad} on both sides",
                         "use a smaller kernel or more padding")
    return count


def window(x: Tensor, kernel: Any, out: Any, stride: Any, dilation: Any, pad: Any,
           spread: Any = None, fill: Any = 0.0) -> Tensor:
    """The windows of the last axes of `x`: (..., *size) -> (..., *out, *kernel)."""
    params = {"kernel": tuple(kernel), "out": tuple(out), "stride": tuple(stride),
              "dilation": tuple(dilation), "pad": tuple(pad),
              "spread": tuple(spread or (1,) * len(kernel)), "fill": fill}
    return apply(window_op, (x,), params)


def unwindow(g: Tensor, size: Any, kernel: Any, stride: Any, dilation: Any, pad: Any,
             spread: Any) -> Tensor:
    """Elements of windows by their source: (..., *out, *kernel) -> (..., *size, *kernel)."""
    return apply(unwindow_op, (g,), {
        "kernel": kernel, "size": tuple(size), "stride": stride, "dilation": dilation, "pad": pad,
        "spread": spread})


def rewindow(x: Tensor, out: Any, kernel: Any, stride: Any, dilation: Any, pad: Any,
             spread: Any) -> Tensor:
    """The gradient of `unwindow`: (..., *size, *kernel) -> (..., *out, *kernel)."""
    return apply(rewindow_op, (x,), {
        "kernel": kernel, "out": tuple(out), "stride": stride, "dilation": dilation, "pad": pad,
        "spread": spread})


def fold(g: Tensor, size: Any, kernel: Any, stride: Any, dilation: Any, pad: Any,
         spread: Any) -> Tensor:
    """The sums over all windows that contain an element: (..., *out, *kernel) -> (..., *size)."""
    d = len(kernel)
    apart = all(k == s and r == 1 and p == 0 and q == 1
                for k, s, r, p, q in zip(kernel, stride, dilation, pad, spread))
    if apart:
        return _side_by_side(g, size, d)
    spread_windows = unwindow(g, size, kernel, stride, dilation, pad, spread)
    return spread_windows.sum(axis=tuple(range(-d, 0)))  # type: ignore[attr-defined,no-any-return]


def _side_by_side(g: Tensor, size: Any, d: int) -> Tensor:
    """`fold` of windows without overlaps or holes: it only moves axes, since nothing is added."""
    lead = g.ndim - 2 * d
    axes = [*range(lead), *(a for i in range(d) for a in (lead + i, lead + d + i))]
    covered = tuple(g.shape[lead + i] * g.shape[lead + d + i] for i in range(d))
    joined = reshape(permute_dims(g, axes), (*g.shape[:lead], *covered))
    if any(c > n for n, c in zip(size, covered)):  # the last windows extend beyond the end
        inside: Any = (..., *(slice(0, n) for n in size))
        joined = joined[inside]
    width = [(0, 0)] * lead + [(0, max(n - c, 0)) for n, c in zip(size, covered)]
    return pad_with(joined, width) if any(after for _, after in width) else joined


def unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements of `x`, every `step` elements along `axis`, as a new last axis.

    Raises:
        ShapeError: `size` or `step` is below 1, or no window fits.

    Example:
        >>> import fusewire as fw
        >>> fw.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """
    x = as_tensor("unfold", x)
    at = axis_of("unfold", axis, x.ndim)
    if size < 1 or step < 1:
        raise ShapeError(f"unfold: size {size} and step {step} must be at least 1")
    out = _unfolded(x, (at, size, step))
    return view_of(x, out, UNFOLDED if step >= size or out.shape[at] == 1 else OVERLAPPING,
                   (at, size, step))


def _unfolded(x: Tensor, params: tuple[int, int, int]) -> Tensor:
    at, size, step = params
    count = window_count(x.shape[at], size, step, 1, 0, "unfold")
    others = tuple(i for i in range(x.ndim) if i != at)
    windows = window(permute_dims(x, (*others, at)), (size,), (count,), (step,), (1,), (0,))
    out = permute_dims(windows, (*range(at), x.ndim - 1, *range(at, x.ndim - 1), x.ndim))
    out._view = None
    return out


def _write_windows(x: Tensor, value: Tensor, params: tuple[int, int, int]) -> Tensor:
    at, size, step = params
    for i in range(size):
        start = tuple(i if axis == at else 0 for axis in range(x.ndim))
        steps = tuple(step if axis == at else 1 for axis in range(x.ndim))
        x = put_slice(x, value[..., i], start, steps)
    return x


UNFOLDED = define_access("unfold", _unfolded, _write_windows)
OVERLAPPING = define_access("overlapping unfold", _unfolded, None)
