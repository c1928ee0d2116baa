"""Transforms of functions, with PyTorch's keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...eager import func as _plain
from .base.exports import exported as _exported
from .base.tensor_class import retag as _retag

globals().update(_exported(_plain))


_PYTORCHS_WORDS = {"in_dims": "in_axes", "out_dims": "out_axes"}


def _transformed(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A transform whose functions get and return tensors of the front end."""
    def applied(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        options = {_PYTORCHS_WORDS.get(name, name): value for name, value in kwargs.items()}
        result = transform(lambda *a, **k: func(*_retag(a), **_retag(k)), *args, **options)
        return (lambda *a, **k: _retag(result(*a, **k))) if callable(result) else _retag(result)

    return applied


def _grad_and_value(function: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient, and then the value of `function`."""
    both = _plain.value_and_grad(function, argnums, has_aux)
    return lambda *args, **kwargs: both(*args, **kwargs)[::-1]


for _name in ("vmap", "grad", "jacfwd", "jacrev", "hessian", "vjp", "jvp"):
    globals()[_name] = _transformed(getattr(_plain, _name))
grad_and_value = _transformed(_grad_and_value)
