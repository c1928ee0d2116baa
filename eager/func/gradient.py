"""Implements grad, value_and_grad and vjp by the tape, as functions of functions.

The function runs on fresh tensors, so that only its own ops count. If the function also uses
tensors on an outer tape, the gradients are on that tape and can be differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..arguments import whole
from ..arrays.dtypes import is_float, kind
from ..autograd.engine import gradients_between, leads_outside
from ..core.tape import Leaf, enable_grad, is_grad_enabled
from ..core.tensor import Tensor
from ..errors import DTypeError, GradientError, ShapeError
from ..ops.create import zeros_like
from ..ops.elementwise.pointwise import alias
from . import tree
from .transform import edges_of, tracked, untaped

__all__ = ["grad", "value_and_grad", "vjp"]

Argnums = Any  # an int or a tuple of them


class Tape:
    """Runs a function on fresh tensors instead of `leaves`."""

    def __init__(self, name: str, leaves: Sequence[Tensor]) -> None:
        self.name, self.leaves = name, leaves
        outer = self._outer = is_grad_enabled()
        with enable_grad():
            self.fresh = [_fresh(x, outer) for x in leaves]
        self.edges = [x.edge for x in self.fresh]
        self._from = {x.edge for x, old in zip(self.fresh, leaves) if outer and tracked(old)}
        self.reaches_out = False

    def run(self, f: Callable[[], Any]) -> tuple[list[Any], Any]:
        """The leaves and the structure of the result of `f`."""
        with enable_grad():
            result = f()
        leaves, structure = tree.flatten(result)
        self.reaches_out = self._outer and leads_outside(
            list(edges_of(*leaves)), set(self.edges), self._from)
        return leaves, structure

    def shown(self, x: Any) -> Any:
        """A result as the caller sees it: off the tape, unless the tape leads outside."""
        return x if self.reaches_out or not isinstance(x, Tensor) else untaped(x)

    def back(self, outputs: Sequence[Tensor], gradients: Sequence[Any]) -> list[Tensor]:
        """The gradients at the fresh tensors; zeros at those that the outputs do not depend on."""
        keep = is_grad_enabled() and (self.reaches_out or tracked(*gradients))
        at_edges = gradients_between(outputs, gradients, self.edges, keep)
        return [zeros_like(x) if g is None else g for x, g in zip(self.leaves, at_edges)]


def _fresh(x: Tensor, outer: bool) -> Tensor:
    """The value of `x` in a new tensor, computed from `x` or from a new leaf."""
    start = Tensor(x._data, x.edge if outer else None)
    if start.edge is None:
        start.edge = Leaf(start)
    return alias(start)  # the function may change it in place, which a leaf does not allow


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `f`.

    Args:
        f: returns one real number, as a 0-d tensor.
        argnums: number of the positional argument to differentiate by, or a tuple of them for a
            tuple of gradients. Default 0. An argument may be a tree of tensors; its gradient has
            its form.
        has_aux: `f` returns (number, aux), and the function (gradient, aux). Default False.

    Raises:
        DTypeError: a result or an argument without gradient (an integer, no tensor).
        ShapeError: a result with axes.
        GradientError: argnums names no positional argument.

    Example:
        >>> import fusewire as fw
        >>> slope = fw.func.grad(fw.sin)
        >>> slope(fw.tensor(0.0)), fw.func.grad(slope)(fw.tensor(0.0))
        (tensor(1.), tensor(-0.))
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns (result of `f`, gradient).

    Args:
        f: see `grad`.
        argnums: see `grad`. Default 0.
        has_aux: `f` returns (number, aux), and the function ((number, aux), gradient). Default
            False.

    Raises:
        DTypeError, ShapeError, GradientError: see `grad`.

    Example:
        >>> import fusewire as fw
        >>> fw.func.value_and_grad(lambda x: (x * x).sum())(fw.tensor([1.0, 2.0]))
        (tensor(5.), tensor([2., 4.]))
    """

    @functools.wraps(f, updated=())
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        leaves, structure, substitute = select_arguments("grad", args, argnums)
        tape = Tape("grad", leaves)
        outputs, result_structure = tape.run(lambda: f(*substitute(tape.fresh), **kwargs))
        result = tree.unflatten(result_structure, outputs)
        _check_number(tree.with_aux("grad", result, has_aux)[0])
        shown = tree.unflatten(result_structure, [tape.shown(x) for x in outputs])
        return shown, tree.unflatten(structure, tape.back(outputs[:1], [None]))

    return value_and_gradient


def _check_number(x: Any) -> None:
    if not isinstance(x, Tensor):
        raise DTypeError(f"grad: the function returned {type(x).__name__}, not a tensor",
                         "it returns one number, as a 0-d tensor; pass has_aux=True for more")
    if x.ndim:
        raise ShapeError(f"grad: the function returned a tensor of shape {x.shape}, which has no "
                         "single gradient", "return one number, such as loss.mean(), or use jacrev")
    if kind(x.dtype) != "f":
        raise DTypeError(f"grad: the function returned {x.dtype.name}, which has no gradient",
                         "return a real floating point number; for complex ones use vjp")


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """f(*primals), and the function that maps gradients of the result to gradients of the primals.

    That function takes gradients in the structure of the result, and returns a tuple with one entry
    per primal. It can be called several times.

    Args:
        f: takes and returns tensors, or trees of tensors.
        primals: arguments, in a floating point dtype.
        has_aux: `f` returns (result, aux); aux becomes a third element. Default False.

    Raises:
        DTypeError: a primal, a result or a gradient is not a tensor, or a primal is not floating
            point.
        ShapeError: gradients of another structure than the result.

    Example:
        >>> import fusewire as fw
        >>> out, back = fw.func.vjp(lambda x: x * x, fw.tensor([1.0, 2.0]))
        >>> out, back(fw.tensor([1.0, 10.0]))
        (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    leaves, structure, substitute = select_arguments("vjp", primals, tuple(range(len(primals))))
    tape = Tape("vjp", leaves)
    results, result_structure = tape.run(lambda: f(*substitute(tape.fresh)))
    result, aux = tree.with_aux("vjp", tree.unflatten(result_structure, results), has_aux)
    outs, out_form = tree.flatten(result)
    roots = [Tensor(x._data, x.edge) for x in tree.tensors("vjp", outs, out_form, "the result")]

    def back(cotangents: Any) -> Any:
        seeds, seed_structure = tree.flatten(cotangents)
        if seed_structure != out_form:
            raise ShapeError(
                f"vjp: the function returned {out_form}, its gradient is {seed_structure}",
                "give one gradient for each result, in the same structure")
        seeds = tree.tensors("vjp", seeds, out_form, "the gradient")
        return tree.unflatten(structure, tape.back(roots, seeds))

    shown = tree.unflatten(out_form, [tape.shown(x) for x in outs])
    return (shown, back, tree.tree_map(tape.shown, aux)) if has_aux else (shown, back)


def select_arguments(name: str, args: tuple[Any, ...], argnums: Argnums
                     ) -> tuple[list[Tensor], Any, Callable[[Sequence[Any]], list[Any]]]:
    """The leaves of the arguments in `argnums`, their structure, and substitute(leaves).

    The structure is that of one argument, or of a tuple of them. substitute(leaves) is the list of
    all arguments with other leaves.
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    at = [_position(name, n, len(args)) for n in numbers]
    picked = tuple(args[n] for n in at)
    leaves, structure = tree.flatten(picked if isinstance(argnums, tuple) else picked[0])
    all_of = structure if isinstance(argnums, tuple) else tree.flatten(picked)[1]
    labels = [f"{n}{path}" for n, sub in zip(at, all_of.items) for path in tree.leaf_paths(sub)]
    for x, label in zip(leaves, labels):
        if not isinstance(x, Tensor):
            raise DTypeError(f"{name}: argument {label} is {type(x).__name__}, not a tensor",
                             "only tensors have gradients: fw.tensor(x), or choose other argnums")
        if not is_float(x.dtype):
            raise DTypeError(f"{name}: argument {label} is {x.dtype.name}, which has no gradient",
                             "cast it: x.astype(fw.float32), or choose other argnums")

    def substitute(others: Sequence[Any]) -> list[Any]:
        full = list(args)
        for n, arg in zip(at, tree.unflatten(all_of, others)):
            full[n] = arg
        return full

    return leaves, structure, substitute


def _position(name: str, argnum: Any, count: int) -> int:
    number = whole(argnum)
    if number is None or not -count <= number < count:
        raise GradientError(f"{name}: argnums {argnum!r} of a function called with {count} "
                            "positional arguments", "it is the number of one of them, from 0 on, "
                            "or a tuple of such numbers")
    return int(number % count)
