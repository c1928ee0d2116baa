"""Rows of pooling, from its definition: windows taken one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, f4, f8, i8, row, u1
from rows.whole import collected, each_window

import fusewire as fw
from fusewire.eager.ops.elementwise.composite import call
from fusewire.eager.ops.layers import pool

# x, (kernel, stride, dilation, pad, ceil)
POOLS: list[tuple[Any, Any]] = [
    ((2, 3, 6, 5), ((2, 2), (2, 2), (1, 1), (0, 0), False)),
    ((1, 2, 7, 7), ((3, 3), (2, 1), (1, 2), (1, 1), False)),
    ((1, 2, 6, 7), ((3, 2), (2, 2), (1, 1), (1, 0), True)),
    ((2, 2, 8), ((3,), (1,), (1,), (0,), False)),
    ((1, 2, 3, 4, 3), ((2, 2, 3), (2, 1, 2), (1, 1, 1), (1, 0, 1), True))]


def windows_of(x: Array, kernel: Any, stride: Any, dilation: Any, pad: Any, ceil: bool) -> Any:
    """Windows, with lowest values beyond the ends."""
    axes = list(zip(x.shape[2:], kernel, stride, dilation, pad, strict=True))
    out = [pool.pool_count("test", *axis, ceil) for axis in axes]
    wide = [(p, max(0, (o - 1) * s + (k - 1) * r + 1 - n - p))
            for o, (n, k, s, r, p) in zip(out, axes, strict=True)]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.pad(x, [(0, 0), (0, 0), *wide], constant_values=lowest)
    found = list(each_window(padded, kernel, stride, dilation))
    return [(at, part) for at, part in found if all(a < o for a, o in zip(at, out, strict=True))]


def largest(x: Array, *how: Any) -> Array:
    return collected([(at, part.max(axis=tuple(range(2, x.ndim))))
                      for at, part in windows_of(x, *how)])


def places(x: Array, *how: Any) -> Array:
    """Where the first largest of each window, or the last nan, stands in its plane."""
    numbers = np.broadcast_to(np.arange(np.prod(x.shape[2:])).reshape(x.shape[2:]), x.shape)
    values, where = windows_of(x, *how), windows_of(numbers, *how)
    found = []
    for (at, part), (_, number) in zip(values, where, strict=True):
        part, number = (a.reshape(*x.shape[:2], -1) for a in (part, number))
        best = np.where(number >= 0, part, -np.inf).argmax(-1)
        best = np.where((best == 0) & (number[..., 0] < 0), (number >= 0).argmax(-1), best)
        nan = np.isnan(part)
        last = part.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
        best = np.where(nan.any(-1), last, best)
        found.append((at, np.take_along_axis(number, best[..., None], -1)[..., 0]))
    return collected(found).astype(np.int64)


def with_nan(shape: Any) -> Any:
    def make(rng: Any) -> Any:
        x = rng.standard_normal(shape).astype(np.float32)
        x[rng.random(shape) < 0.2] = np.nan
        return (np.where(rng.random(shape) < 0.3, -np.inf, x).astype(np.float32),)

    return make


for shape, how in POOLS:
    row("max_pool", lambda x, h=how: pool.max_pool(x, *h),
        [arrays(shape), arrays(shape, dtypes=f8), arrays(shape, dtypes=u1), with_nan(shape)],
        lambda x, h=how: largest(x, *h), label=f"{shape}", smooth=False, errors=(
            Bad(lambda: pool.max_pool(fw.zeros(1, 2, 4), (5,), (1,), (1,), (0,)),
                "pool: a window of 5 does not fit into an axis of size 4"),
            Bad(lambda: pool.max_pool(fw.zeros(1, 2, 4), (9,), (1,), (1,), (0,), True),
                "pool: no window of 9 begins in an axis of size 4"),
            Bad(lambda: pool.max_pool(fw.zeros(2, 4), (2,), (1,), (1,), (0,)),
                "max_pool: input (2, 4) does not fit a window (2,)")))
    row("pool_argmax", lambda x, h=how: pool.max_pool_indices(x, *h)[1],
        [arrays(shape), arrays(shape, dtypes=i8), with_nan(shape),
         lambda rng, s=shape: (np.full(s, -np.inf, f4),)],
        lambda x, h=how: places(x, *h), label=f"{shape}", grad=False)


# ---- elements by their places in windows, and sums
def described(shape: Any, kernel: Any, stride: Any, dilation: Any, pad: Any, ceil: bool) -> Any:
    axes = zip(shape[2:], kernel, stride, dilation, pad, strict=True)
    out = tuple(pool.pool_count("test", *axis, ceil) for axis in axes)
    return {"kernel": kernel, "out": out, "stride": stride, "dilation": dilation, "pad": pad}


def out_of(shape: Any, how: Any) -> Any:
    """The shape of the result."""
    return (*shape[:2], *described(shape, *how)["out"])


def put_to_maxima(g: Array, x: Array, *how: Any) -> Array:
    made = np.zeros((*x.shape[:2], int(np.prod(x.shape[2:]))), g.dtype)
    at = places(x, *how).reshape(*x.shape[:2], -1)
    for sample, channel in np.ndindex(*x.shape[:2]):
        np.add.at(made[sample, channel], at[sample, channel], g[sample, channel].reshape(-1))
    return made.reshape(x.shape)


for shape, how in POOLS:
    row("max_pool_back",
        lambda g, x, h=how: call(pool.max_backward_op, g, x, **described(x.shape, *h)),
        [arrays(out_of(shape, how), shape), arrays(out_of(shape, how), shape, dtypes=f8),
         lambda rng, s=shape, h=how: (arrays(out_of(s, h))(rng)[0], with_nan(s)(rng)[0])],
        lambda g, x, h=how: put_to_maxima(g, x, *h), label=f"{shape}", smooth=False)


def hit(at: Array, how: Any, size: Any) -> Any:
    """For each window the index of the element at its place, where that is not padding."""
    for index in np.ndindex(*at.shape):
        inside = np.unravel_index(at[index], how["kernel"])
        place = tuple(o * s + k * r - p for o, k, s, r, p in zip(
            index[2:], inside, how["stride"], how["dilation"], how["pad"], strict=True))
        if all(0 <= i < n for i, n in zip(place, size, strict=True)):
            yield index, (*index[:2], *place)


def picked(x: Array, at: Array, how: Any) -> Array:
    found = np.zeros(at.shape, x.dtype)
    for window, element in hit(at, how, x.shape[2:]):
        found[window] = x[element]
    return found


def put(g: Array, at: Array, how: Any, size: Any) -> Array:
    made = np.zeros((*g.shape[:2], *size), g.dtype)
    for window, element in hit(at, how, size):
        made[element] += g[window]
    return made


def valid_places(shape: Any, how: Any) -> Any:
    """The places of the largest of random numbers."""
    params = described(shape, *how)

    def make(rng: Any) -> Any:
        x = fw.from_numpy(rng.standard_normal(shape))
        return rng.standard_normal(shape), call(pool.at_op, x, **params).numpy()

    return make


for shape, how in POOLS:
    params = described(shape, *how)
    lead = (*shape[:2], *params["out"])
    count = int(np.prod(params["kernel"]))
    row("pool_pick", lambda x, at, p=params: call(pool.pick_op, x, at, **p),
        [valid_places(shape, how)], lambda x, at, p=params: picked(x, at, p), label=f"{shape}")
    row("pool_put", lambda g, at, p=params, n=shape[2:]: call(pool.unpool_op, g, at, size=n, **p),
        [lambda rng, s=lead, c=count: (rng.standard_normal(s), rng.integers(0, c, s)),
         lambda rng, s=lead, c=count: (rng.standard_normal(s).astype(f4), rng.integers(0, c, s))],
        lambda g, at, p=params, n=shape[2:]: put(g, at, p, n), label=f"{shape}")


def summed(x: Array, kernel: Any, out: Any, stride: Any, pad: Any, spread: Any) -> Array:
    found = np.zeros((*x.shape[:2], *out))
    for index in np.ndindex(*out):
        for inside in np.ndindex(*kernel):
            place = [o * s + k - p for o, k, s, p in zip(index, inside, stride, pad, strict=True)]
            if all(i % q == 0 and 0 <= i // q < n
                   for i, q, n in zip(place, spread, x.shape[2:], strict=True)):
                at = tuple(i // q for i, q in zip(place, spread, strict=True))
                found[(..., *index)] += x[(..., *at)]
    return found


SUMS: list[tuple[Any, Any]] = [  # x, (kernel, out, stride, pad, spread); gradients have a spread
    ((2, 3, 6, 5), ((2, 3), (3, 2), (2, 2), (0, 1), (1, 1))),
    ((1, 2, 5, 4), ((5, 4), (1, 1), (1, 1), (0, 0), (1, 1))),
    ((1, 1, 6, 3), ((3, 1), (6, 3), (1, 1), (1, 0), (1, 1))),
    ((2, 1, 7), ((3,), (4,), (2,), (1,), (1,)))]
for shape, how in SUMS:
    params = dict(zip(("kernel", "out", "stride", "pad", "spread"), how, strict=True))
    row("pool_sum", lambda x, p=params: call(pool.sum_op, x, **p),
        [arrays(shape), arrays(shape, dtypes=f8)], lambda x, h=how: summed(x, *h),
        label=f"{shape} {how[0]}")
