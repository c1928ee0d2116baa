"""Transforms of functions, with PyTorch's keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...eager import func as _plain
from .base.exports import exported as _exported
from .base.tensor_class import retag as _retag

globals().update(_exported(_plain))


def _transformed(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A transform whose functions get and return tensors of the front end."""
    def applied(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = transform(lambda *a, **k: function(*_retag(a), **_retag(k)), *args, **kwargs)
        return (lambda *a, **k: _retag(result(*a, **k))) if callable(result) else _retag(result)

    return applied


for _name in ("vmap", "grad", "grad_and_value", "jacfwd", "jacrev", "hessian", "vjp", "jvp"):
    if hasattr(_plain, _name):
        globals()[_name] = _transformed(getattr(_plain, _name))
