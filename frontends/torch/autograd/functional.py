"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....eager import func as _plain
from ..base.tensor_class import retag as _retag


def _on_retagged(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*_retag(args))


def _derivative(transform: Callable[..., Any], function: Callable[..., Any], inputs: Any) -> Any:
    if isinstance(inputs, tuple):
        places = tuple(range(len(inputs)))
        return _retag(transform(_on_retagged(function), argnums=places)(*inputs))
    return _retag(transform(_on_retagged(function))(inputs))


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False,
             strict: bool = False, vectorize: bool = False) -> Any:
    """The Jacobian of `func` at `inputs`, a tensor or a tuple of tensors."""
    return _derivative(_plain.jacrev, func, inputs)


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False,
            strict: bool = False, vectorize: bool = False) -> Any:
    """The Hessian of `func`, whose result is one number, at `inputs`."""
    return _derivative(_plain.hessian, func, inputs)


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> Any:
    """The result of `func` and the product of `v` with its Jacobian."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    out, back = _plain.vjp(_on_retagged(func), *args)
    gradients = back(out * 0 + 1 if v is None else v)
    return _retag((out, gradients if isinstance(inputs, tuple) else gradients[0]))


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> Any:
    """The result of `func` and the product of its Jacobian with `v`."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    tangents = v if isinstance(v, tuple) else (v,)
    return _retag(_plain.jvp(_on_retagged(func), args, tangents))
