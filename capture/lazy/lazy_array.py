"""Defines lazy arrays, which stand for the results of ops until their subgraph has run.

A `LazyOp` is a deferred op. A `LazyArray` is its result as tensors and the tape hold it: shape and
dtype are known, and any further use computes it. Only tensors and the tape hold a `LazyArray`, so
the result of an op whose `LazyArray` is gone is dead.
"""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.shapes import product
from ...eager.core.lazy import AbstractLazyArray
from .op_signature import OpSignature


class LazyOp:
    """A deferred op; its inputs are arrays, numbers, or earlier deferred ops."""

    __slots__ = ("array_reference", "inputs", "signature", "site", "value")

    def __init__(self, result: OpSignature, inputs: tuple[Any, ...], site: str) -> None:
        self.signature, self.inputs, self.site = result, inputs, site
        self.array_reference: Callable[[], LazyArray | None] = _no_array
        self.value: Any = None  # the array, after it was computed


def _no_array() -> None:
    return None


class LazyOwner(Protocol):
    """The interpreter that defers ops and computes them."""

    def compute_for(self, step: LazyOp, how: str, name: str) -> None:
        """Computes `step`, since Python reads its value, that of the tensor `name`, by `how`."""

    def add_tensor(self, tensor: Any) -> None:
        """Notes a tensor that holds a lazy array."""


class LazyArray(AbstractLazyArray):
    """The future result of a deferred op. Any use of its elements computes it."""

    __slots__ = ("__weakref__", "_owner", "dtype", "shape", "step")

    def __init__(self, step: LazyOp, owner: LazyOwner) -> None:
        self.step, self._owner = step, owner
        self.shape, self.dtype = step.signature.type.shape, step.signature.type.dtype
        step.array_reference = weakref.ref(self)

    def belongs_to(self, owner: LazyOwner) -> bool:
        """True if `owner` computes it, and not the interpreter of a call that has ended early."""
        return self._owner is owner

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return product(self.shape)  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def array(self, how: str = "an array operation", name: str = "") -> Any:
        if self.step.value is None:
            self._owner.compute_for(self.step, how, name)
        return self.step.value

    def held_by(self, tensor: Any) -> Any:
        if self.step.value is not None:
            return self.step.value
        self._owner.add_tensor(tensor)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.array(), dtype=dtype, copy=copy)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_"):  # NumPy takes `__array__`, which keeps the array alive
            raise AttributeError(name)
        return getattr(self.array(), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.array().__reduce_ex__(protocol)

    def __copy__(self) -> Any:
        return copy.copy(self.array())

    __hash__ = object.__hash__


def value_if_computed(value: Any) -> Any:
    """The array of a computed `LazyArray`; any other value unchanged."""
    if type(value) is LazyArray and value.step.value is not None:
        return value.step.value
    return value


def _forward(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: LazyArray, *others: Any) -> Any:
        return function(self.array(), *others)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self, other: function(other, self.array())


_BINARY_OPERATORS = ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift").split()
_OTHER_OPERATORS = "neg pos abs invert eq ne lt le gt ge getitem setitem contains index".split()

for _name in (*_BINARY_OPERATORS, *_OTHER_OPERATORS):
    setattr(LazyArray, f"__{_name}__", _forward(f"__{_name}__"))
for _name in _BINARY_OPERATORS:
    setattr(LazyArray, f"__r{_name}__", _reflected(f"__{_name}__"))
for _type in (bool, int, float, complex, str, repr, len, iter):
    setattr(LazyArray, f"__{_type.__name__}__",
            lambda self, convert=_type: convert(self.array()))
