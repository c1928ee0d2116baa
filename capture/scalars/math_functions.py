"""Functions of Python's `math` that keep symbolic numbers symbolic.

The functions of `math` read the plain value of their arguments. During a trace, code that calls
them gets the functions of this file. A replay computes them by `math` itself.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from .scalar_expr import MATH_FUNCTIONS
from .symbolic_scalar import apply_operator


def _symbolic(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*numbers: Any) -> Any:
        return apply_operator(name, function, numbers)

    call.__name__ = call.__qualname__ = function.__name__
    return call


# By function of `math`: the function that also takes symbolic numbers.
SYMBOLIC_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    function: _symbolic(name, function) for name, function in MATH_FUNCTIONS.items()}

# `math` with these functions.
SYMBOLIC_MATH = types.ModuleType("math", math.__doc__)
vars(SYMBOLIC_MATH).update({
    name: SYMBOLIC_FUNCTIONS.get(value, value) if callable(value) else value
    for name, value in vars(math).items()})
