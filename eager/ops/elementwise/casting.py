"""Autocast beneath the front door: which dtype an op or a function runs in, while one is in force.

An op says by its `precision` what it wants, a function of several ops by one of the two decorators
here. What says nothing runs in the dtype that its operands combine to. Casts are ops, so gradients
come back in the dtype of what was cast, and a recording holds them. The choice of what is low and
full is PyTorch's for the CPU: products in the low dtype; losses, `prod` and the decompositions of
linear algebra in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ... import interpreter
from ...arrays.dtypes import bfloat16, float16, float32
from ...core.dispatch import apply
from ...core.op import Op
from ...core.tensor import Tensor
from .pointwise import cast

F = TypeVar("F", bound=Callable[..., Any])
CAST = (float32, float16, bfloat16)  # float64, complex numbers and integers stay what they are


class Casting:
    """An autocast in force. Beneath each of its ops there is none: they are cast once."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._dtypes = {"low": dtype, "full": float32}

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """The result of `op`, its inputs cast as its precision says."""
        state = interpreter.STATE
        state._casting = None  # not `casting`: the thread goes on to be one with an autocast
        try:
            if op.precision:
                inputs = _cast(inputs, self._dtypes[op.precision])
            return apply(op, inputs, params)
        finally:
            state._casting = self

    def call(self, function: Any, precision: str, args: Any, kwargs: Any) -> Any:
        """What `function` returns, its tensors cast as its precision says."""
        interpreter.STATE._casting = None
        try:
            args, values = _cast((args, tuple(kwargs.values())), self._dtypes[precision])
            return function(*args, **dict(zip(kwargs, values)))
        finally:
            interpreter.STATE._casting = self


def _cast(x: Any, dtype: Any) -> Any:
    """A tensor in `dtype`, and tuples with their tensors in it; all else as it is."""
    if isinstance(x, Tensor):
        return cast(x, dtype) if x._data.dtype in CAST else x
    if not isinstance(x, tuple):
        return x
    values = [_cast(value, dtype) for value in x]
    return x._make(values) if hasattr(x, "_make") else tuple(values)


@functools.cache
def casting_to(dtype: Any) -> Casting:
    """The one Casting to `dtype`: recordings tell by identity which one they were made under."""
    return Casting(dtype)


def _decorator(precision: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def cast_first(*args: Any, **kwargs: Any) -> Any:
            if interpreter.in_use:
                casting = interpreter.STATE._casting
                if casting is not None:
                    return casting.call(function, precision, args, kwargs)
            return function(*args, **kwargs)

        return cast_first  # type: ignore[return-value]

    return decorate


lowered = _decorator("low")  # for a function that is all in the low dtype under autocast
in_float32 = _decorator("full")  # for one that is all in float32
