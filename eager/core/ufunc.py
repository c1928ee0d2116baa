"""Finds the one function that an op's implementation calls, so that small ops call it directly."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from ..arrays import cpu_kernels
from .op import Op

_OPERATORS = ("add sub mul truediv floordiv mod pow neg and or xor invert lshift rshift "
              "eq ne lt le gt ge").split()


class _Call(NamedTuple):
    """The answer of a stand-in: the function that would have run, and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


class _Kernels:
    """Stands for the kernels."""

    def __getattr__(self, name: str) -> Any:
        return _calling(getattr(cpu_kernels, name))


class _ArrayStandIn:
    """Stands for an array."""


def _calling(function: Callable[..., Any]) -> Callable[..., _Call]:
    return lambda *args: _Call(function, args)


for _name in _OPERATORS:
    setattr(_ArrayStandIn, f"__{_name}__", _calling(getattr(operator, f"__{_name}__")))


def implementation(op: Op, count: int) -> Callable[..., Any]:
    """`op.impl` of `count` arrays, without the kernels as its first argument.

    If it calls one function of Python or NumPy and does no more, that function: each Python
    function in between would take a tenth of a small op's time.
    """
    operands = tuple([_ArrayStandIn() for _ in range(count)])
    try:
        call = op.impl(_Kernels(), *operands)
    except Exception:  # it does more with its operands than stand-ins support
        call = None
    if isinstance(call, _Call) and all(map(operator.is_, call.args, operands)) \
            and len(call.args) == count:
        return call.function
    return functools.partial(op.impl, cpu_kernels)
