"""Pooling: windows of (n, channels, *space), or without n, to one element each.

The public functions differ in the number of axes of space, the first argument of what they call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...arguments import check_at_least, per_axis
from ...arrays import dtypes
from ...arrays.shapes import product
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.create import arange, full, iota
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import cast, floor, where
from ...ops.indexing.scatter import along, gather, scatter
from ...ops.layers import pool
from ...ops.random import generator
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import floating, mean, widened
from ...ops.shape.view import expand_to, flatten, reshape, take
from .inputs import as_given, with_samples

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d",
    "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]

Sizes = tuple[Any, ...]  # a number for each axis of space
Function = Callable[..., Any]


def _named(d: int, *functions: Function) -> Any:
    """`functions` for `d` axes of space, under PyTorch's names: max_pool becomes max_pool2d."""
    for fn in functions:
        fn.__name__ = fn.__qualname__ = fn.__name__.replace("pool", f"pool{d}d")
    return functions if len(functions) > 1 else functions[0]


def _window(name: str, d: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
            ) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Kernel, stride, dilation and padding with a number for each axis."""
    kernel = per_axis(name, "kernel_size", kernel_size, d)
    step = kernel if stride is None or stride == [] else per_axis(name, "stride", stride, d)
    apart = per_axis(name, "dilation", dilation, d)
    around = per_axis(name, "padding", padding, d)
    for what, numbers, least in (("kernel_size", kernel, 1), ("stride", step, 1),
                                 ("dilation", apart, 1), ("padding", around, 0)):
        check_at_least(name, what, min(numbers), least)
    if any(2 * p > r * (k - 1) + 1 for p, k, r in zip(around, kernel, apart, strict=True)):
        raise ArgumentError(f"{name}: padding {around} is more than half the kernel {kernel}",
                            "windows would lie in the padding alone")
    return kernel, step, apart, around


def _real(name: str, input: Any) -> Tensor:
    x = as_tensor(name, input)
    if dtypes.kind(x.dtype) not in "fiu":
        raise DTypeError(f"{name}: takes real numbers, not {x.dtype.name}",
                         "cast first: x.astype(fw.float32)")
    return x


# ---- the largest element of each window
def _largest(name: str, d: int, input: Any, window: tuple[Any, ...], ceil: bool, places: bool
             ) -> Any:
    given = _real(name, input)
    x = with_samples(name, given, d)
    kernel, stride, dilation, pad = _window(name, d, *window)
    how = kernel, stride, dilation, pad, bool(ceil)
    if not places:
        return as_given(pool.max_pool(x, *how), given)
    return tuple(as_given(out, given) for out in pool.max_pool_indices(x, *how))


def _max_pools(d: int) -> Any:
    def max_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:
        """The largest element of each window: (n, c, *space) or (c, *space) to (..., *out).

        With `return_indices` also where each stands in its (*space), counted in row-major order.

        >>> import fusewire as fw
        >>> fw.nn.functional.max_pool1d(fw.tensor([[1.0, 5.0, 2.0, 0.0]]), 2)
        tensor([[5., 2.]])
        """
        return _largest(f"max_pool{d}d", d, input, (kernel_size, stride, padding, dilation),
                        ceil_mode, return_indices)

    def max_pool_with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:
        """max_pool with return_indices=True, whatever is passed: values and indices (..., *out)."""
        return _largest(f"max_pool{d}d", d, input, (kernel_size, stride, padding, dilation),
                        ceil_mode, True)

    return _named(d, max_pool, max_pool_with_indices)


def _unpools(d: int) -> Any:
    def max_unpool(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        """`input` (..., *out) put back to the `indices` of its max pooling, 0 elsewhere.

        output_size: the sizes of space, or the whole shape, where several would have been pooled
        to the same.
        """
        name = f"max_unpool{d}d"
        x = with_samples(name, as_tensor(name, input), d)
        at = with_samples(name, as_tensor(name, indices), d)
        if x.shape != at.shape:
            raise ShapeError(f"{name}: input {x.shape} and indices {at.shape} differ in shape",
                             "pass the indices that max pooling gave with return_indices=True")
        kernel, stride, _, pad = _window(name, d, kernel_size, stride, padding)
        space = _unpooled(name, x.shape[2:], kernel, stride, pad, output_size)
        lead = x.shape[:2]
        places = check_index(flatten(at, 2, -1), product(space), f"{name}: index")
        empty = full((*lead, product(space)), 0, x.dtype, x.device)
        return as_given(reshape(scatter(empty, 2, places, flatten(x, 2, -1)), (*lead, *space)),
                         input)

    return _named(d, max_unpool)


def _unpooled(name: str, out: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, size: Any) -> Sizes:
    """The sizes of space before pooling: `size`, checked, or the smallest."""
    usual = tuple((o - 1) * s + k - 2 * p
                  for o, k, s, p in zip(out, kernel, stride, pad, strict=True))
    if size is None:
        return usual
    d = len(usual)
    wanted = tuple(size)[-d:]
    fits = len(size) in (d, d + 2) and all(
        abs(n - u) < s for n, u, s in zip(wanted, usual, stride, strict=True))
    if not fits:
        raise ShapeError(f"{name}: output_size {tuple(size)} is not what {out} could come from",
                         f"its last sizes must be less than {stride} away from {usual}")
    return wanted


# ---- averages
def _mean_of_windows(
    name: str, d: int, input: Any, window: tuple[Any, Any, Any], ceil: bool, with_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    given = floating(name, input, "f")
    x = with_samples(name, given, d)
    kernel, stride, _, pad = _window(name, d, *window)
    out = tuple(pool.pool_count(name, n, k, s, 1, p, ceil)
                for n, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True))
    if divisor == 0:
        raise ArgumentError(f"{name}: divisor_override must not be 0")
    total = pool.window_sums(widened(x), kernel, out, stride, pad)
    share: Any = divisor
    if divisor is None:
        same = not ceil and (with_pad or not any(pad))
        share = product(kernel) if same else _counts(total, x.shape[2:], kernel, stride, pad,
                                                     with_pad)
    return as_given(cast(total / share, x.dtype), given)


def _counts(total: Tensor, space: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, with_pad: bool
            ) -> Tensor:
    """How many elements, or also of the padding, each window has: (1, 1, *out)."""
    if with_pad:
        space, pad = tuple(n + 2 * p for n, p in zip(space, pad, strict=True)), (0,) * len(pad)
    ones = full((1, 1, *space), 1, total.dtype, total.device)
    return pool.window_sums(ones, kernel, total.shape[2:], stride, pad)


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window: (n, c, length) or (c, length) to (..., out)."""
    return _mean_of_windows("avg_pool1d", 1, input, (kernel_size, stride, padding), ceil_mode,
                            count_include_pad)


def _avg_pools(d: int) -> Any:
    def avg_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """The mean of each window: (n, c, *space) or (c, *space) to (..., *out).

        count_include_pad: the padding counts as zeros, or else not at all. divisor_override: what
        to divide the sums by instead.
        """
        return _mean_of_windows(f"avg_pool{d}d", d, input, (kernel_size, stride, padding),
                                ceil_mode, count_include_pad, divisor_override)

    return _named(d, avg_pool)


def _lp_pools(d: int) -> Any:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        """The p-norm of each window, sum(x ** p) ** (1 / p): (..., *space) to (..., *out)."""
        name = f"lp_pool{d}d"
        powers = floating(name, input, "f") ** norm_type
        means = _mean_of_windows(name, d, powers, (kernel_size, stride, 0), ceil_mode, True)
        return (means * product(per_axis(name, "kernel_size", kernel_size, d))) ** (1.0 / norm_type)

    return _named(d, lp_pool)


# ---- windows that follow from the sizes
def _wanted(name: str, d: int, x: Tensor, output_size: Any) -> Sizes:
    """`output_size` with a number for each axis; None is the size that `x` has."""
    given = per_axis(name, "output_size", output_size, d)
    sizes = tuple(n if o is None else o for o, n in zip(given, x.shape[2:], strict=True))
    for o in given:
        check_at_least(name, "output_size", 1 if o is None else o, 1)
    return sizes


def _divides(size: Any, n: Any) -> bool:
    """Whether `n` elements make `size` stretches of one length."""
    return size is n or size == 1 or n % size == 0  # 1 first: n may be symbolic


def _adaptive_avg_pools(d: int) -> Any:
    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        """The means of as many windows as `output_size` says: (..., *space) to (..., *output_size).

        Window i of m along an axis of n goes from floor(i n / m) to ceil((i + 1) n / m).

        >>> import fusewire as fw
        >>> fw.nn.functional.adaptive_avg_pool1d(fw.tensor([[1.0, 2.0, 3.0]]), 2)
        tensor([[1.5, 2.5]])
        """
        name = f"adaptive_avg_pool{d}d"
        given = floating(name, input, "f")
        x = with_samples(name, given, d)
        sizes, out = _wanted(name, d, x, output_size), _even_means(name, d, x, output_size)
        for axis, size in enumerate(sizes, 2):
            if out.shape[axis] is not size and out.shape[axis] != size:
                out = pool.stretch_sums(out, axis, size) / pool.stretch_lengths(
                    out.shape[axis], size, (1,) * (d + 1 - axis), out.dtype, out.device)
        return as_given(cast(out, x.dtype), given)

    return _named(d, adaptive_avg_pool)


def _even_means(name: str, d: int, x: Tensor, output_size: Any) -> Tensor:
    """`x` in the dtype of sums, averaged along the axes that the windows divide."""
    wanted, wide = _wanted(name, d, x, output_size), widened(x)
    whole = tuple(axis for axis, size in enumerate(wanted, 2) if type(size) is int and size == 1)
    if whole:  # one operator for runtimes, which look for it
        wide = mean(wide, whole, keepdims=True)
    shape, axes = list(wide.shape[:2]), []
    for size, n in zip(wanted, wide.shape[2:], strict=True):
        if size is n or not _divides(size, n):
            shape.append(n)
        else:
            axes.append(len(shape) + 1)
            shape += [size, n // size]
    return mean(reshape(wide, tuple(shape)), tuple(axes)) if axes else wide


def _adaptive_max_pools(d: int) -> Any:
    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The largest of as many windows as `output_size` says: (..., *output_size).

        With `return_indices` also where each stands in its (*space), counted in row-major order.
        """
        return _adaptive_largest(f"adaptive_max_pool{d}d", d, input, output_size, return_indices)

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> Any:
        """adaptive_max_pool with return_indices=True, whatever is passed."""
        return _adaptive_largest(f"adaptive_max_pool{d}d", d, input, output_size, True)

    return _named(d, adaptive_max_pool, adaptive_max_pool_with_indices)


def _adaptive_largest(name: str, d: int, input: Any, output_size: Any, places: bool) -> Any:
    given = _real(name, input)
    x = with_samples(name, given, d)
    sizes, space = _wanted(name, d, x, output_size), x.shape[2:]
    if all(map(_divides, sizes, space)):
        kernel = tuple(n // size for n, size in zip(space, sizes, strict=True))
        return _largest(name, d, given, (kernel, kernel, 0), False, places)
    # For each window its elements, as places in all of space.
    table = iota((1, 1), 0, device=x.device)
    for n, size in zip(space, sizes, strict=True):
        inside = pool.stretch_indices(n, size, x.device)
        both = reshape(table, (-1, 1, table.shape[1], 1)) * n + reshape(inside, (1, size, 1, -1))
        table = reshape(both, (-1, table.shape[1] * inside.shape[1]))
    values = take(flatten(x.detach(), 2, -1), table, 2)
    return _chosen(x, values, expand_to(table, values.shape), sizes, given, places)


def _chosen(x: Tensor, values: Tensor, numbers: Tensor, sizes: Sizes, given: Tensor, places: bool
            ) -> Any:
    """The largest of `values` (n, c, windows, elements), whose places in space are `numbers`."""
    index = pool.largest(values, numbers, product(x.shape[2:]), (3,))
    out = along(flatten(x, 2, -1), index, 2)
    found = [as_given(reshape(r, (*x.shape[:2], *sizes)), given) for r in (out, index)]
    return tuple(found) if places else found[0]


# ---- windows at random places
def _fractional_pools(d: int) -> Any:
    def fractional_max_pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:
        """The largest of windows that begin at random places: (..., *space) to (..., *out).

        Graham, arXiv 1412.6071. The sizes of the result are `output_size`, or `output_ratio` times
        those of space. With `return_indices` also where each element stands in its (*space).
        `_random_samples` (n, c, axes of space), from 0 to 1, decide where windows begin.
        """
        return _fractional(f"fractional_max_pool{d}d", d, input, kernel_size, output_size,
                           output_ratio, return_indices, _random_samples)

    def fractional_max_pool_with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:
        """fractional_max_pool with return_indices=True, whatever is passed."""
        return _fractional(f"fractional_max_pool{d}d", d, input, kernel_size, output_size,
                           output_ratio, True, _random_samples)

    return _named(d, fractional_max_pool, fractional_max_pool_with_indices)


def _fractional(
    name: str, d: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    places: bool, samples: Tensor | None,
) -> Any:
    given = floating(name, input, "f")
    x = with_samples(name, given, d)
    kernel = per_axis(name, "kernel_size", kernel_size, d)
    sizes = _fractions(name, d, x.shape[2:], output_size, output_ratio)
    _check_room(name, x.shape[2:], kernel, sizes)
    shape = (*x.shape[:2], d)
    u = generator.rand(shape, device=x.device) if samples is None else as_tensor(name, samples)
    if u.shape != shape:
        raise ShapeError(f"{name}: _random_samples must be (n, channels, axes) = {shape}, got "
                         f"{u.shape}")
    numbers: Any = 0
    for a, (n, k, size) in enumerate(zip(x.shape[2:], kernel, sizes, strict=True)):
        sample = d - 1 - a if d == 2 else a  # in two axes PyTorch takes that of the width first
        begin = _begins(cast(u, x.dtype)[..., sample:sample + 1], n, k, size)
        wide = reshape(begin, (*shape[:2], *[size if b == a else 1 for b in range(d)], *(1,) * d))
        inside = reshape(arange(k, device=x.device), [k if b == a else 1 for b in range(d)])
        numbers = numbers * n + (wide + inside)
    numbers = reshape(numbers, (*shape[:2], product(sizes), product(kernel)))
    values = gather(flatten(x.detach(), 2, -1), 2, flatten(numbers, 2, -1))
    return _chosen(x, reshape(values, numbers.shape), numbers, sizes, given, places)


def _fractions(name: str, d: int, space: Sizes, size: Any, ratio: Any) -> Sizes:
    """The sizes of the result."""
    if size is not None:
        return per_axis(name, "output_size", size, d)
    if ratio is None:
        raise ArgumentError(f"{name}: needs output_size or output_ratio",
                            "as in output_size=7, or output_ratio=0.5 for half the size")
    return tuple(math.floor(n * r) for n, r in zip(
        space, per_axis(name, "output_ratio", ratio, d), strict=True))


def _check_room(name: str, space: Sizes, kernel: Sizes, sizes: Sizes) -> None:
    for n, k, size in zip(space, kernel, sizes, strict=True):
        if size < 1 or k < 1 or size + k - 1 > n:
            raise ShapeError(f"{name}: {size} windows of {k} do not begin at different places of "
                             f"an axis of size {n}", "output_size + kernel_size - 1 must fit in it")


def _begins(u: Tensor, n: Any, kernel: Any, size: Any) -> Tensor:
    """Where the windows of an axis begin, for random numbers (n, c, 1): (n, c, size)."""
    last = n - kernel
    if size == 1:
        return cast(u * 0, dtypes.int64) + last
    number, alpha = iota((1, 1, size), 2, u.dtype, u.device), last / (size - 1)
    begin = floor((number + u) * alpha) - floor(u * alpha)
    return cast(where(number == size - 1, float(last), begin), dtypes.int64)


max_pool1d, max_pool1d_with_indices = _max_pools(1)
max_pool2d, max_pool2d_with_indices = _max_pools(2)
max_pool3d, max_pool3d_with_indices = _max_pools(3)
max_unpool1d, max_unpool2d, max_unpool3d = map(_unpools, (1, 2, 3))
avg_pool2d, avg_pool3d = map(_avg_pools, (2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pools, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg_pools, (1, 2, 3))
avg_pool3d, adaptive_avg_pool3d = map(in_float32, (avg_pool3d, adaptive_avg_pool3d))
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pools(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pools(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pools(3)
fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_pools(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_pools(3)
