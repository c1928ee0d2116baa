"""Defines the tensors of modules: parameters, buffers, and both without a shape yet."""

from __future__ import annotations

from typing import Any, NoReturn

from ... import interpreter
from ...arrays.devices import resolve_device
from ...arrays.dtypes import DEFAULT_FLOAT, as_dtype, kind
from ...core.tensor import Tensor, tensor
from ...errors import DTypeError, StateError
from ...ops.create import empty

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class Parameter(Tensor):
    """A leaf tensor of the values of `data`, which modules register when it is assigned.

    Args:
        data: a tensor, an array or numbers. Default None: a tensor of shape (0,).
        requires_grad: the parameter gets a gradient. Default True.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> p.requires_grad, p.is_leaf
        (True, True)
        >>> p
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()
    __module__ = "fusewire.nn"  # pickles name the class by its public path

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        super().__init__(_values(data))
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor of the values of `data`, which modules register as a buffer when it is assigned.

    Buffers are state that is not trained.

    Args:
        data: a tensor, an array or numbers. Default None: a tensor of shape (0,).
        persistent: the buffer is part of the state dict. Default True.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Module()
        >>> model.mean = fw.nn.Buffer(fw.zeros(2))
        >>> model.state_dict()["mean"], model.mean.requires_grad
        (tensor([0., 0.]), False)
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
        self.dtype, self.device = dtype, resolve_device(device)

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
            device: Default None: the device of this tensor.
            dtype: Default None: the dtype of this tensor.
        """
        if interpreter.STATE.active is not None:  # a run that sets shapes must not be replayed
            interpreter.STATE.active.reads_values(self, "materialize()")
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
    """A parameter without a shape until `materialize(shape)` makes it a Parameter.

    Lazy modules have them before their first call.

    Args:
        requires_grad: the tensor gets a gradient. Default True.
        device: its device. Default None: the default device.
        dtype: its dtype. Default None: float32.

    Raises:
        StateError: its values or its shape are read before.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> type(p).__name__, p.shape
        ('Parameter', (2, 3))
    """

    __slots__ = ()
    __module__ = "fusewire.nn"
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        chosen = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        if requires_grad and kind(chosen) not in "fc":
            raise DTypeError(f"UninitializedParameter: a tensor of {chosen.name} cannot require a "
                             "gradient", "pass requires_grad=False, or a floating point dtype")
        Tensor.__init__(self, Unknown(chosen, device))
        self.requires_grad_(requires_grad)


class UninitializedBuffer(_Uninitialized):
    """A buffer without a shape until `materialize(shape)` makes it a Tensor.

    Lazy modules have them before their first call.

    Args:
        requires_grad: accepted, without effect. Default False.
        device: its device. Default None: the default device.
        dtype: its dtype. Default None: float32.
        persistent: accepted, without effect: register_buffer decides. Default True.

    Raises:
        StateError: its values or its shape are read before.

    Example:
        >>> import fusewire as fw
        >>> b = fw.nn.UninitializedBuffer()
        >>> b.materialize((2, 3))
        >>> type(b).__name__, b.shape
        ('Tensor', (2, 3))
    """

    __slots__ = ()
    __module__ = "fusewire.nn"

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                 persistent: bool = True) -> None:
        super().__init__(Unknown(DEFAULT_FLOAT if dtype is None else as_dtype(dtype), device))


def is_lazy(x: Any) -> bool:
    """True if `x` is a parameter or a buffer without a shape, as lazy modules have."""
    return isinstance(x, _Uninitialized)
