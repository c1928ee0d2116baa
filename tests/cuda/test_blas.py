"""Products as calls of cuBLAS, with a cuBLAS of NumPy that does what NVIDIA's manual says."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fusewire.codegen.cuda.runtime.blas import blas_call_of
from fusewire.codegen.ir.loop_ir import KernelBuffer, Matrix, Product

NAMES: dict[int, Any] = {2: np.float16, 14: ml_dtypes.bfloat16, 0: np.float32, 1: np.float64}
SUMS: dict[int, Any] = {68: np.float32, 70: np.float64}


class Cublas:
    """Its one function that is called. Leading dimensions that cuBLAS refuses fail here, too."""

    @staticmethod
    def gemmStridedBatchedEx(
        handle: int, turn_a: int, turn_b: int, m: int, n: int, k: int, alpha: int,
        a: int, type_a: int, lead_a: int, step_a: int,
        b: int, type_b: int, lead_b: int, step_b: int, beta: int,
        c: int, type_c: int, lead_c: int, step_c: int, batch: int, sums: int, algorithm: int,
    ) -> None:
        assert algorithm == -1 and min(m, n, k, batch) >= 1 and type_a == type_b
        assert lead_a >= (k if turn_a else m) and lead_b >= (n if turn_b else k) and lead_c >= m
        assert at(alpha, SUMS[sums], 1)[0] == 1 and at(beta, SUMS[sums], 1)[0] == 0
        for i in range(batch):
            left = columns(a, type_a, lead_a, step_a * i, *((k, m) if turn_a else (m, k)))
            right = columns(b, type_b, lead_b, step_b * i, *((n, k) if turn_b else (k, n)))
            left, right = (x.astype(SUMS[sums]) for x in (left, right))
            columns(c, type_c, lead_c, step_c * i, m, n)[...] = \
                (left.T if turn_a else left) @ (right.T if turn_b else right)


def at(address: int, dtype: Any, count: int) -> Any:
    raw = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


def columns(address: int, kind: int, leading: int, first: int, rows: int, count: int) -> Any:
    """A matrix in memory whose columns begin `leading` elements apart."""
    dtype = np.dtype(NAMES[kind])
    memory = at(address + first * dtype.itemsize, dtype, leading * (count - 1) + rows)
    return np.lib.stride_tricks.as_strided(
        memory, (rows, count), (dtype.itemsize, leading * dtype.itemsize))


def laid(name: str, dtype: Any, batch: int, rows: int, columns: int, by_rows: bool, more: int,
         shared: bool = False) -> tuple[Matrix, Any]:
    """A matrix in a buffer of its own that begins at element 3, with `more` elements between its
    rows or columns; and the buffer's memory."""
    leading = (columns if by_rows else rows) + more
    each = leading * (rows if by_rows else columns)
    size = 3 + each * (1 if shared else batch)
    memory = np.random.default_rng(len(name) + size).standard_normal(size).astype(dtype)
    steps = (leading, 1) if by_rows else (1, leading)
    return Matrix(KernelBuffer(name, memory.dtype, size), 3, 0 if shared else each, *steps), memory


def shown(m: Matrix, memory: Any, batch: int, rows: int, columns: int) -> Any:
    step = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[m.first:], (batch, rows, columns), (m.batch * step, m.row * step, m.column * step))


def check(dtypes: tuple[Any, Any], sizes: tuple[int, int, int, int], by_rows: Any, more: int,
          shared: bool) -> None:
    batch, rows, columns, depth = sizes
    left, a = laid("l", dtypes[0], batch, rows, depth, by_rows[0], more)
    right, b = laid("ri", dtypes[0], batch, depth, columns, by_rows[1], more, shared)
    result, c = laid("res", dtypes[1], batch, rows, columns, by_rows[2], more)
    before = c.copy()
    call = blas_call_of(Product(left, right, result, batch, rows, columns, depth),
                        {m.buffer: x.ctypes.data for m, x in ((left, a), (right, b), (result, c))})
    Cublas.gemmStridedBatchedEx(0, *call.arguments)
    sums = np.float64 if dtypes[0] == np.float64 else np.float32
    wanted = shown(left, a, batch, rows, depth).astype(sums) \
        @ shown(right, b, batch, depth, columns).astype(sums)
    shown(result, before, batch, rows, columns)[...] = wanted.astype(dtypes[1])
    np.testing.assert_allclose(c.astype(np.float64), before.astype(np.float64), 2e-2
                               if np.dtype(dtypes[1]).itemsize == 2 else 1e-5, 1e-5)


@pytest.mark.parametrize("by_rows", [*itertools.product([True, False], repeat=3)])
@pytest.mark.parametrize("sizes", [(1, 4, 5, 6), (3, 5, 4, 6), (2, 1, 5, 3), (2, 5, 1, 3),
                                   (2, 5, 3, 1), (1, 1, 1, 1), (2, 1, 1, 7)])
def test_every_layout(sizes: Any, by_rows: Any) -> None:
    for more, shared in itertools.product((0, 3), (False, True)):
        check((np.float32, np.float32), sizes, by_rows, more, shared)


@pytest.mark.parametrize("dtypes", [
    (np.float64, np.float64), (np.float16, np.float16), (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    (np.float16, np.float32), (ml_dtypes.bfloat16, np.float32)])
def test_every_dtype(dtypes: Any) -> None:
    check(dtypes, (2, 4, 5, 6), (True, False, True), 1, False)
