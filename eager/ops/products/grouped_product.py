"""Declares the product of rows with a matrix of few bits, which has a scale for each group.

Element (o, i) of the matrix is `codes[o, i] * scale[o, g] + least[o, g]`, where g = i // group.
Codes are whole numbers from 0 to 255, or to 15. Two codes of 4 bits share a byte: the lower half of
byte (o, j) is the code of input j, the upper half that of input j + inputs / 2. So both halves of a
row are read in order.
"""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import TensorType
from ...core.tensor import Tensor
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import cast
from ..shape.join import concat
from ..shape.view import permute_dims, reshape
from .contract import matmul

__all__: list[str] = []


def grouped_product(x: Tensor, codes: Tensor, scale: Tensor, least: Tensor, bits: int) -> Tensor:
    """x times the transposed matrix: (..., outputs), of the dtype of `x`.

    Code for few rows may round each row of `x` to whole multiples of 2**-21 of its largest
    magnitude; a row with inf or nan then gives only inf and nan.

    Args:
        x: (..., inputs), floats.
        codes: (outputs, inputs * bits / 8), uint8.
        scale: (outputs, groups), float32.
        least: (outputs, groups), float32: the number of the code 0.
        bits: 4 or 8, of a code.
    """
    return call(grouped_product_op, x, codes, scale, least, bits=bits)


def grouped_matrix(codes: Tensor, scale: Tensor, least: Tensor, bits: int) -> Tensor:
    """The matrix in float32: (outputs, inputs). See `grouped_product`."""
    return concat(_parts(codes, scale, least, bits), axis=1)


def _parts(codes: Tensor, scale: Tensor, least: Tensor, bits: int) -> list[Tensor]:
    """The columns of the matrix whose codes are in the same bits of bytes."""
    outputs, width = codes.shape
    groups = scale.shape[1] * bits // 8
    parts = []
    for n in range(8 // bits):
        some = (cast(codes, dtypes.int32) >> n * bits) & ((1 << bits) - 1)
        whole = reshape(cast(some, dtypes.float32), (outputs, groups, width // groups))
        factor, first = (x[:, n * groups:(n + 1) * groups, None] for x in (scale, least))
        parts.append(reshape(whole * factor + first, (outputs, width)))
    return parts


def _product(x: Tensor, codes: Tensor, scale: Tensor, least: Tensor, *, bits: int) -> Tensor:
    total, width = None, codes.shape[1]
    for n, part in enumerate(_parts(codes, scale, least, bits)):
        columns = x if bits == 8 else x[..., n * width:(n + 1) * width]
        product = matmul(columns, permute_dims(cast(part, x.dtype), (1, 0)))
        total = product if total is None else total + product
    assert total is not None
    return total


def _result(x: TensorType, codes: TensorType, *rest: TensorType, **params: Any) -> TensorType:
    return TensorType((*x.shape[:-1], codes.shape[0]), x.dtype)


grouped_product_op = composite("grouped_product", _product, _result, whole=True)
