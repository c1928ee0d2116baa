"""Implements jacrev, jacfwd and hessian: all derivatives of a function by one pass over a basis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ..arrays.shapes import product
from ..core.tensor import Tensor
from ..ops.create import iota
from ..ops.elementwise.pointwise import cast, equal
from ..ops.shape.view import permute_dims, reshape, slice_axes
from . import tree
from .batch import vmap
from .forward import jvp
from .gradient import Argnums, select_arguments, vjp

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
           ) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f`, by reverse mode.

    A result of shape (m, n) and an argument of shape (k,) give (m, n, k). A tree of results gives a
    tree whose leaves have the form of the argument. The cost is one pass per element of the result.

    Args:
        f: takes and returns tensors, or trees of tensors.
        argnums: see `grad`. Default 0.
        has_aux: `f` returns (result, aux), and the function (Jacobian, aux). Default False.

    Raises:
        DTypeError: an argument without gradient.
        GradientError: argnums names no positional argument.

    Example:
        >>> import fusewire as fw
        >>> fw.func.jacrev(lambda x: x * x)(fw.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(f, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        leaves, structure, substitute = select_arguments("jacrev", args, argnums)

        def inner(*xs: Tensor) -> Any:
            return f(*substitute(xs), **kwargs)

        result, back, *aux = vjp(inner, *leaves, has_aux=has_aux)
        outs, result_structure = tree.flatten(result)
        rows = vmap(lambda *gs: back(tree.unflatten(result_structure, gs)))(*_basis(outs))
        jacobians = []
        for n, out in enumerate(outs):
            parts = [_part(g, outs, n) for g in rows]
            jacobians.append(tree.unflatten(structure, [
                reshape(p, (*out.shape, *x.shape)) for p, x in zip(parts, leaves)]))
        jacobian_tree = tree.unflatten(result_structure, jacobians)
        return (jacobian_tree, *aux) if has_aux else jacobian_tree

    return jacobian


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
           ) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f`, by forward mode.

    Shapes are those of `jacrev`. The cost is one pass per element of the arguments.

    Args:
        f: takes and returns tensors, or trees of tensors.
        argnums: see `grad`. Default 0.
        has_aux: `f` returns (result, aux), and the function (Jacobian, aux). Default False.

    Raises:
        DTypeError: an argument without gradient.
        GradientError: argnums names no positional argument.

    Example:
        >>> import fusewire as fw
        >>> fw.func.jacfwd(lambda x: fw.stack([x.sum(), x.prod()]))(fw.tensor([2.0, 3.0]))
        tensor([[1., 1.],
                [3., 2.]])
    """

    @functools.wraps(f, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        leaves, structure, substitute = select_arguments("jacfwd", args, argnums)

        def inner(*xs: Tensor) -> Any:
            return f(*substitute(xs), **kwargs)

        aux: list[Any] = []  # the same for all directions

        def column(*steps: Tensor) -> Any:
            _, slope, *aux[:] = jvp(inner, tuple(leaves), steps, has_aux)
            return slope

        slopes = vmap(column)(*_basis(leaves))
        outs, result_structure = tree.flatten(slopes)
        jacobians = []
        for out in outs:
            parts = [_part(out, leaves, n) for n in range(len(leaves))]
            columns = [_columns(p, x) for p, x in zip(parts, leaves)]
            jacobians.append(tree.unflatten(structure, columns))
        jacobian_tree = tree.unflatten(result_structure, jacobians)
        return (jacobian_tree, *aux) if has_aux else jacobian_tree

    return jacobian


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `f`, by forward over reverse mode.

    An argument of shape (k,) gives (k, k) after the shape of the result.

    Args:
        f: takes and returns tensors, or trees of tensors.
        argnums: see `grad`. Default 0.

    Raises:
        DTypeError: an argument without gradient.
        GradientError: argnums names no positional argument.

    Example:
        >>> import fusewire as fw
        >>> fw.func.hessian(lambda x: x.prod())(fw.tensor([2.0, 3.0]))
        tensor([[0., 1.],
                [1., 0.]])
    """
    return jacfwd(jacrev(f, argnums), argnums)


def _basis(xs: Sequence[Tensor]) -> list[Tensor]:
    """A batch for each of `xs`: example i is 1 at element i of all elements of `xs`, else 0."""
    ends = list(accumulate(product(x.shape) for x in xs))
    batches = []
    for x, end in zip(xs, ends):
        shape = (ends[-1], product(x.shape))
        hit = equal(iota(shape, 0, device=x.device),
                    iota(shape, 1, device=x.device) + (end - shape[1]))
        batches.append(reshape(cast(hit, x.dtype), (ends[-1], *x.shape)))
    return batches


def _part(x: Tensor, of: Sequence[Tensor], n: int) -> Tensor:
    """The examples of `_basis(of)` that belong to tensor `n`."""
    sizes = [product(t.shape) for t in of]
    start = (sum(sizes[:n]), *(0,) * (x.ndim - 1))
    return slice_axes(x, start, (1,) * x.ndim, (sizes[n], *x.shape[1:]))


def _columns(x: Tensor, leaf: Tensor) -> Tensor:
    """`x`, of shape (elements of `leaf`, *out), as (*out, *shape of `leaf`)."""
    moved = permute_dims(x, (*range(1, x.ndim), 0))
    return reshape(moved, (*moved.shape[:-1], *leaf.shape))
