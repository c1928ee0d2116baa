"""Compares gradients with finite differences, for functions of the user."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.dtypes import float64, kind
from ..core.tape import enable_grad, no_grad
from ..core.tensor import Tensor
from ..errors import GradientError
from ..ops.elementwise import pointwise
from .engine import grad

__all__ = ["gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
) -> bool:
    """True if the gradients of `func(*inputs)` agree with finite differences.

    Args:
        func: returns a tensor or several.
        inputs: a tensor or a tuple; those that require a gradient should be float64 or complex128.
        eps: step of the differences. Default 1e-6.
        atol: absolute tolerance. Default 1e-5.
        rtol: relative tolerance. Default 1e-3.
        raise_exception: False returns False in the place of an error. Default True.
        nondet_tol: tolerance between two runs of `func`. Default 0.

    Raises:
        GradientError: gradients differ from finite differences, from a second run or in type from
            their input; or no input requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([1.0, 2.0], dtype=fw.float64, requires_grad=True)
        >>> fw.autograd.gradcheck(lambda x: x ** 3, x)
        True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, arguments, eps, atol, rtol, nondet_tol)
    except GradientError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
) -> bool:
    """True if the second gradients of `func(*inputs)` agree with finite differences.

    Args:
        func, inputs: see `gradcheck`.
        grad_outputs: gradients of the results. Default None: random numbers.
        eps, atol, rtol, raise_exception, nondet_tol: see `gradcheck`.

    Raises:
        GradientError: see `gradcheck`.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([1.0, 2.0], dtype=fw.float64, requires_grad=True)
        >>> fw.autograd.gradgradcheck(lambda x: x ** 3, x)
        True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outs = _outputs(func, arguments)
    seeds = [_seed(x, i) for i, x in enumerate(outs)] if grad_outputs is None else \
        [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    seeds = [pointwise.alias(s.detach()).requires_grad_() for s in seeds]
    n, varying = len(arguments), [i for i, x in enumerate(arguments) if _varies(x)]

    def gradients(*arguments_and_seeds: Any) -> tuple[Any, ...]:
        with enable_grad():
            outputs = _outputs(func, arguments_and_seeds[:n])
            return grad(outputs, [arguments_and_seeds[i] for i in varying],
                        list(arguments_and_seeds[n:]), create_graph=True, materialize_grads=True)

    return gradcheck(gradients, (*arguments, *seeds), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol)


def _seed(x: Tensor, i: int) -> Tensor:
    rng = np.random.default_rng(i)
    drawn = rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, x.shape)
    return Tensor(np.asarray(drawn).astype(x.dtype))


def _varies(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _outputs(func: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Tensor]:
    """The results that are floating point tensors."""
    result = func(*inputs)
    results = [result] if isinstance(result, Tensor) else list(result)
    return [x for x in results if isinstance(x, Tensor) and kind(x.dtype) in "fc"]


def _check(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float,
    nondet_tol: float,
) -> None:
    varying = [i for i, x in enumerate(inputs) if _varies(x)]
    if not varying:
        raise GradientError("gradcheck: no input requires a gradient",
                            "make them with requires_grad=True")
    for i in varying:
        if inputs[i].dtype not in (float64, np.dtype("complex128")):
            warnings.warn(f"gradcheck: input {i} is {inputs[i].dtype.name}; finite differences are "
                          "precise enough only in float64 and complex128: x.astype(fw.float64)",
                          stacklevel=4)
    with enable_grad():
        outs = _outputs(func, inputs)
        analytical = _analytical(outs, [inputs[i] for i in varying])
        again = _analytical(_outputs(func, inputs), [inputs[i] for i in varying])
    for i, first, second in zip(varying, analytical, again):
        if np.abs(first - second).max(initial=0.0) > nondet_tol:
            raise GradientError(f"gradcheck: two calls give different gradients for input {i}",
                                "seed the random numbers inside of the function, or set nondet_tol")
    for i, jacobian in zip(varying, analytical):
        expected = _numerical(func, inputs, i, eps)
        if not np.allclose(jacobian, expected, rtol=rtol, atol=atol, equal_nan=True):
            raise _differs(i, jacobian, expected, outs, inputs[i], atol + rtol * np.abs(expected))


def _reals(array: Any) -> Any:
    """The elements as real numbers in one row, two for a complex element."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _analytical(outs: list[Tensor], inputs: list[Tensor]) -> list[Any]:
    """A Jacobian for each input, by one backward for each real number of the results."""
    rows: list[list[Any]] = [[] for _ in inputs]
    for out in outs:
        n = len(_reals(out._data))
        for k in range(n):
            if out.edge is None:
                for row, x in zip(rows, inputs):
                    row.append(np.zeros(len(_reals(x._data))))
                continue
            unit = np.zeros(n, _reals(out._data).dtype)
            unit[k] = 1
            seed = Tensor(unit.view(out.dtype).reshape(out.shape))
            gradients = grad(out, inputs, seed, retain_graph=True, materialize_grads=True)
            for i, (row, g) in enumerate(zip(rows, gradients)):
                row.append(_reals(_of_type(g, inputs[i], i)._data))
    return [np.array(row).reshape(len(row), len(_reals(x._data))) for row, x in zip(rows, inputs)]


def _of_type(g: Any, x: Tensor, i: int) -> Tensor:
    if g.shape != x.shape or g.dtype != x.dtype:
        raise GradientError(f"gradcheck: the gradient of input {i} is {g.dtype.name} of shape "
                            f"{g.shape}, the input {x.dtype.name} of shape {x.shape}",
                            "backward must return gradients of the type of the inputs")
    return g


def _numerical(func: Callable[..., Any], inputs: tuple[Any, ...], i: int, eps: float) -> Any:
    """The Jacobian for input `i`, by central differences."""
    start = inputs[i]._data
    columns = []
    for k in range(len(_reals(start))):
        sides = []
        for step in (eps, -eps):
            moved = _reals(start.copy()).copy()
            moved[k] += step
            at = Tensor(moved.view(start.dtype).reshape(start.shape))
            with no_grad():
                outs = _outputs(func, (*inputs[:i], at.requires_grad_(), *inputs[i + 1:]))
            sides.append(np.concatenate([_reals(x._data) for x in outs] or [np.zeros(0)]))
        columns.append((sides[0] - sides[1]) / (2 * eps))
    rows = len(columns[0]) if columns else sum(len(_reals(x._data)) for x in _outputs(func, inputs))
    return np.array(columns).reshape(len(columns), rows).T


def _differs(i: int, jacobian: Any, expected: Any, outs: list[Tensor], x: Tensor, allowed: Any
             ) -> GradientError:
    off = np.abs(jacobian - expected)
    wrong = ~(off <= allowed)
    row, column = (int(n) for n in np.unravel_index(int(np.argmax(np.where(wrong, off, -1))),
                                                    off.shape))
    number, inside = 0, row
    while inside >= len(_reals(outs[number]._data)):
        inside -= len(_reals(outs[number]._data))
        number += 1
    return GradientError(
        f"gradcheck: the Jacobian of output {number} for input {i} is wrong in "
        f"{int(wrong.sum())} of {wrong.size} entries, most for element "
        f"{_element_name(outs[number], inside)} by element {_element_name(x, column)}: analytical "
        f"{jacobian[row, column]:.6g}, numerical {expected[row, column]:.6g}\n"
        f"analytical:\n{_shown(jacobian)}\nnumerical:\n{_shown(expected)}",
        "where the function is not smooth (a kink, a jump) numerical gradients mean nothing; "
        "otherwise its backward is wrong")


def _shown(jacobian: Any) -> str:
    return np.array2string(jacobian, precision=6, threshold=100, edgeitems=3)


def _element_name(x: Tensor, k: int) -> str:
    parts = 2 if x.dtype.kind == "c" else 1
    index = tuple(int(n) for n in np.unravel_index(k // parts, x.shape)) if x.shape else ()
    return f"{index}{('.real', '.imag')[k % 2] if parts == 2 else ''}"
