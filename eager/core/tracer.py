"""What stands in the place of a tensor's array while a transform (`vmap`, `jvp`) runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import GradientError

_OPERATORS = ("neg pos abs invert add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv "
              "mod rmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift "
              "rrshift eq ne lt le gt ge bool int float index complex array array_ufunc").split()


class Traced:
    """A value of a transform: what its type is, and what it is made of.

    `Tensor(data)` holds it like an array, so the tape and everything that moves data on works with
    it. No array's method does: whoever tries one has kept the tensor for longer than the transform.
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
        """The shape to show to user code: sizes may be symbolic."""
        raise NotImplementedError

    def place(self) -> str:
        """The name of the device of what it is made of."""
        return self.parts()[0].device  # type: ignore[no-any-return]

    def values(self, how: str, key: Any = None) -> np.ndarray[Any, Any]:
        """The value as an array, for Python code that asks for it by `how`.

        key: what of its one number is looked at (`bool` for `if x:`), by default all of it.
        """
        raise NotImplementedError

    def custom(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """What `forward` of a `Function` gives for `args`, of which this is the value of one."""
        raise NotImplementedError

    def text(self) -> str:
        """For `repr`."""
        raise NotImplementedError

    def detached(self) -> Traced:
        """The same value without any derivative."""
        raise NotImplementedError

    def untaped(self) -> Traced:
        """The same value, cut off from the tapes."""
        raise NotImplementedError

    def parts(self) -> tuple[Any, ...]:
        """The tensors that it is made of."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.outlived()

    def outlived(self, *_: Any) -> GradientError:
        """The error for a use outside of the transform."""
        return GradientError(
            f"a tensor that was computed inside of {self.transform} is used outside of it",
            "return it from the function; state that the function keeps, such as the running mean "
            "of a batch norm in training mode, cannot be changed inside")

    __hash__ = object.__hash__


def _raising(self: Traced, *_: Any, **__: Any) -> Any:
    raise self.outlived()


for _name in _OPERATORS:
    setattr(Traced, f"__{_name}__", _raising)
