"""Lowers the backward of max pooling: gradients are added at the maxima of the windows.

For each row of windows, first the offsets of the maxima are found, many windows at a time. Then the
gradients are added one after the other, since overlapping windows may share an element. Tasks share
the planes: the channels of the samples.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import product
from ..fusion.fusion import Group
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import BUILDER, ExprValue, call, cast
from ..ir.inline import Inliner, flatten, memory_reader
from ..ir.loop_ir import (
    BOOL,
    Assign,
    DType,
    For,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    const,
    load,
    read,
)
from ..ir.sizes import is_dynamic, upper_bound
from ..ir.target_info import Machine
from .partition_work import buffers_of, chunk_bounds, split_into_tasks
from .scatter_rows import unflatten_row

_MAX_WINDOW_ELEMENTS = 64  # the kernel has code for each of them
_MIN_ELEMENTS_PER_TASK = 8192
_DTYPES = np.dtype("float32"), np.dtype("float64")
_OFFSET_DTYPE = np.dtype("int32")

Sizes = tuple[int, ...]
ElementReader = Callable[[tuple[Index, ...], Any], ExprValue]  # (index in a plane, mask)


class PoolWindows(NamedTuple):
    """The windows of a pooling, one number per axis: the sizes of a plane, then the parameters."""

    size: Sizes
    kernel: Sizes
    out: Sizes
    stride: Sizes
    dilation: Sizes
    pad: Sizes

    @classmethod
    def of(cls, shape: Sizes, params: Mapping[str, Any]) -> PoolWindows:
        """The windows of a pooling of arrays of this shape."""
        size = tuple(shape[len(shape) - len(params["kernel"]):])
        return cls(size, *[tuple(params[name]) for name in cls._fields[1:]])

    def has_kernel(self, dtype: DType) -> bool:
        """True if the kernel computes this pooling: each window has an element of the plane, and
        windows are small."""
        return 0 not in (*self.size, *self.out) and dtype in _DTYPES \
            and product(self.kernel) <= _MAX_WINDOW_ELEMENTS \
            and all(any(0 <= w * s - p + i * r < n for i in range(k))
                    for n, k, o, s, r, p in zip(*self) for w in range(o))


def has_max_pool_kernel(node: Node, machine: Machine) -> bool:
    """True if a backward of max pooling has a kernel; it is decomposed if not."""
    windows = PoolWindows.of(node.type.shape, node.params)
    return not any(map(is_dynamic, (*windows.size, *windows.out))) and node.type.size != 0 \
        and windows.has_kernel(node.type.dtype)


def lower_max_pool_back(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                        name: str) -> list[Kernel]:
    """The kernel of a backward of max pooling for which `has_max_pool_kernel` holds."""
    (node,) = group.members
    if node not in buffers:
        return []
    g, x = node.inputs
    windows = PoolWindows.of(node.type.shape, node.params)
    lead = node.type.shape[:node.type.ndim - len(windows.size)]
    planes = product(lead)
    smallest = _MIN_ELEMENTS_PER_TASK // (product(windows.out) * product(windows.kernel))
    tasks, chunk = split_into_tasks(planes, max(1, smallest), machine)
    (var, task), (number, plane) = counter("task", tasks), counter("plane", planes)
    at = unflatten_row(plane, lead)
    inline = Inliner(memory_reader(buffers, (node,)))
    kernel = PlaneBackward(windows, buffers[node], plane * product(windows.size), machine,
                           lambda index, mask: inline.value(g, (*at, *index), mask),
                           lambda index, mask: inline.value(x, (*at, *index), mask))
    loops = (For(number, *chunk_bounds(task, chunk, planes), kernel.statements()),)
    return [Kernel(name, *buffers_of(loops), (kernel.offsets,), var, tasks, loops,
                   upper_bound(planes) * kernel.cost, (node.site,) if node.site else ())]


class PlaneBackward:
    """The statements for one plane of the result, which begins at element `start` of its buffer.

    `gradient` and `element` read the gradient of a window and an element of the pooled plane."""

    def __init__(self, windows: PoolWindows, result: KernelBuffer, start: Index, machine: Machine,
                 gradient: ElementReader, element: ElementReader) -> None:
        self.windows, self.result, self.start = windows, result, start
        self.gradient, self.element = gradient, element
        self.lanes = machine.lanes(result.dtype.itemsize)
        self.offsets = KernelBuffer("at", _OFFSET_DTYPE, windows.out[-1], scratch=True)
        self.taps = list(itertools.product(*map(range, windows.kernel)))
        self.cost = product(windows.out) * (len(self.taps) + 2.0)

    def statements(self) -> tuple[Stmt, ...]:
        """They clear the plane, then add the gradients, one row of windows after the other."""
        size, out = self.windows.size, self.windows.out
        i_var, i = counter("i", product(size))
        zero = Store(self.result, (self.start + i).expr(), const(0, self.result.dtype))
        counters = [counter(f"o{axis}", n) for axis, n in enumerate(out)]
        window = tuple(index for _, index in counters)
        first = tuple(w * s - p for w, s, p in zip(window, self.windows.stride, self.windows.pad))
        last, last_size = counters[-1][0], const(out[-1])
        body: tuple[Stmt, ...] = (
            For(last, const(0), last_size, self._find_maximum(first, window[-1]), self.lanes),
            For(last, const(0), last_size, (self._add_gradient(first, window),)))
        for (var, _), n in reversed(list(zip(counters[:-1], out))):
            body = (For(var, const(0), const(n), body),)
        return For(i_var, const(0), const(product(size)), (zero,), self.lanes), *body

    def _add_gradient(self, first: tuple[Index, ...], window: tuple[Index, ...]) -> Store:
        offset = cast(ExprValue(load(self.offsets, window[-1].expr())), np.dtype("int64"))
        w = self.windows
        largest = sum((k - 1) * r * n for k, r, n in zip(w.kernel, w.dilation, _strides(w.size)))
        target = (self.start + flatten(first, w.size) + atom(offset.expr, (0, largest))).expr()
        total = call("add", ExprValue(load(self.result, target)), self.gradient(window, None))
        return Store(self.result, target, cast(total, self.result.dtype).expr)

    def _find_maximum(self, first: tuple[Index, ...], row: Index) -> tuple[Stmt, ...]:
        """Stores the offset from a window's first element to its first maximum, or to its last nan.
        If all are -inf it is the first element that is not padding."""
        size, dtype = self.windows.size, self.result.dtype
        best, number = Register("best", dtype), Register("number", _OFFSET_DTYPE)
        statements: list[Stmt] = [Assign(best, const(-float("inf"), dtype)),
                                  Assign(number, const(-1, _OFFSET_DTYPE))]
        for tap in self.taps:
            steps = tuple(n * r for n, r in zip(tap, self.windows.dilation))
            index = tuple(f + n for f, n in zip(first, steps))
            inside = _is_inside(index, size)
            if inside is False:
                continue  # padding in each window
            is_better, value = self._is_better(index, inside, best, number)
            flag = Register(f"better{len(statements)}", BOOL)
            chosen = ExprValue(read(flag))
            offset = BUILDER.const(sum(n * step for n, step in zip(steps, _strides(size))),
                                   _OFFSET_DTYPE)
            statements += [
                Assign(flag, is_better.expr),
                Assign(best, call("where", chosen, value, ExprValue(read(best))).expr),
                Assign(number, call("where", chosen, offset, ExprValue(read(number))).expr)]
        return (*statements, Store(self.offsets, row.expr(), read(number)))

    def _is_better(self, index: tuple[Index, ...], inside: Any, best: Register, number: Register
                   ) -> tuple[ExprValue, ExprValue]:
        """(whether an element replaces the best one so far, the element)."""
        mask = None if inside is True else inside
        value = self.element(index, mask)
        is_new = call("lt", ExprValue(read(number)), 0)
        better = call("or", call("gt", value, ExprValue(read(best))), call("isnan", value))
        better = call("or", better, is_new)
        return (better if mask is None else call("and", better, mask)), value


def _is_inside(index: tuple[Index, ...], size: Sizes) -> Any:
    """True if an index is in the plane: a bool where the ranges tell, else an ExprValue."""
    sides = [side for i, n in zip(index, size) for side in (as_index(i) >= 0, as_index(i) < n)]
    return functools.reduce(lambda a, b: call("and", a, b), sides)


def _strides(size: Sizes) -> list[int]:
    """The distances of neighbours along each axis, in elements."""
    return [product(size[axis + 1:]) for axis in range(len(size))]
