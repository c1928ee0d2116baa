"""Pooling: reduces windows of (n, channels, *space), or without n, to one element each.

A factory makes the functions for d = 1, 2 and 3 axes of space. In the docstrings *space stands for
these axes; arguments that are "one number or d" take a number for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arguments import check_number, check_whole, numbers_per_axis, per_axis
from ...arrays import dtypes
from ...arrays.shapes import product
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.create import full, iota
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import cast
from ...ops.indexing.scatter import along, scatter
from ...ops.layers import pool
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import floating, mean, widened
from ...ops.shape.take import take
from ...ops.shape.view import expand_to, flatten, reshape
from .inputs import check_integers, like_input, with_samples

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]

Sizes = tuple[Any, ...]  # a number for each axis of space
Function = Callable[..., Any]


def with_rank_in_name(d: int, *functions: Function) -> Any:
    """`functions` for `d` axes of space, under PyTorch's names: max_pool becomes max_pool2d."""
    for fn in functions:
        fn.__name__ = fn.__qualname__ = fn.__name__.replace("pool", f"pool{d}d")
    return functions if len(functions) > 1 else functions[0]


def _window(name: str, d: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
            ) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Kernel, stride, dilation and padding with a number for each axis."""
    kernel = per_axis(name, "kernel_size", kernel_size, d, 1)
    step = kernel if stride is None or stride == [] else per_axis(name, "stride", stride, d, 1)
    apart = per_axis(name, "dilation", dilation, d, 1)
    around = per_axis(name, "padding", padding, d, 0)
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
def _largest(name: str, d: int, input: Any, window: tuple[Any, ...], ceil: bool, with_indices: bool
             ) -> Any:
    original = _real(name, input)
    x = with_samples(name, original, d)
    kernel, stride, dilation, pad = _window(name, d, *window)
    how = kernel, stride, dilation, pad, bool(ceil)
    if not with_indices:
        return like_input(pool.max_pool(x, *how), original)
    return tuple(like_input(out, original) for out in pool.max_pool_indices(x, *how))


def _max_pools(d: int) -> Any:
    def max_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:
        """The largest element of each window: (n, c, *space) to (n, c, *out).

        Args:
            input: real numbers (n, c, *space) or (c, *space).
            kernel_size: the size of windows: one number or d.
            stride: the distance between windows. Default None: `kernel_size`.
            padding: elements of -inf on both sides, at most half the kernel. Default 0.
            dilation: the distance between the elements of a window. Default 1.
            ceil_mode: True adds a last window that reaches beyond the end. Default False.
            return_indices: True returns a pair with the row-major index of each element in its
                *space, int64. Default False.

        Raises:
            ShapeError: `input` has other axes, or no window fits.
            ArgumentError: a number is too small, or `padding` too large.
            DTypeError: `input` is bool or complex.

        Example:
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
        """(values, indices) of max_pool; `return_indices` has no effect.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.max_pool1d_with_indices(fw.tensor([[1.0, 5.0, 2.0, 0.0]]), 2)
            (tensor([[5., 2.]]), tensor([[1, 2]]))
        """
        return _largest(f"max_pool{d}d", d, input, (kernel_size, stride, padding, dilation),
                        ceil_mode, True)

    return with_rank_in_name(d, max_pool, max_pool_with_indices)


def _unpools(d: int) -> Any:
    def max_unpool(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        """`input` scattered to the `indices` of its max pooling, 0 elsewhere: (n, c, *space).

        Args:
            input: (n, c, *out) or (c, *out).
            indices: the indices that max_pool returned, of the shape of `input`.
            kernel_size, stride, padding: as for max_pool, with its defaults.
            output_size: *space or the whole shape, where several sizes are possible. Default None:
                the smallest.

        Raises:
            ShapeError: shapes differ, or `output_size` is not possible.
            IndexingError: an index is outside of *space.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.max_unpool1d(fw.tensor([[5.0, 2.0]]), fw.tensor([[1, 2]]), 2)
            tensor([[0., 5., 2., 0.]])
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
        check_integers(name, "indices", at)
        index = check_index(flatten(at, 2, -1), product(space), f"{name}: index")
        empty = full((*lead, product(space)), 0, x.dtype, x.device)
        return like_input(reshape(scatter(empty, 2, index, flatten(x, 2, -1)), (*lead, *space)),
                          input)

    return with_rank_in_name(d, max_unpool)


def _unpooled(name: str, out: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, size: Any) -> Sizes:
    """The sizes of space before pooling: `size`, checked, or the smallest."""
    usual = tuple((o - 1) * s + k - 2 * p
                  for o, k, s, p in zip(out, kernel, stride, pad, strict=True))
    if size is None:
        return usual
    d = len(usual)
    sizes = tuple(size)[-d:]
    fits = len(size) in (d, d + 2) and all(
        abs(n - u) < s for n, u, s in zip(sizes, usual, stride, strict=True))
    if not fits:
        raise ShapeError(f"{name}: output_size {tuple(size)} cannot be pooled to {out}",
                         f"its last sizes must be less than {stride} away from {usual}")
    return sizes


# ---- averages
def _mean_of_windows(
    name: str, d: int, input: Any, window: tuple[Any, Any, Any], ceil: bool, with_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    original = floating(name, input, "f")
    x = with_samples(name, original, d)
    kernel, stride, _, pad = _window(name, d, *window)
    out = tuple(pool.pool_count(name, n, k, s, 1, p, ceil)
                for n, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True))
    if divisor is not None and check_whole(name, "divisor_override", divisor) == 0:
        raise ArgumentError(f"{name}: divisor_override must not be 0")
    total = pool.window_sums(widened(x), kernel, out, stride, pad)
    share: Any = divisor
    if divisor is None:
        same = not ceil and (with_pad or not any(pad))
        share = product(kernel) if same else _counts(total, x.shape[2:], kernel, stride, pad,
                                                     with_pad)
    return like_input(cast(total / share, x.dtype), original)


def _counts(total: Tensor, space: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, with_pad: bool
            ) -> Tensor:
    """The number of elements of each window, with or without the padding: (1, 1, *out)."""
    if with_pad:
        space, pad = tuple(n + 2 * p for n, p in zip(space, pad, strict=True)), (0,) * len(pad)
    ones = full((1, 1, *space), 1, total.dtype, total.device)
    return pool.window_sums(ones, kernel, total.shape[2:], stride, pad)


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window: (n, c, length) to (n, c, out), or without n.

    Args:
        input: real floating point numbers (n, c, length) or (c, length).
        kernel_size, stride, padding: one number each, as for avg_pool2d, with its defaults.
        ceil_mode: True adds a last window that reaches beyond the end. Default False.
        count_include_pad: False leaves the padding out of the count. Default True.

    Raises:
        ShapeError: `input` has other axes, or no window fits.
        ArgumentError: a number is too small, or `padding` too large.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.avg_pool1d(fw.tensor([[1.0, 5.0, 2.0, 0.0]]), 2)
        tensor([[3., 1.]])
    """
    return _mean_of_windows("avg_pool1d", 1, input, (kernel_size, stride, padding), ceil_mode,
                            count_include_pad)


def _avg_pools(d: int) -> Any:
    def avg_pool(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """The mean of each window: (n, c, *space) to (n, c, *out).

        Args:
            input: real floating point numbers (n, c, *space) or (c, *space).
            kernel_size: the size of windows: one number or d.
            stride: the distance between windows. Default None: `kernel_size`.
            padding: zeros on both sides, at most half the kernel. Default 0.
            ceil_mode: True adds a last window that reaches beyond the end. Default False.
            count_include_pad: False leaves the padding out of the count. Default True.
            divisor_override: the divisor of the sums, not 0. Default None: the count.

        Raises:
            ShapeError: `input` has other axes, or no window fits.
            ArgumentError: a number is too small, or `padding` too large.
            DTypeError: `input` does not hold real floating point numbers.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.avg_pool2d(fw.tensor([[[1.0, 5.0], [2.0, 0.0]]]), 2)
            tensor([[[2.]]])
        """
        return _mean_of_windows(f"avg_pool{d}d", d, input, (kernel_size, stride, padding),
                                ceil_mode, count_include_pad, divisor_override)

    return with_rank_in_name(d, avg_pool)


def _lp_pools(d: int) -> Any:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        """sum(x ** p) ** (1 / p) of each window: (n, c, *space) to (n, c, *out).

        It is the p-norm where no element is negative.

        Args:
            input: real floating point numbers (n, c, *space) or (c, *space).
            norm_type: p.
            kernel_size: the size of windows: one number or d.
            stride: the distance between windows. Default None: `kernel_size`.
            ceil_mode: True adds a last window that reaches beyond the end. Default False.

        Raises:
            ShapeError: `input` has other axes, or no window fits.
            ArgumentError: a number is below 1.
            DTypeError: `input` does not hold real floating point numbers.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.lp_pool1d(fw.tensor([[3.0, 4.0]]), 2, 2)
            tensor([[5.]])
        """
        name = f"lp_pool{d}d"
        if check_number(name, "norm_type", norm_type) == 0:
            raise ArgumentError(f"{name}: norm_type must not be 0: the root is of that order")
        powers = floating(name, input, "f") ** norm_type
        means = _mean_of_windows(name, d, powers, (kernel_size, stride, 0), ceil_mode, True)
        return (means * product(per_axis(name, "kernel_size", kernel_size, d))) ** (1.0 / norm_type)

    return with_rank_in_name(d, lp_pool)


# ---- windows that follow from the sizes
def _output_sizes(name: str, d: int, x: Tensor, output_size: Any) -> Sizes:
    """`output_size` with a number for each axis; None is the size of `x`."""
    requested = numbers_per_axis(name, "output_size", output_size, d)
    return tuple(n if o is None else check_whole(name, "output_size", o, 1)
                 for o, n in zip(requested, x.shape[2:], strict=True))


def _divides(size: Any, n: Any) -> bool:
    """True if `n` elements make `size` stretches of one length."""
    return size is n or size == 1 or n % size == 0  # 1 first: n may be symbolic


def _adaptive_avg_pools(d: int) -> Any:
    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        """The means of windows that divide *space: (n, c, *space) to (n, c, *output_size).

        Window i of m along an axis of n goes from floor(i n / m) to ceil((i + 1) n / m).

        Args:
            input: real floating point numbers (n, c, *space) or (c, *space).
            output_size: the number of windows along each axis: one number or d, None for the size
                of `input`.

        Raises:
            ShapeError: `input` has other axes.
            ArgumentError: a size is below 1.
            DTypeError: `input` does not hold real floating point numbers.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.adaptive_avg_pool1d(fw.tensor([[1.0, 2.0, 3.0]]), 2)
            tensor([[1.5, 2.5]])
        """
        name = f"adaptive_avg_pool{d}d"
        original = floating(name, input, "f")
        x = with_samples(name, original, d)
        sizes, out = _output_sizes(name, d, x, output_size), _even_means(name, d, x, output_size)
        for axis, size in enumerate(sizes, 2):
            if out.shape[axis] is not size and out.shape[axis] != size:
                out = pool.stretch_sums(out, axis, size) / pool.stretch_lengths(
                    out.shape[axis], size, (1,) * (d + 1 - axis), out.dtype, out.device)
        return like_input(cast(out, x.dtype), original)

    return with_rank_in_name(d, adaptive_avg_pool)


def _even_means(name: str, d: int, x: Tensor, output_size: Any) -> Tensor:
    """`x` in the dtype of sums, averaged along the axes that the windows divide."""
    sizes, wide = _output_sizes(name, d, x, output_size), widened(x)
    whole = tuple(axis for axis, size in enumerate(sizes, 2) if type(size) is int and size == 1)
    if whole:  # one operator for runtimes, which look for it
        wide = mean(wide, whole, keepdims=True)
    shape, axes = list(wide.shape[:2]), []
    for size, n in zip(sizes, wide.shape[2:], strict=True):
        if size is n or not _divides(size, n):
            shape.append(n)
        else:
            axes.append(len(shape) + 1)
            shape += [size, n // size]
    return mean(reshape(wide, tuple(shape)), tuple(axes)) if axes else wide


def _adaptive_max_pools(d: int) -> Any:
    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The largest elements of windows that divide *space: (n, c, *output_size).

        The windows are those of adaptive_avg_pool.

        Args:
            input: real numbers (n, c, *space) or (c, *space).
            output_size: the number of windows along each axis: one number or d, None for the size
                of `input`.
            return_indices: True returns a pair with the row-major index of each element in its
                *space, int64. Default False.

        Raises:
            ShapeError: `input` has other axes.
            ArgumentError: a size is below 1.
            DTypeError: `input` is bool or complex.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.adaptive_max_pool1d(fw.tensor([[1.0, 2.0, 3.0]]), 2)
            tensor([[2., 3.]])
        """
        return _adaptive_largest(f"adaptive_max_pool{d}d", d, input, output_size, return_indices)

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> Any:
        """(values, indices) of adaptive_max_pool; `return_indices` has no effect.

        Example:
            >>> import fusewire as fw
            >>> fw.nn.functional.adaptive_max_pool1d_with_indices(fw.tensor([[1.0, 2.0, 3.0]]), 2)
            (tensor([[2., 3.]]), tensor([[1, 2]]))
        """
        return _adaptive_largest(f"adaptive_max_pool{d}d", d, input, output_size, True)

    return with_rank_in_name(d, adaptive_max_pool, adaptive_max_pool_with_indices)


def _adaptive_largest(name: str, d: int, input: Any, output_size: Any, with_indices: bool) -> Any:
    original = _real(name, input)
    x = with_samples(name, original, d)
    sizes, space = _output_sizes(name, d, x, output_size), x.shape[2:]
    if all(map(_divides, sizes, space)):
        kernel = tuple(n // size for n, size in zip(space, sizes, strict=True))
        return _largest(name, d, original, (kernel, kernel, 0), False, with_indices)
    # For each window the indices of its elements in all of space.
    table = iota((1, 1), 0, device=x.device)
    for n, size in zip(space, sizes, strict=True):
        inside = pool.stretch_indices(n, size, x.device)
        both = reshape(table, (-1, 1, table.shape[1], 1)) * n + reshape(inside, (1, size, 1, -1))
        table = reshape(both, (-1, table.shape[1] * inside.shape[1]))
    values = take(flatten(x.detach(), 2, -1), table, 2)
    return largest_elements(x, values, expand_to(table, values.shape), sizes, original,
                            with_indices)


def largest_elements(x: Tensor, values: Tensor, numbers: Tensor, sizes: Sizes, original: Tensor,
                     with_indices: bool) -> Any:
    """The largest of `values` (n, c, windows, elements), whose indices in space are `numbers`."""
    index = pool.largest(values, numbers, product(x.shape[2:]), (3,))
    out = along(flatten(x, 2, -1), index, 2)
    results = [like_input(reshape(r, (*x.shape[:2], *sizes)), original) for r in (out, index)]
    return tuple(results) if with_indices else results[0]


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
