"""Casts the inputs of ops under autocast, in the dtype that an op's precision asks for.

The `precision` of an op says whether it runs in the low dtype or in float32. A function of several
ops says so by one of the two decorators here. Everything else runs in the dtype to which its
operands promote. Casts are ops: gradients come back in the dtype of the operand, and traces hold
the casts. The choice of low and full precision is PyTorch's for the CPU: products in the low dtype;
losses, `prod` and the decompositions of linear algebra in float32.
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
CAST = (float32, float16, bfloat16)  # autocast leaves float64, complex numbers and integers


class Casting:
    """An active autocast. It is off inside each of its ops, so that inputs are cast once."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._dtypes = {"low": dtype, "full": float32}

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """The result of `op` for inputs cast as its precision says."""
        state = interpreter.STATE
        state._casting = None  # not `casting`, which says that the thread has an autocast
        try:
            if op.precision:
                inputs = _cast(inputs, self._dtypes[op.precision])
            return apply(op, inputs, params)
        finally:
            state._casting = self

    def call(self, function: Any, precision: str, args: Any, kwargs: Any) -> Any:
        """The result of `function` for tensors cast as its precision says."""
        interpreter.STATE._casting = None
        try:
            args, values = _cast((args, tuple(kwargs.values())), self._dtypes[precision])
            return function(*args, **dict(zip(kwargs, values)))
        finally:
            interpreter.STATE._casting = self


def _cast(x: Any, dtype: Any) -> Any:
    """A tensor in `dtype`, or a tuple with its tensors in `dtype`; other values unchanged."""
    if isinstance(x, Tensor):
        return cast(x, dtype) if x._data.dtype in CAST else x
    if not isinstance(x, tuple):
        return x
    values = [_cast(value, dtype) for value in x]
    return x._make(values) if hasattr(x, "_make") else tuple(values)


@functools.cache
def casting_to(dtype: Any) -> Casting:
    """The only Casting to `dtype`: traces compare it by identity."""
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


lowered = _decorator("low")  # for a function that runs in the low dtype under autocast
in_float32 = _decorator("full")  # for a function that runs in float32
