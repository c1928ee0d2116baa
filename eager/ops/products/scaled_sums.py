"""Defines products with factors: beta * x + alpha * product, and products of scaled numbers."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, names_itself
from ...arrays import dtypes
from ...arrays.shapes import broadcast, same
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..declare import operand as as_operand
from ..elementwise.pointwise import astype, divide, multiply
from ..shape.view import expand_to, reshape
from .contract import contract, factors, matmul
from .matrix import outer

__all__ = ["addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm",
           "scaled_matmul"]


@names_itself
def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (a @ b), for matrices: (n, k), (k, m) -> (n, m).

    Args:
        x: a tensor that broadcasts to (n, m).
        a, b: the matrices.
        beta: factor of `x`; with 0 the values of `x` are not used, not even nan. Default 1.
        alpha: factor of the product. Default 1.

    Raises:
        ShapeError: `a` or `b` is no matrix, or the shapes do not fit.

    Example:
        >>> import fusewire as fw
        >>> fw.addmm(fw.tensor([1, 2]), fw.eye(2, dtype=fw.int64), fw.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [4, 6]])
    """
    _check_axes("addmm", (a, 2), (b, 2))
    return _scaled_sum("addmm", x, matmul(a, b), beta, alpha)


@names_itself
def addmv(x: Tensor, a: Tensor, v: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (a @ v), for a matrix and a vector: (n, k), (k,) -> (n,). See `addmm`.

    Example:
        >>> import fusewire as fw
        >>> fw.addmv(fw.ones(2), fw.eye(2), fw.tensor([1.0, 2.0]), alpha=10)
        tensor([11., 21.])
    """
    _check_axes("addmv", (a, 2), (v, 1))
    return _scaled_sum("addmv", x, matmul(a, v), beta, alpha)


@names_itself
def addr(x: Tensor, u: Tensor, v: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * outer(u, v), for vectors: (n,), (m,) -> (n, m). See `addmm`.

    Example:
        >>> import fusewire as fw
        >>> fw.addr(fw.zeros(2, 2), fw.tensor([1.0, 2.0]), fw.tensor([1.0, 10.0]))
        tensor([[ 1., 10.],
                [ 2., 20.]])
    """
    _check_axes("addr", (u, 1), (v, 1))
    return _scaled_sum("addr", x, outer(u, v), beta, alpha)


@names_itself
def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (a @ b), for batches: (l, n, k), (l, k, m) -> (l, n, m). See `addmm`.

    Example:
        >>> import fusewire as fw
        >>> fw.baddbmm(fw.ones(1), fw.ones(3, 2, 4), fw.ones(3, 4, 2))[0]
        tensor([[5., 5.],
                [5., 5.]])
    """
    _check_axes("baddbmm", (a, 3), (b, 3))
    return _scaled_sum("baddbmm", x, matmul(a, b), beta, alpha)


@names_itself
def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * the sum of the products of a batch: (l, n, k), (l, k, m) -> (n, m).

    See `addmm` for the parameters.

    Example:
        >>> import fusewire as fw
        >>> fw.addbmm(fw.ones(2, 2), fw.ones(3, 2, 4), fw.ones(3, 4, 2))
        tensor([[13., 13.],
                [13., 13.]])
    """
    _check_axes("addbmm", (a, 3), (b, 3))
    a, b = factors("addbmm", a, b)
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ShapeError(f"addbmm: batches of shapes {a.shape} and {b.shape} do not fit",
                         "they have the shapes (l, n, k) and (l, k, m)")
    return _scaled_sum("addbmm", x, contract(a, b, "lnk,lkm->nm"), beta, alpha)


def _check_axes(name: str, *operands: tuple[Any, int]) -> None:
    for operand, ndim in operands:
        if as_tensor(name, operand).ndim != ndim:
            raise ShapeError(f"{name}: takes an operand with {ndim} axes, got shape "
                             f"{operand.shape}", "x + a @ b takes all numbers of axes")


def _scaled_sum(name: str, x: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    x = as_tensor(name, x)
    if broadcast(name, x.shape, product.shape) != product.shape:
        raise ShapeError(f"{name}: x {x.shape} does not broadcast to the product {product.shape}",
                         "the result has the shape of the product")
    scaled = _times(name, product, "alpha", alpha)
    if _is(beta, 0):
        return scaled
    return (expand_to(x, product.shape) if _is(beta, 1) else _times(name, x, "beta", beta)) + scaled


def _times(name: str, x: Tensor, what: str, factor: Any) -> Tensor:
    """x * factor, for a factor that is one number."""
    return x if _is(factor, 1) else multiply(x, check_number(name, what, factor, real=False))


def _is(factor: Any, number: int) -> bool:
    return not hasattr(factor, "shape") and bool(factor == number)


# ---- scaled numbers
@names_itself
def scaled_matmul(a: Tensor, b: Tensor, scale_a: Any, scale_b: Any, *, bias: Tensor | None = None,
                  out_dtype: Any = None) -> Tensor:
    """(a * scale_a) @ (b * scale_b) + bias, for matrices of float8 or other small numbers.

    The product is summed in float32, in float64 if an operand has it, and then multiplied by the
    scales. Gradients flow to all operands that require one; that of a float8 is in float32.

    Args:
        a: (..., n, k), of any real dtype, also one that is only stored.
        b: (k, m), or (..., k, m).
        scale_a: the factor of `a`: one number, or (n, 1) for one of each row.
        scale_b: the factor of `b`: one number, or (1, m) for one of each column.
        bias: (m,), or None for no bias. Default None.
        out_dtype: of the result. Default None: that of the sums.

    Raises:
        ShapeError: the matrices do not fit, or a scale has another shape.
        DTypeError: an operand is complex.

    Example:
        >>> import fusewire as fw
        >>> b = fw.tensor([[1.0, 2.0], [32.0, 48.0]]).astype(fw.float8_e4m3fn)
        >>> fw.scaled_matmul(fw.ones(1, 2), b, 0.5, fw.tensor([[1.0, 10.0]]))
        tensor([[ 16.5, 250. ]])
    """
    a, b = as_tensor("scaled_matmul", a), as_tensor("scaled_matmul", b)
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(f"scaled_matmul: takes matrices, got shapes {a.shape} and {b.shape}",
                         "a vector is a matrix of one row: x[None]")
    factor_a = _scale("scale_a", scale_a, "a", a, (a.shape[-2], 1))
    factor_b = _scale("scale_b", scale_b, "b", b, (1, b.shape[-1]))
    out = multiply(multiply(matmul(_widened(a), _widened(b)), factor_a), factor_b)
    out = out if bias is None else out + _widened(as_tensor("scaled_matmul", bias))
    return out if out_dtype is None else astype(out, out_dtype)


def _widened(x: Tensor) -> Tensor:
    """`x` in float32, or in its own float64."""
    if dtypes.kind(x.dtype) == "c":
        raise DTypeError(f"scaled_matmul: takes real numbers, not {x.dtype.name}",
                         "multiply real and imaginary parts one by one")
    return x if x.dtype in (dtypes.float32, dtypes.float64) else astype(x, dtypes.float32)


def _scale(name: str, scale: Any, of: str, x: Tensor, each: tuple[Any, Any]) -> Any:
    """A scale: one number, or one for each row or column of the result."""
    scale = as_operand("scaled_matmul", scale)
    if not isinstance(scale, Tensor):
        return scale
    factor = _widened(scale)
    shape = factor.shape
    if factor.size == 1:
        return reshape(factor, ())
    if len(shape) < 2 or not (same(shape[-2:], each) and len(shape) <= x.ndim):
        raise ShapeError(f"scaled_matmul: {name} has shape {shape}, but {of} of shape {x.shape} "
                         f"takes one number, or {each}",
                         "for scales of blocks, cast and multiply first")
    return factor


# ---- elements
@names_itself
def addcmul(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """x + value * a * b; shapes broadcast.

    Args:
        value: factor of the product. Default 1.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.addcmul(fw.ones(2), fw.tensor([1.0, 2.0]), fw.tensor([3.0, 4.0]), value=0.5)
        tensor([2.5, 5. ])
    """
    x = _beside("addcmul", x, a, b)
    return x + _times("addcmul", multiply(a, b), "value", value)


@names_itself
def addcdiv(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """x + value * a / b; shapes broadcast.

    Args:
        value: factor of the quotient. Default 1.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.addcdiv(fw.ones(2), fw.tensor([1.0, 2.0]), fw.tensor([2.0, 8.0]), value=2)
        tensor([2. , 1.5])
    """
    x = _beside("addcdiv", x, a, b)
    return x + _times("addcdiv", divide(a, b), "value", value)


def _beside(name: str, x: Any, a: Any, b: Any) -> Tensor:
    """`x` as a tensor; ShapeError if the shapes do not broadcast."""
    x = as_tensor(name, x)
    broadcast(name, x.shape, *[v.shape for v in (a, b) if isinstance(v, Tensor)])
    return x
