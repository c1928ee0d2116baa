"""Values to come: what stands in the place of an array until the piece that it belongs to has run.

A `Step` is an op that was put off. A `Pending` is its result as tensors and the tape hold it: shape
and dtype are known, and whoever asks for more has it computed. Nobody but tensors and the tape
holds a `Pending`, so a step whose `Pending` is gone has a result that nobody will ask for.
"""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.shapes import product
from ...eager.core.lazy import Later
from .op_signature import OpSignature


class LazyOp:
    """An op that was put off: its inputs are arrays, numbers, or steps before it."""

    __slots__ = ("inputs", "pending", "result", "site", "value")

    def __init__(self, result: OpSignature, inputs: tuple[Any, ...], site: str) -> None:
        self.result, self.inputs, self.site = result, inputs, site
        self.pending: Callable[[], LazyArray | None] = _nobody
        self.value: Any = None  # the array, once it is computed


def _nobody() -> None:
    return None


class Owner(Protocol):
    """What puts steps off and computes them."""

    def compute_for(self, step: LazyOp, how: str) -> None:
        """Computes `step`, for Python that asks for its value by `how`."""

    def held(self, tensor: Any) -> None:
        """A tensor was given a value to come."""


class LazyArray(Later):
    """The array that a step will give. Any use of its elements computes it."""

    __slots__ = ("__weakref__", "_owner", "dtype", "shape", "step")

    def __init__(self, step: LazyOp, owner: Owner) -> None:
        self.step, self._owner = step, owner
        self.shape, self.dtype = step.result.type.shape, step.result.type.dtype
        step.pending = weakref.ref(self)

    def belongs_to(self, owner: Owner) -> bool:
        """Whether `owner` computes it, not that of a call which has ended early."""
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

    def array(self, how: str = "an array operation") -> Any:
        if self.step.value is None:
            self._owner.compute_for(self.step, how)
        return self.step.value

    def held_by(self, tensor: Any) -> Any:
        if self.step.value is not None:
            return self.step.value
        self._owner.held(tensor)
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


def computed(value: Any) -> Any:
    """`value`, or the array that it stands for if that is there."""
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


_BINARY = ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift").split()
_OTHERS = "neg pos abs invert eq ne lt le gt ge getitem setitem contains index".split()

for _name in (*_BINARY, *_OTHERS):
    setattr(LazyArray, f"__{_name}__", _forward(f"__{_name}__"))
for _name in _BINARY:
    setattr(LazyArray, f"__r{_name}__", _reflected(f"__{_name}__"))
for _type in (bool, int, float, complex, str, repr, len, iter):
    setattr(LazyArray, f"__{_type.__name__}__",
            lambda self, convert=_type: convert(self.array()))
