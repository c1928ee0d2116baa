"""Computes the backward of max pooling by a native kernel: gradients are added at the maxima.

For each row of windows, first the offsets of the maxima are found, many windows at a time. Then the
gradients are added one after the other, since overlapping windows may share an element.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType, product
from ..compile import machine_of
from ..ir.loop_ir import (
    BOOL,
    INT,
    Assign,
    DType,
    Expr,
    For,
    Kernel,
    KernelBuffer,
    Register,
    Stmt,
    Store,
    Var,
    call,
    const,
    load,
    read,
)
from ..ir.target_info import Machine
from ..llvm.row_blocks import RowBlocks
from ..partition.support import is_supported
from ..program.native_call import ProgramCall, with_contiguous_inputs
from ..program.native_program import Argument, NativeProgram, ProgramStep, write
from ..program.native_program import compile_written as program_of
from ..runtime.target import host

_MAX_WINDOW_ELEMENTS = 64  # the kernel has code for each of them
_OFFSET_DTYPE = np.dtype("int32")

Sizes = tuple[int, ...]


def max_pool_back(
    types: Sequence[TensorType], out: TensorType, params: dict[str, Any]
) -> Callable[[Sequence[Any]], Any] | None:
    """A function from the gradient and the input of max pooling to the input's gradient; None for
    large windows and unusual dtypes."""
    g, x = types
    kernel = params["kernel"]
    if not (x.size
            and g.size) or product(kernel) > _MAX_WINDOW_ELEMENTS or not is_supported(out.dtype) \
            or is_small(out.dtype) or out.dtype.kind != "f":
        return None
    size, planes = out.shape[out.ndim - len(kernel):], product(out.shape[:out.ndim - len(kernel)])
    how = [params[name] for name in ("kernel", "out", "stride", "dilation", "pad")]
    program = _program(out.dtype, size, *how)
    return None if program is None else with_contiguous_inputs(ProgramCall(program, 2, [out],
                                                                           rows=planes))


@functools.cache
def _program(dtype: DType, size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes,
             pad: Sizes) -> NativeProgram | None:
    """The program for any number of planes; None if a window may lie entirely in the padding."""
    if not all([any([0 <= w * s - p + i * r < n for i in range(k)])
                for n, k, o, s, r, p in zip(size, kernel, out, stride, dilation, pad)
                for w in range(o)]):
        return None
    target = host()
    plane = plane_backward(dtype, size, kernel, out, stride, dilation, pad, machine_of(target))
    strides = [dtype.itemsize * product(n) for n in (out, size, size)]
    step = ProgramStep(plane, [Argument(i) for i in range(3)])
    return program_of(write([step], plane.name, target, RowBlocks(1, strides, plane.cost)), target)


def plane_backward(dtype: DType, size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes,
                   dilation: Sizes, pad: Sizes, machine: Machine) -> Kernel:
    """The kernel for one plane: its buffers are the gradient, the input and the result."""
    g, x = KernelBuffer("g", dtype, product(out)), KernelBuffer("x", dtype, product(size))
    result = KernelBuffer("made", dtype, product(size))
    at = KernelBuffer("at", _OFFSET_DTYPE, out[-1], scratch=True)
    lanes = machine.lanes(dtype.itemsize)
    windows = [Var(f"o{a}") for a in range(len(out))]
    first = [_sum(_times(w, s), const(-p)) for w, s, p in zip(windows, stride, pad)]
    offsets = [tuple(n * r for n, r in zip(tap, dilation))
               for tap in itertools.product(*map(range, kernel))]
    inside = all(p == 0 and (o - 1) * s + (k - 1) * r < n for n, k, o, s, r, p in
                 zip(size, kernel, out, stride, dilation, pad))
    find = _find_maxima(x, size, first, offsets, inside, at, windows[-1])
    to = _sum(_flat(first, size), load(at, windows[-1]))
    target = Register("target", INT)
    value = call("add", (load(result, read(target)), load(g, _flat(windows, out))), dtype)
    add = (Assign(target, call("cast", (to,), INT)), Store(result, read(target), value))
    body: tuple[Stmt, ...] = (
        For(windows[-1], const(0), const(out[-1]), find, lanes),
        For(windows[-1], const(0), const(out[-1]), add))
    for window, count in reversed(list(zip(windows[:-1], out))):
        body = (For(window, const(0), const(count), body),)
    i = Var("i")
    clear = For(i, const(0), const(product(size)), (Store(result, i, const(0.0, dtype)),), lanes)
    cost = product(out) * (len(offsets) + 2.0)
    return Kernel("max_pool_back", (g, x), (result,), (at,), Var("task"), 1, (clear, *body), cost)


def _find_maxima(x: KernelBuffer, size: Sizes, first: list[Expr], offsets: list[Sizes],
                 inside: bool,
                 at: KernelBuffer, window: Var) -> tuple[Stmt, ...]:
    """Stores the offset from a window's first element to its first maximum, or to its last nan. If
    all are -inf it is the first element that is not padding."""
    best, number = Register("best", x.dtype), Register("number", _OFFSET_DTYPE)
    lowest = const(-float("inf"), x.dtype)
    statements: list[Stmt] = [Assign(best, lowest), Assign(number, const(-1, _OFFSET_DTYPE))]
    for tap in offsets:
        index = [_sum(f, const(n)) for f, n in zip(first, tap)]
        mask = None if inside else _within(index, size)
        value = load(x, _flat(index, size), mask, None if mask is None else lowest)
        none = call("lt", (read(number), const(0, _OFFSET_DTYPE)), BOOL)
        better = _or(_or(call("gt", (value, read(best)), BOOL), call("isnan", (value,), BOOL)),
                     none if mask is None else call("and", (none, mask), BOOL))
        offset = const(sum(n * step for n, step in zip(tap, _steps(size))), _OFFSET_DTYPE)
        is_better = Register(f"better{len(statements)}", BOOL)
        statements += [
            Assign(is_better, better),
            Assign(best, call("where", (read(is_better), value, read(best)), x.dtype)),
            Assign(number, call("where", (read(is_better), offset, read(number)), _OFFSET_DTYPE))]
    return (*statements, Store(at, window, read(number)))


def _within(index: list[Expr], size: Sizes) -> Expr:
    """An expression that is true if an index is outside of the padding."""
    sides = [side for i, n in zip(index, size)
             for side in (call("ge", (i, const(0)), BOOL), call("lt", (i, const(n)), BOOL))]
    return functools.reduce(lambda a, b: call("and", (a, b), BOOL), sides)


def _steps(size: Sizes) -> list[int]:
    """The distances of neighbours along each axis."""
    return [product(size[a + 1:]) for a in range(len(size))]


def _flat(index: Sequence[Expr], size: Sizes) -> Expr:
    return functools.reduce(_sum, [_times(i, n) for i, n in zip(index, _steps(size))])


def _or(x: Expr, y: Expr) -> Expr:
    return call("or", (x, y), BOOL)


def _sum(x: Expr, y: Expr) -> Expr:
    return call("add", (x, y), INT)


def _times(x: Expr, factor: int) -> Expr:
    return call("mul", (x, const(factor)), INT)
