"""Defines the tensor class of `fusewire.torch` and gives it to results.

The class has the layout of `fusewire.Tensor`, so a tensor changes its class by an assignment.
Functions and methods of the front end do so for each result; plain `fusewire` has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from ....eager.core.tensor import Tensor as Plain
from ....eager.nn.base.parameter import Buffer as PlainBuffer
from ....eager.nn.base.parameter import Parameter as PlainParameter
from .device import device as device_class
from .graph_node import Node
from .index import selected
from .package import fw
from .size import Size, callable_size

OTHERS: dict[type, Any] = {}
"""Plain classes of tensors -> those of the front end."""


def retag(value: Any) -> Any:
    """`value`, in which all tensors have the class of the front end. It descends into tuples,
    lists and dicts."""
    cls = type(value)
    if cls is Plain:
        value.__class__ = Tensor
    elif cls is not Tensor:
        if cls in OTHERS:
            value.__class__ = OTHERS[cls]
        elif isinstance(value, (tuple, list)):
            for x in value:
                retag(x)
        elif isinstance(value, Mapping):
            for x in value.values():
                retag(x)
    return value


def retagged(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with results of the front end's class."""
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return retag(function(*args, **kwargs))

    return call


def operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in one dtype if one of them is 0-d: it takes the dtype of the other one if that
    is of its kind, as a Python number does."""
    if isinstance(y, Plain) and x._data.dtype is not y._data.dtype:
        a, b = x._data, y._data
        if a.dtype.kind == b.dtype.kind and (a.ndim == 0) is not (b.ndim == 0):
            return (fw.astype(x, b.dtype), y) if a.ndim == 0 else (x, fw.astype(y, a.dtype))
    return x, y


def _binary(name: str) -> Callable[[Any, Any], Any]:
    plain = getattr(Plain, name)

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, Plain) and self._data.dtype is not other._data.dtype:
            self, other = operands(self, other)
        out = plain(self, other)
        if type(out) is Plain:
            out.__class__ = Tensor
        return out

    operator.__name__ = name
    return operator


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    plain = getattr(Plain, name)

    def operator(self: Any, other: Any) -> Any:
        return plain(self, operands(self, other)[1])

    operator.__name__ = name
    return operator


class Tensor(Plain):
    """A tensor with PyTorch's methods and meanings. Make one with `torch.tensor`."""

    __slots__ = ()
    __module__ = "fusewire.torch"

    def __new__(cls, *data: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *data: Any, dtype: Any = None, device: Any = None) -> None:
        """`Tensor(2, 3)` is a tensor of these sizes, `Tensor([2, 3])` has these values, in float32.
        """
        if data and all(isinstance(n, int) for n in data):
            values = fw.zeros(*data)
        else:
            values = fw.tensor(data[0] if data else [],
                               dtype=fw.float32 if dtype is None else dtype)
        Plain.__init__(self, values._data)

    # ---- attributes
    @property
    def shape(self) -> Any:
        """The sizes of the axes."""
        return Size(Plain.shape.fget(self))  # type: ignore[attr-defined]

    @property
    def size(self) -> Any:
        """A function that returns the sizes, or the size of an axis."""
        return callable_size(Plain.shape.fget(self))  # type: ignore[attr-defined]

    @property
    def device(self) -> Any:
        """The device of the elements."""
        return device_class(Plain.device.fget(self))  # type: ignore[attr-defined]

    @property
    def grad(self) -> Any:
        """The sum of the gradients of all `backward` calls, or None."""
        out = Plain.grad.fget(self)  # type: ignore[attr-defined]
        if type(out) is Plain:
            out.__class__ = Tensor
        return out

    @grad.setter
    def grad(self, value: Any) -> None:
        Plain.grad.fset(self, value)  # type: ignore[attr-defined,misc]

    @property
    def data(self) -> Any:
        """A view of this tensor that is not on the tape. `x.data = y` makes x a view of y."""
        return retag(Plain.data.fget(self))  # type: ignore[attr-defined,misc]

    @data.setter
    def data(self, value: Any) -> None:
        Plain.data.fset(self, value)  # type: ignore[attr-defined,misc]

    @property
    def grad_fn(self) -> Any:
        """The node of the op that computed this tensor, or None."""
        return None if self.is_leaf else Node(self.edge)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self._data.dtype.itemsize)

    @property
    def H(self) -> Any:
        """The conjugated matrix with rows and columns exchanged."""
        return retag(fw.conj(fw.matrix_transpose(self)))

    @property
    def T(self) -> Any:
        """The tensor with its axes in the reverse order."""
        return retag(fw.permute_dims(self, tuple(range(self.ndim))[::-1]))

    is_sparse = is_quantized = is_mps = is_meta = is_nested = is_xpu = False
    layout = "strided"
    names = property(lambda self: (None,) * self.ndim)
    output_nr = 0

    @property
    def is_cpu(self) -> bool:
        """True if the elements are in the memory of the processor."""
        return not self.is_cuda

    @property
    def _version(self) -> int:
        return 0

    # ---- elements
    def __getitem__(self, index: Any) -> Any:
        view, rest = selected(self, index)
        return retag(Plain.__getitem__(view, rest))

    def __setitem__(self, index: Any, value: Any) -> None:
        view, rest = selected(self, index)
        Plain.__setitem__(view, rest, value)

    # ---- text
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else Plain.__format__(self, spec)

    # ---- hooks
    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """The handle of `hook(gradient)`, called in a backward; it may return another gradient."""
        return Plain.register_hook(self, lambda gradient: hook(retag(gradient)))

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """This tensor; from now on `backward` adds its gradient to `.grad`, or does not."""
        return Plain.requires_grad_(self, requires_grad)

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Adds the gradients of this tensor to the `.grad` of the leaves."""
        Plain.backward(self, gradient, bool(create_graph if retain_graph is None else retain_graph),
                       create_graph, inputs)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """This tensor on a device, in a dtype, or both."""
        kwargs.pop("memory_format", None)
        if len(args) > 1 and isinstance(args[1], bool):  # to(dtype, non_blocking, copy)
            args, kwargs = args[:1], {**kwargs, "copy": any(args[2:])}
        return retag(Plain.to(self, *args, **kwargs))

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """This tensor, changed in place to the values of `src`."""
        return Plain.copy_(self, src)


class Parameter(Tensor, PlainParameter):
    """A leaf tensor of the values of `data`, which modules register when it is assigned."""

    __slots__ = ()
    __module__ = "fusewire.torch.nn"

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        PlainParameter.__init__(self, data, requires_grad)

    __repr__ = PlainParameter.__repr__


class Buffer(Tensor, PlainBuffer):
    """A tensor of the values of `data`, which modules register as a buffer."""

    __slots__ = ()
    __module__ = "fusewire.torch.nn"

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        PlainBuffer.__init__(self, data, persistent=persistent)


OTHERS[PlainParameter], OTHERS[PlainBuffer] = Parameter, Buffer

_PLAIN = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__",
          "__ipow__", "add_", "sub_", "mul_", "truediv_", "floordiv_", "mod_", "pow_"}
_UNARY = ("__neg__", "__pos__", "__abs__", "__invert__", "__copy__", "__deepcopy__",
          "detach", "cpu", "cuda", "to_device", "astype", "__iter__")
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
           "lshift", "rshift")


def _bind_operators() -> None:
    names = [f"__{r}{name}__" for name in _BINARY for r in ("", "r")]
    names += [f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")]
    for name in names:
        setattr(Tensor, name, _binary(name))
    for name in _PLAIN:
        setattr(Tensor, name, _in_place(name))
    for name in _UNARY:
        if name != "__iter__":
            setattr(Tensor, name, retagged(getattr(Plain, name)))
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]
    for name in ("real", "imag", "mT", "mH"):
        setattr(Tensor, name, property(retagged(getattr(Plain, name).fget)))


_bind_operators()
