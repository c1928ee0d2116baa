"""Defines pooling: maxima, means and norms of windows."""

from __future__ import annotations

from typing import Any

from .....eager.arrays.shapes import product
from .....eager.nn import functional as F
from .....eager.ops import create
from .....eager.ops.elementwise import pointwise
from .....eager.ops.indexing.scatter import scatter
from .....eager.ops.reduction import reduce
from .....eager.ops.reduction.reduce import lowest
from .....eager.ops.shape import view
from .....eager.ops.shape.window import window
from ..runtime.table import Sizes, Tensor, operator
from .convolution import Pads, of_space, padded, pads_of

__all__: list[str] = []

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class Window:
    """Windows over spatial axes: their padding and their number."""

    def __init__(self, x: Tensor, kernel: Any, strides: Any, dilations: Any, pads: Any,
                 auto_pad: str, ceil: int) -> None:
        d = len(kernel)
        self.kernel, self.space = tuple(kernel), x.shape[2:]
        self.strides, self.dilations = tuple(strides or (1,) * d), tuple(dilations or (1,) * d)
        self.pads: Pads = pads_of(auto_pad, pads, self.space, self.kernel, self.strides,
                                  self.dilations)
        self.out: list[Any] = []
        self.beyond: Pads = []  # the pads, enlarged to what the last window reads
        for n, k, s, r, (a, b) in zip(self.space, self.kernel, self.strides, self.dilations,
                                      self.pads):
            room = n + a + b - (k - 1) * r - 1
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= n + a:
                count = count - 1  # no window begins in the padding
            after = (count - 1) * s + (k - 1) * r + 1 - n - a
            self.out.append(count)
            self.beyond.append((a, after if after > b else b))

    def sums(self, x: Tensor) -> Tensor:
        """The sums over windows of `x`, padded with zeros."""
        return self._added(padded(x, self.beyond))

    def counts(self, x: Tensor, with_pads: bool) -> Any:
        """The number of elements of `x` in each window, with the pads if `with_pads`."""
        if with_pads and self.beyond == self.pads:
            return product(self.kernel)
        ones = create.ones((1, 1, *self.space), dtype=x.dtype)
        if with_pads:
            rest = [(0, after - b) for (_, b), (_, after) in zip(self.pads, self.beyond)]
            return self._added(padded(padded(ones, self.pads, 1), rest))
        if all(type(n) is int and n == 0 for pair in self.beyond for n in pair):
            return product(self.kernel)
        return self.sums(ones)

    def _added(self, x: Tensor) -> Tensor:
        """The sums over windows of a padded tensor."""
        none = (0,) * len(self.kernel)
        windows = window(x, self.kernel, self.out, self.strides, self.dilations, none)
        return reduce.sum(windows, tuple(range(-len(self.kernel), 0)))


@operator("MaxPool", many=True)
def _max_pool(x: Tensor, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
              dilations: Any = None, pads: Any = None, storage_order: int = 0,
              strides: Any = None, outputs: int = 1) -> Any:
    w = Window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    pool = of_space(_MAX, "MaxPool", len(w.kernel))
    if outputs == 1 and w.beyond == w.pads and all(
            a == b and 2 * a <= r * (k - 1) + 1
            for (a, b), k, r in zip(w.pads, w.kernel, w.dilations)):
        return (pool(x, w.kernel, w.strides, [a for a, _ in w.pads], w.dilations),)
    wide = padded(x, w.beyond, lowest(x.dtype))
    pooled = pool(wide, w.kernel, w.strides, 0, w.dilations, return_indices=outputs > 1)
    if outputs == 1:
        return (pooled,)
    return pooled[0], _without_pads(pooled[1], x, w, storage_order)


def _without_pads(indices: Tensor, x: Tensor, w: Window, columns_first: int) -> Tensor:
    """Indices into the padded spatial axes as flat indices into all of `x`."""
    wide = [n + a + b for n, (a, b) in zip(w.space, w.beyond)]
    at: list[Tensor] = []
    for n, (before, _) in zip(reversed(wide), reversed(w.beyond)):
        at.insert(0, pointwise.remainder(indices, n) - before)
        indices = pointwise.floor_divide(indices, n)
    axes = list(zip(at, w.space))
    flat: Any = 0
    for index, n in reversed(axes) if columns_first else axes:
        flat = flat * n + index
    count = product(x.shape[:2])
    first = create.arange(count) * product(w.space)
    return flat + view.reshape(first, (*x.shape[:2], *[1] * len(w.space)))


@operator("AveragePool")
def _average_pool(x: Tensor, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
                  count_include_pad: int = 0, dilations: Any = None, pads: Any = None,
                  strides: Any = None) -> Tensor:
    w = Window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return w.sums(x) / w.counts(x, bool(count_include_pad))


@operator("LpPool")
def _lp_pool(x: Tensor, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
             dilations: Any = None, p: int = 2, pads: Any = None, strides: Any = None) -> Tensor:
    w = Window(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return pointwise.pow(w.sums(pointwise.pow(pointwise.abs(x), p)), 1 / p)


@operator("GlobalAveragePool")
def _global_average_pool(x: Tensor) -> Tensor:
    return reduce.mean(x, tuple(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def _global_max_pool(x: Tensor) -> Tensor:
    return reduce.max(x, tuple(range(2, x.ndim)), True)


@operator("GlobalLpPool")
def _global_lp_pool(x: Tensor, p: int = 2) -> Tensor:
    total = reduce.sum(pointwise.pow(pointwise.abs(x), p), tuple(range(2, x.ndim)), True)
    return pointwise.pow(total, 1 / p)


@operator("MaxUnpool")
def _max_unpool(x: Tensor, indices: Tensor, output_shape: Sizes = None, kernel_shape: Any = None,
                pads: Any = None, strides: Any = None) -> Tensor:
    d = len(kernel_shape)
    strides, pads = strides or (1,) * d, pads or (0,) * 2 * d
    inferred = (*x.shape[:2], *((n - 1) * s + k - pads[i] - pads[i + d] for i, (n, s, k) in
                                enumerate(zip(x.shape[2:], strides, kernel_shape))))
    shape = tuple(output_shape) if output_shape is not None else inferred
    # Indices refer to the inferred shape; a larger output shape pads the result.
    flat = create.zeros(product(inferred), dtype=x.dtype)
    flat_out = scatter(flat, 0, view.reshape(indices, (-1,)), view.reshape(x, (-1,)))
    out = view.reshape(flat_out, inferred)
    return out if shape == inferred else padded(out, [(0, m - n) for n, m in
                                                      zip(inferred[2:], shape[2:])])
