"""Defines the values that replace a tensor's array while a transform (`vmap`, `jvp`) runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import GradientError

_OPERATORS = ("neg pos abs invert add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv "
              "mod rmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift "
              "rrshift eq ne lt le gt ge bool int float index complex array array_ufunc").split()


class TransformValue:
    """A value of a transform: its type and the tensors that it consists of.

    `Tensor(data)` holds it like an array, so that the tape and all code that passes data on work.
    Methods of arrays raise: they are called only for a tensor that outlives the transform.
    """

    __slots__ = ()
    transform = ""  # its name, for errors

    @property
    def shape(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        raise NotImplementedError

    def seen(self, tensor: Any) -> tuple[Any, ...]:
        """The shape that user code sees; sizes may be symbolic."""
        raise NotImplementedError

    def device_name(self) -> str:
        """The name of the device of its parts."""
        return self.parts()[0].device  # type: ignore[no-any-return]

    def values(self, how: str, key: Any = None) -> np.ndarray[Any, Any]:
        """The value as an array, for Python code that reads it by `how`.

        key: if only a function of its one number matters, that function (`bool` for `if x:`).
        """
        raise NotImplementedError

    def custom(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """The result of `forward` of a `Function` for `args`; this is the value of one of them."""
        raise NotImplementedError

    def text(self) -> str:
        """The text of `repr`."""
        raise NotImplementedError

    def detached(self) -> TransformValue:
        """This value without derivatives."""
        raise NotImplementedError

    def untaped(self) -> TransformValue:
        """This value, detached from the tapes."""
        raise NotImplementedError

    def parts(self) -> tuple[Any, ...]:
        """The tensors that it consists of."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.outlived()

    def outlived(self, *_: Any) -> GradientError:
        """The error for a use after the transform has ended."""
        return GradientError(
            f"a tensor that was computed inside of {self.transform} is used outside of it",
            "return it from the function; the function cannot change state, such as the running "
            "mean of a batch norm in training mode")

    __hash__ = object.__hash__


def _raising(self: TransformValue, *_: Any, **__: Any) -> Any:
    raise self.outlived()


for _name in _OPERATORS:
    setattr(TransformValue, f"__{_name}__", _raising)
