"""Defines operators of matrix products, Einsum and Det."""

from __future__ import annotations

from .....eager.linalg import det
from .....eager.ops.products.contract import matmul
from .....eager.ops.products.einsum import einsum
from .....eager.ops.shape.view import matrix_transpose
from ..runtime.table import Tensor, operator

__all__: list[str] = []


@operator("MatMul", text="{0} @ {1}")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return matmul(a, b)


@operator("Gemm")
def _gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
          transA: int = 0, transB: int = 0, broadcast: int = 1) -> Tensor:
    a = matrix_transpose(a) if transA else a
    b = matrix_transpose(b) if transB else b
    out = matmul(a, b)
    out = out if alpha == 1.0 else (out * alpha).astype(a.dtype)
    if c is None or beta == 0.0:
        return out
    return out + (c if beta == 1.0 else (c * beta).astype(a.dtype))


@operator("Einsum")
def _einsum(*operands: Tensor, equation: str) -> Tensor:
    return einsum(equation.replace(" ", ""), *operands)


@operator("Det")
def _det(x: Tensor) -> Tensor:
    return det(x)

