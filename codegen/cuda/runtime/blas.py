"""Products of matrices as calls of cuBLAS, which CuPy holds.

cuBLAS thinks in columns: what lies in memory row by row is to it the matrix turned. So it is asked
for the result turned, which is the product of the second operand turned by the first one turned.
Source: https://docs.nvidia.com/cuda/cublas/#cublasgemmstridedbatchedex
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ....eager.arrays.dtypes import bfloat16, float16, float32, float64
from ...ir.loop_ir import Buffer, Matrix, Product

AS_IT_IS, TURNED = 0, 1  # cublasOperation_t
_DTYPES = {float32: 0, float64: 1, float16: 2, bfloat16: 14}  # cudaDataType_t
_IN_FLOAT, _IN_DOUBLE = 68, 70  # cublasComputeType_t
_ANY_WAY = -1  # cublasGemmAlgo_t
_NUMBERS: dict[Any, Any] = {t: np.array([1, 0], t) for t in (float32, float64)}


class BlasOperand(NamedTuple):
    """A matrix as cuBLAS reads it: whether turned, where it begins, the code of its dtype, how far
    its columns are apart, and the matrices of a batch."""

    operation: int
    address: int
    dtype: int
    pitch: int
    batch: int


class BlasCall(NamedTuple):
    """The arguments of cublasGemmStridedBatchedEx, but for its handle."""

    rows: int
    columns: int
    depth: int
    first: BlasOperand
    second: BlasOperand
    result: BlasOperand
    batch: int
    compute: int
    numbers: int  # the address of 1 and 0, by which products and what was there are multiplied

    @property
    def arguments(self) -> tuple[int, ...]:
        """All of them, in order."""
        one, zero = self.numbers, self.numbers + (8 if self.compute == _IN_DOUBLE else 4)
        return (self.first.operation, self.second.operation, self.rows, self.columns, self.depth,
                one, *self.first[1:], *self.second[1:], zero, *self.result[1:], self.batch,
                self.compute, _ANY_WAY)


def call_of(product: Product, addresses: Mapping[Buffer, int]) -> BlasCall:
    """The call that computes a product, with its buffers at these addresses."""
    by_rows = _lies_by_rows(product.result, product.rows, product.columns)
    p = product if by_rows else _turned(product)
    wide = p.left.buffer.dtype == float64
    return BlasCall(
        p.columns, p.rows, p.depth,
        _operand(p.right, p.depth, p.columns, addresses),
        _operand(p.left, p.rows, p.depth, addresses),
        _operand(p.result, p.rows, p.columns, addresses),
        p.batch, _IN_DOUBLE if wide else _IN_FLOAT,
        _NUMBERS[float64 if wide else float32].ctypes.data)


def _turned(p: Product) -> Product:
    """The same product turned: what lies by columns lies by rows in it."""
    left, right, result = (dataclasses.replace(m, row=m.column, column=m.row)
                           for m in (p.left, p.right, p.result))
    return Product(right, left, result, p.batch, p.columns, p.rows, p.depth)


def _lies_by_rows(m: Matrix, rows: int, columns: int) -> bool:
    return (m.column == 1 or columns == 1) and (m.row >= columns or rows == 1)


def _operand(m: Matrix, rows: int, columns: int, addresses: Mapping[Buffer, int]) -> BlasOperand:
    """A matrix of so many rows and columns: one whose rows lie in memory is to cuBLAS that matrix
    turned, as it is asked for."""
    address = addresses[m.buffer] + m.first * m.buffer.dtype.itemsize
    by_rows = _lies_by_rows(m, rows, columns)
    pitch = max(m.row, columns) if by_rows else max(m.column, rows)
    return BlasOperand(AS_IT_IS if by_rows else TURNED, address, _DTYPES[m.buffer.dtype], pitch,
                       m.batch)
