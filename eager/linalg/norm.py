"""Computes norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from ..arguments import check_at_least, check_number, names_itself
from ..arrays.shapes import axes_of, axis_of, reduced
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import imag, real
from ..ops.reduction import reduce
from ..ops.shape.view import permute_dims, reshape
from .core import matrices
from .singular import svdvals
from .solve import inv

__all__ = ["cond", "matrix_norm", "norm", "renorm", "vector_norm"]


def vector_norm(x: Tensor, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norms sum(|x| ** ord) ** (1 / ord) along `axis`.

    The gradient is 0 where the norm has no derivative, at 0.

    Args:
        axis: one axis or several. Default None: all elements.
        keepdims: True keeps the reduced axes with size 1. Default False.
        ord: the order; inf and -inf give the largest and smallest |x|, 0 the number of elements
            that are not 0. Default 2.

    Raises:
        DTypeError: `x` does not hold floats.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.vector_norm(fw.tensor([3.0, 4.0]))
        tensor(5.)
        >>> fw.linalg.vector_norm(fw.ones(2, 3), axis=0)
        tensor([1.4142135, 1.4142135, 1.4142135])
    """
    x = reduce.floating("vector_norm", x)
    axes = axes_of("vector_norm", axis, x.ndim)
    check_number("vector_norm", "ord", ord)
    if ord == 2:
        return _root(reduce.sum(_squares(x), axes, keepdims))
    size = pointwise.abs(x)
    if ord == 0:
        return reduce.sum(pointwise.cast(pointwise.not_equal(size, 0), size.dtype), axes, keepdims)
    if ord == 1:
        return reduce.sum(size, axes, keepdims)
    if not axes or ord in (math.inf, -math.inf):
        return reduce.min(size, axes, keepdims) if ord == -math.inf else \
            reduce.max(size, axes, keepdims)
    return _power(reduce.sum(_power(size, float(ord)), axes, keepdims), 1 / float(ord))


def _squares(x: Tensor) -> Tensor:
    """|x| ** 2, differentiable at 0."""
    if x.dtype.kind != "c":
        return x * x
    a, b = real(x), imag(x)
    return a * a + b * b


def _root(x: Tensor) -> Tensor:
    """The square root, with the gradient 0 at 0."""
    zero = pointwise.equal(x, 0)
    return pointwise.where(zero, 0.0, pointwise.sqrt(pointwise.where(zero, 1.0, x)))


def _power(x: Tensor, exponent: float) -> Tensor:
    """x ** exponent for x >= 0, with the gradient 0 at 0."""
    zero = pointwise.equal(x, 0)
    at_zero = 0.0 if exponent > 0 else math.inf
    return pointwise.where(zero, at_zero,
                           pointwise.pow(pointwise.where(zero, 1.0, x), exponent))


@names_itself
def matrix_norm(x: Tensor, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices: (..., m, n) -> (...).

    Args:
        keepdims: True keeps the reduced axes with size 1. Default False.
        ord: "fro" is the root of the sum of squares. "nuc", 2 and -2 are the sum, the largest and
            the smallest of the singular values. 1 and -1 are the largest and smallest sum of |x|
            over a column, inf and -inf over a row. Default "fro".

    Raises:
        ShapeError: `x` has fewer than two axes.
        ArgumentError: `ord` has another value.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.matrix_norm(fw.tensor([[1.0, -2.0], [0.0, 3.0]]), ord=1)
        tensor(5.)
    """
    x = matrices("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, (-2, -1), keepdims)
    if ord not in ("nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: ord {ord!r} is not known",
                            'it is "fro", "nuc", 1, -1, 2, -2, inf or -inf')
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        out = reduce.sum(values, -1) if ord == "nuc" else \
            reduce.max(values, -1) if ord > 0 else reduce.min(values, -1)
    else:
        sums = reduce.sum(pointwise.abs(x), -2 if ord in (1, -1) else -1)
        out = reduce.max(sums, -1) if ord > 0 else reduce.min(sums, -1)
    return reshape(out, reduced(x.shape, (x.ndim - 2, x.ndim - 1), True)) if keepdims else out


@names_itself
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norms along `axis`: `matrix_norm` for two axes and an `ord`, else `vector_norm`.

    Args:
        ord: the order. Default None: the root of the sum of squares.
        axis: one axis, or two for matrices. Default None: all axes.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Raises:
        ShapeError: `ord` is set without `axis`, and `x` has more than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.norm(fw.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc")
        tensor(7.)
    """
    x = reduce.floating("norm", x)
    if ord is None:
        return vector_norm(x, axis, keepdims)
    if axis is None and x.ndim > 2:
        raise ShapeError(f"norm: ord={ord!r} needs an axis for a tensor of shape {x.shape}",
                         "pass one axis for vectors, two for matrices")
    axes = tuple(range(x.ndim)) if axis is None else axis
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        return vector_norm(x, axes, keepdims, ord)
    i, j = (axis_of("norm", a, x.ndim) for a in axes)
    rest = tuple(a for a in range(x.ndim) if a not in (i, j))
    out = matrix_norm(permute_dims(x, (*rest, i, j)), ord=ord)
    return reshape(out, reduced(x.shape, (i, j), True)) if keepdims else out


@names_itself
def cond(x: Tensor, p: Any = None) -> Tensor:
    """The condition numbers of matrices: (..., m, n) -> (...).

    Args:
        p: order of the norm. None and 2 divide the largest singular value by the smallest, -2 the
            smallest by the largest. Other orders of `matrix_norm` multiply the norms of the matrix
            and its inverse. Default None.

    Raises:
        LinAlgError: `p` requires an inverse that does not exist.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.cond(fw.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(2.)
    """
    if p not in (None, 2, -2):
        return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
    values = svdvals(x)
    largest, smallest = reduce.max(values, -1), reduce.min(values, -1)
    return smallest / largest if p == -2 else largest / smallest


@names_itself
def renorm(x: Tensor, p: Any, axis: int, maxnorm: float) -> Tensor:
    """`x` with each slice along `axis` whose norm is above `maxnorm` scaled down to that norm.

    Args:
        p: the order of the norm, as in `vector_norm`.
        axis: along which the slices are counted.
        maxnorm: the largest norm, 0 or more.

    Raises:
        DTypeError: `x` does not hold floats.
        ArgumentError: `maxnorm` is negative.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.renorm(fw.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
        tensor([[0.6, 0.8],
                [0.3, 0.4]])
    """
    check_number("renorm", "p", p)
    check_at_least("renorm", "maxnorm", maxnorm, 0)
    x = reduce.floating("renorm", x)
    at = axis_of("renorm", axis, x.ndim)
    norms = vector_norm(x, tuple(a for a in range(x.ndim) if a != at), True, p)
    large = pointwise.greater(norms, maxnorm)
    return x * pointwise.where(large, maxnorm / pointwise.where(large, norms, 1.0), 1.0)
