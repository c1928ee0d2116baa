"""Defines the tensors of modules: parameters, buffers, and both without a shape yet."""

from __future__ import annotations

from typing import Any, NoReturn

from ... import interpreter
from ...arrays.devices import placed
from ...arrays.dtypes import DEFAULT_FLOAT, as_dtype
from ...core.tensor import Tensor, tensor
from ...errors import StateError
from ...ops.create import empty

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class Parameter(Tensor):
    """A leaf with the values of `data` that requires a gradient; modules register it."""

    __slots__ = ()
    __module__ = "fusewire.nn"  # pickles name the class by its public path

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        super().__init__(_values(data))
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor with the values of `data` that a module registers as a buffer where it is assigned.

    It is in the state dict where `persistent`.
    """

    __slots__ = ("persistent",)
    __module__ = "fusewire.nn"

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        super().__init__(_values(data))
        self.persistent = persistent


def _values(data: Any) -> Any:
    if data is None:
        return empty(0)._data
    return data._data if isinstance(data, Tensor) else tensor(data)._data


class Unknown:
    """Stands for an array without a shape yet: every access but dtype and device is an error."""

    def __init__(self, dtype: Any, device: Any = None) -> None:
        self.dtype, self.device = dtype, placed(device)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise StateError(f"{name}: this parameter or buffer has no shape yet",
                         "it gets one from the first input: call the lazy module once, on a small "
                         "batch, before its parameters are used")


class _Uninitialized(Tensor):
    """Base of tensors without a shape."""

    __slots__ = ()
    cls_to_become: type[Tensor] = Tensor

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives this tensor a shape and zeros as values; it becomes an ordinary tensor.

        Args:
            shape: the sizes.
            device: None is the device of this tensor.
            dtype: None is the dtype of this tensor.
        """
        if interpreter.STATE.active is not None:  # a run that sets shapes must not be replayed
            interpreter.STATE.active.leaves(self, "materialize()")
        array = empty(tuple(shape), dtype=self._data.dtype if dtype is None else as_dtype(dtype),
                     device=self._data.device if device is None else device)
        self._data = array._data
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def device(self) -> str:
        """The name of the device of its future elements."""
        return self._data.device  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self._data.device, self._data.dtype)


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known before `materialize(shape)`."""

    __slots__ = ()
    __module__ = "fusewire.nn"
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        Tensor.__init__(self, Unknown(DEFAULT_FLOAT if dtype is None else as_dtype(dtype), device))
        self.requires_grad_(requires_grad)


class UninitializedBuffer(_Uninitialized):
    """A buffer whose shape is not known before `materialize(shape)`."""

    __slots__ = ()
    __module__ = "fusewire.nn"

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                 persistent: bool = True) -> None:
        super().__init__(Unknown(DEFAULT_FLOAT if dtype is None else as_dtype(dtype), device))


def is_lazy(x: Any) -> bool:
    """True if `x` is a parameter or a buffer without a shape, as lazy modules have."""
    return isinstance(x, _Uninitialized)
