"""Inverts tensors as linear maps from some of their axes to the others, and solves with them."""

from __future__ import annotations

from typing import Any

from ..arguments import whole
from ..arrays.shapes import axis_of, listed, product
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from ..ops.reduction import reduce
from ..ops.shape.rearrange import moveaxis
from ..ops.shape.view import reshape
from .solve import inv, solve

__all__ = ["tensorinv", "tensorsolve"]


def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse of `x` as a map from its axes after the first `ind` to the first `ind`.

    It is the tensor `y` for which fw.tensordot(y, x, ind) is the identity. Its axes are those of
    `x` with the first `ind` moved to the end.

    Args:
        ind: number of the first axes, whose sizes have the product of the other sizes. Default 2.

    Raises:
        ArgumentError: `ind` is not a whole number of 1 or more.
        ShapeError: the products of the sizes differ.
        LinAlgError: `x` has no inverse.

    Example:
        >>> import fusewire as fw
        >>> fw.linalg.tensorinv(fw.reshape(fw.eye(6), (6, 2, 3)), ind=1).shape
        (2, 3, 6)
    """
    x = reduce.floating("tensorinv", x)
    if whole(ind) is None or ind < 1:
        raise ArgumentError(f"tensorinv: ind={ind!r}", "it is a whole number of 1 or more")
    first, rest = x.shape[:ind], x.shape[ind:]
    n = product(first)
    if product(rest) != n:
        raise ShapeError(f"tensorinv: the first {ind} axes of shape {x.shape} have {n} elements, "
                         f"the others {product(rest)}", "both products must be equal")
    return reshape(inv(reshape(x, (n, n))), (*rest, *first))


def tensorsolve(a: Tensor, b: Tensor, axes: Any = None) -> Tensor:
    """The tensor x for which fw.tensordot(a, x, x.ndim) is `b`.

    Args:
        a: a tensor whose first axes are those of `b`; the product of the other sizes, the shape of
            the result, is the number of elements of `b`.
        b: the right side.
        axes: axes of `a` that are moved to its end first. Default None: none.

    Raises:
        ShapeError: the sizes do not fit.
        LinAlgError: there is no unique solution.

    Example:
        >>> import fusewire as fw
        >>> a = fw.reshape(fw.eye(6), (2, 3, 6))
        >>> fw.linalg.tensorsolve(a, fw.ones(2, 3))
        tensor([1., 1., 1., 1., 1., 1.])
    """
    a, b = reduce.floating("tensorsolve", a), reduce.floating("tensorsolve", b)
    if axes is not None:
        moved = [axis_of("tensorsolve", axis, a.ndim) for axis in listed("tensorsolve", axes)]
        a = moveaxis(a, moved, list(range(a.ndim - len(moved), a.ndim)))
    shape = a.shape[b.ndim:]
    n = product(shape)
    if a.shape[:b.ndim] != b.shape or product(b.shape) != n:
        raise ShapeError(f"tensorsolve: {a.shape} and the right side {b.shape} do not fit",
                         "the first axes of a are those of b, and the others have as many elements")
    return reshape(solve(reshape(a, (n, n)), reshape(b, (n,))), shape)
