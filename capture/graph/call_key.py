"""Gives calls of ops keys: equal for calls that may share a plan or a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...eager.arrays.shapes import TensorType
from .graph import param_key


def type_or_value_key(x: Any) -> tuple[Any, ...]:
    """The key of an input: a type, or the value of a number."""
    return (x.shape, x.dtype) if isinstance(x, TensorType) else param_key(x)


def call_key(op: Any, inputs: Sequence[Any], params: Mapping[str, Any],
             input_key: Callable[[Any], tuple[Any, ...]] = type_or_value_key) -> tuple[Any, ...]:
    """The key of op(*inputs, **params), with the elements of `input_key(x)` for each input."""
    parts: list[Any] = [op]
    for x in inputs:
        parts += input_key(x)
    for name, value in params.items():
        parts += name, param_key(value)
    return tuple(parts)
