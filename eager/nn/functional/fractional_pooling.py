"""Fractional max pooling: windows with random starts, of (n, channels, *space), or without n."""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_number, numbers_per_axis, per_axis
from ...arrays import dtypes
from ...arrays.shapes import product
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, ShapeError
from ...ops.create import arange, iota
from ...ops.elementwise.pointwise import cast, floor, where
from ...ops.indexing.scatter import gather
from ...ops.random import generator
from ...ops.reduction.reduce import floating
from ...ops.shape.view import flatten, reshape
from .inputs import with_samples
from .pooling import Sizes, largest_elements, with_rank_in_name

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


def _fractional_pools(d: int) -> Any:
    def fractional_max_pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:
        """The largest elements of windows with random starts: (n, c, *space) to (n, c, *out).

        Graham, "Fractional max-pooling", arXiv 1412.6071.

        Args:
            input: real floating point numbers (n, c, *space) or (c, *space).
            kernel_size: the size of windows: one number, or one for each of the d axes of space.
            output_size: the number of windows along each axis. Default None: from `output_ratio`.
            output_ratio: *out over *space, rounded down: one number or d. Default None.
            return_indices: True returns a pair with the row-major index of each element in its
                *space, int64. Default False.
            _random_samples: (n, c, d), from 0 to 1, to place windows. Default None: drawn.

        Raises:
            ShapeError: windows do not fit, or `input` or `_random_samples` has other axes.
            ArgumentError: output_size and output_ratio are None.
            DTypeError: `input` does not hold real floating point numbers.

        Example:
            >>> import fusewire as fw
            >>> x = fw.zeros((3, 8, 8))
            >>> fw.nn.functional.fractional_max_pool2d(x, 2, output_ratio=0.5).shape
            (3, 4, 4)
        """
        return _fractional(f"fractional_max_pool{d}d", d, input, kernel_size, output_size,
                           output_ratio, return_indices, _random_samples)

    def fractional_max_pool_with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:
        """(values, indices) of fractional_max_pool; `return_indices` has no effect.

        Example:
            >>> import fusewire as fw
            >>> x = fw.zeros((3, 8, 8))
            >>> [t.shape for t in fw.nn.functional.fractional_max_pool2d_with_indices(x, 2, 4)]
            [(3, 4, 4), (3, 4, 4)]
        """
        return _fractional(f"fractional_max_pool{d}d", d, input, kernel_size, output_size,
                           output_ratio, True, _random_samples)

    return with_rank_in_name(d, fractional_max_pool, fractional_max_pool_with_indices)


def _fractional(
    name: str, d: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    with_indices: bool, samples: Tensor | None,
) -> Any:
    original = floating(name, input, "f")
    x = with_samples(name, original, d)
    kernel = per_axis(name, "kernel_size", kernel_size, d, 1)
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
    return largest_elements(x, reshape(values, numbers.shape), numbers, sizes, original,
                            with_indices)


def _fractions(name: str, d: int, space: Sizes, size: Any, ratio: Any) -> Sizes:
    """The sizes of the result."""
    if size is not None:
        return per_axis(name, "output_size", size, d, 1)
    if ratio is None:
        raise ArgumentError(f"{name}: needs output_size or output_ratio",
                            "as in output_size=7, or output_ratio=0.5 for half the size")
    ratios = numbers_per_axis(name, "output_ratio", ratio, d)
    if not all(0 < check_number(name, "output_ratio", r) < 1 for r in ratios):
        raise ArgumentError(f"{name}: output_ratio must be between 0 and 1, got {ratio!r}")
    return tuple(math.floor(n * r) for n, r in zip(space, ratios, strict=True))


def _check_room(name: str, space: Sizes, kernel: Sizes, sizes: Sizes) -> None:
    for n, k, size in zip(space, kernel, sizes, strict=True):
        if size < 1 or k < 1 or size + k - 1 > n:
            raise ShapeError(f"{name}: {size} windows of {k} do not begin at different places of "
                             f"an axis of size {n}", "output_size + kernel_size - 1 must fit in it")


def _begins(u: Tensor, n: Any, kernel: Any, size: Any) -> Tensor:
    """The starts of the windows of an axis, for random numbers (n, c, 1): (n, c, size)."""
    last = n - kernel
    if size == 1:
        return cast(u * 0, dtypes.int64) + last
    number, alpha = iota((1, 1, size), 2, u.dtype, u.device), last / (size - 1)
    begin = floor((number + u) * alpha) - floor(u * alpha)
    return cast(where(number == size - 1, float(last), begin), dtypes.int64)


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_pools(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_pools(3)
