"""Computes matrix products by cuBLAS, which CuPy loads.

cuBLAS is column-major: it reads a row-major matrix as its transpose. So it is asked for the
transposed result, which is the product of the transposed operands in reverse order.
Source: https://docs.nvidia.com/cuda/cublas/#cublasgemmstridedbatchedex
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ....eager.arrays.dtypes import bfloat16, float16, float32, float64
from ...ir.loop_ir import KernelBuffer, Matrix, Product

NOT_TRANSPOSED, TRANSPOSED = 0, 1  # cublasOperation_t
CUDA_TYPES = {float32: 0, float64: 1, float16: 2, bfloat16: 14}  # cudaDataType_t
COMPUTE_FLOAT32, COMPUTE_FLOAT64 = 68, 70  # cublasComputeType_t
DEFAULT_ALGORITHM = -1  # cublasGemmAlgo_t
_ONE_AND_ZERO: dict[Any, Any] = {t: np.array([1, 0], t) for t in (float32, float64)}


class BlasOperand(NamedTuple):
    """A matrix as cuBLAS reads it: its operation (transposed or not), address, dtype code, leading
    dimension, and batch stride."""

    operation: int
    address: int
    dtype: int
    pitch: int
    batch: int


class BlasCall(NamedTuple):
    """The arguments of cublasGemmStridedBatchedEx, except its handle."""

    rows: int
    columns: int
    depth: int
    first: BlasOperand
    second: BlasOperand
    result: BlasOperand
    batch: int
    compute: int
    one_and_zero: int  # the address of the factors alpha = 1 and beta = 0

    @property
    def arguments(self) -> tuple[int, ...]:
        """All arguments, in order."""
        one, zero = self.one_and_zero, self.one_and_zero + (8 if self.compute == COMPUTE_FLOAT64
                                                            else 4)
        return (self.first.operation, self.second.operation, self.rows, self.columns, self.depth,
                one, *self.first[1:], *self.second[1:], zero, *self.result[1:], self.batch,
                self.compute, DEFAULT_ALGORITHM)


def blas_call_of(product: Product, addresses: Mapping[KernelBuffer, int]) -> BlasCall:
    """The call that computes a product, with its buffers at these addresses."""
    row_major = _is_row_major(product.result, product.rows, product.columns)
    p = product if row_major else _transposed(product)
    is_double = p.left.buffer.dtype == float64
    return BlasCall(
        p.columns, p.rows, p.depth,
        _operand(p.right, p.depth, p.columns, addresses),
        _operand(p.left, p.rows, p.depth, addresses),
        _operand(p.result, p.rows, p.columns, addresses),
        p.batch, COMPUTE_FLOAT64 if is_double else COMPUTE_FLOAT32,
        _ONE_AND_ZERO[float64 if is_double else float32].ctypes.data)


def _transposed(p: Product) -> Product:
    """The transposed product: its column-major operands are row-major."""
    left, right, result = (dataclasses.replace(m, row=m.column, column=m.row)
                           for m in (p.left, p.right, p.result))
    return Product(right, left, result, p.batch, p.columns, p.rows, p.depth)


def _is_row_major(m: Matrix, rows: int, columns: int) -> bool:
    return (m.column == 1 or columns == 1) and (m.row >= columns or rows == 1)


def _operand(m: Matrix, rows: int, columns: int,
             addresses: Mapping[KernelBuffer, int]) -> BlasOperand:
    """The operand for a matrix of `rows` by `columns`: a row-major one is the transpose that cuBLAS
    expects."""
    address = addresses[m.buffer] + m.first * m.buffer.dtype.itemsize
    row_major = _is_row_major(m, rows, columns)
    pitch = max(m.row, columns) if row_major else max(m.column, rows)
    return BlasOperand(NOT_TRANSPOSED if row_major else TRANSPOSED, address,
                       CUDA_TYPES[m.buffer.dtype],
                       pitch, m.batch)
