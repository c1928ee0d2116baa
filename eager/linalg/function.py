"""Computes powers, exponentials and products of several matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import factorial
from typing import Any

import numpy as np

from ..arguments import check_whole, whole
from ..core.dispatch import apply
from ..core.op import each
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, ShapeError
from ..ops.create import full_like
from ..ops.elementwise.pointwise import alias
from ..ops.products.contract import matmul
from ..ops.shape.join import concat, stack
from ..ops.shape.view import broadcast_to, expand_dims, reshape
from .core import adjoint, eye_like, lapack, matrices
from .solve import inv

__all__ = ["matrix_exp", "matrix_power", "multi_dot", "vander"]


def matrix_power(x: Tensor, n: int) -> Tensor:
    """The n-th powers of matrices (..., k, k); powers of the inverse for n < 0.

    Raises:
        ArgumentError: `n` is not a whole number.
        LinAlgError: `n` is negative and a matrix is singular.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.matrix_power(fw.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
        tensor([[1., 5.],
                [0., 1.]])
    """
    x, count = matrices("matrix_power", x, square=True), whole(n)
    if count is None:
        raise ArgumentError(f"matrix_power: the power {n!r} is not a whole number",
                            "fw.linalg.eigh gives other powers of symmetric matrices")
    if count == 0:
        return broadcast_to(eye_like(x), x.shape)
    square, out = (inv(x) if count < 0 else x), None
    count = abs(count)
    while True:  # the product of x ** (2 ** i) for the bits i of n
        if count & 1:
            out = square if out is None else out @ square
        count >>= 1
        if not count:
            return alias(x) if out is x else out  # type: ignore[return-value]
        square = square @ square


# ---- exponential

# For each degree of the approximation, the largest 1-norm for which it is exact in float64; larger
# ones are halved. N. Higham, "The scaling and squaring method for the matrix exponential
# revisited" (2005), table 2.3.
_DEGREES = ((3, 1.495585217958292e-2), (5, 2.539398330063230e-1), (7, 9.504178996162932e-1),
            (9, 2.097847961257068e0), (13, 5.371920351148152e0))


@cache
def _coefficients(degree: int) -> tuple[float, ...]:
    """The numerator of the Pade approximation of exp, from the constant on; the first is 1."""
    return tuple(float(factorial(2 * degree - j) * factorial(degree)
                       / (factorial(2 * degree) * factorial(j) * factorial(degree - j)))
                 for j in range(degree + 1))


def _pade(x: Any, degree: int) -> Any:
    """p(x) / p(-x): even powers are equal in both, odd ones have opposite signs."""
    c = _coefficients(degree)
    power = square = x @ x
    even = c[0] * np.eye(x.shape[-1]) + c[2] * square
    odd = c[1] * np.eye(x.shape[-1]) + (c[3] * square)
    for j in range(4, degree, 2):
        power = power @ square
        even, odd = even + c[j] * power, odd + c[j + 1] * power
    odd = x @ odd
    return np.linalg.solve(even - odd, even + odd)


def _matrix_exp(x: Any) -> Any:
    wide = x.astype(np.promote_types(x.dtype, np.float64))
    sizes = np.abs(wide).sum(-2).max(-1, initial=0)
    finite = np.isfinite(sizes)
    wide[~finite] = 0
    largest = sizes[finite].max(initial=0)
    degree, limit = next((d for d in _DEGREES if largest <= d[1]), _DEGREES[-1])
    halvings = np.ceil(np.log2(np.where(finite & (sizes > limit), sizes / limit, 1))).astype(int)
    out = _pade(wide / np.exp2(halvings)[..., None, None], degree)
    for i in range(int(halvings.max(initial=0))):
        out = np.where((halvings > i)[..., None, None], out @ out, out)
    out[~finite] = np.nan
    return out.astype(x.dtype)


def _matrix_exp_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """The derivative of exp at x^H towards g: a block of the exponential of [[x^H, g], [0, x^H]].

    R. Mathias, "A chain rule for matrix functions" (1996).
    """
    n, xh = x.shape[-1], adjoint(x)
    upper = concat([xh, g], axis=-1)
    lower = concat([full_like(xh, 0), xh], axis=-1)
    block = matrix_exp(concat([upper, lower], axis=-2))
    return block[..., :n, n:]


exp_op = lapack("matrix_exp", lambda x: x, _matrix_exp, each(_matrix_exp_vjp))


def matrix_exp(x: Tensor) -> Tensor:
    """The exponentials 1 + x + x @ x / 2 + ... of matrices (..., n, n).

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.matrix_exp(fw.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return apply(exp_op, (matrices("matrix_exp", x, square=True),))


# ---- several matrices
_ASSUMED_SYMBOLIC_SIZE = 64  # in the search for the cheapest order


def multi_dot(xs: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, in the order that needs the fewest multiplications.

    Args:
        xs: the matrices; the first and the last may be vectors, a row and a column.

    Raises:
        ShapeError: there are fewer than two, or one is no matrix.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.multi_dot([fw.ones(2, 9), fw.ones(9, 9), fw.ones(9)])
        tensor([81., 81.])
    """
    tensors = [as_tensor("multi_dot", x) for x in xs]
    if len(tensors) < 2:
        raise ShapeError(f"multi_dot: takes two or more matrices, got {len(tensors)}",
                         "pass them as one list: multi_dot([a, b, c])")
    for i, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, len(tensors) - 1)):
            raise ShapeError(f"multi_dot: operand {i} of shape {x.shape} is no matrix",
                             "pass matrices; the first and the last may be vectors")
    first, last = tensors[0], tensors[-1]
    chain = [expand_dims(first, 0) if first.ndim == 1 else first, *tensors[1:-1],
             expand_dims(last, -1) if last.ndim == 1 else last]
    sizes = [*[x.shape[0] for x in chain], chain[-1].shape[1]]
    sample_sizes = tuple(n if type(n) is int else _ASSUMED_SYMBOLIC_SIZE for n in sizes)
    out = _product(chain, _splits(sample_sizes), 0, len(chain))
    shape = (*first.shape[:-1], *last.shape[1:])
    return out if out.ndim == len(shape) else reshape(out, shape)


@cache
def _splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """The index k that splits each product of matrices i to j for the fewest multiplications."""
    n = len(sizes) - 1
    cost, splits = {(i, i + 1): 0 for i in range(n)}, {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            cost[i, j], splits[i, j] = min(
                (cost[i, k] + cost[k, j] + sizes[i] * sizes[k] * sizes[j], k)
                for k in range(i + 1, j))
    return splits


def _product(xs: list[Tensor], splits: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if j - i == 1:
        return xs[i]
    k = splits[i, j]
    return matmul(_product(xs, splits, i, k), _product(xs, splits, k, j))


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """The powers 0 ... N - 1 of the elements of vectors: (..., n) -> (..., n, N).

    Args:
        N: number of powers. Default None: n.

    Raises:
        ShapeError: `x` is 0-d.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.vander(fw.tensor([2, 3]), N=3)
        tensor([[1, 2, 4],
                [1, 3, 9]])
    """
    if N is not None:
        check_whole("vander", "N", N, 0)
    x = as_tensor("vander", x)
    if x.ndim == 0:
        raise ShapeError("vander: takes vectors (..., n), got a 0-d tensor", "x.reshape(1)")
    powers = [full_like(x, 1)]
    for _ in range((x.shape[-1] if N is None else N) - 1):
        powers.append(powers[-1] * x)
    return stack(powers, axis=-1)[..., :N]
