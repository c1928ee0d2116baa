"""Defines Tensor: an array that never changes, and the edge through which its gradient flows.

A change (`x[i] = v`, `x += y`, an optimizer's step) gives the tensor a new array, and its base and
views as well. The old array is left to all other holders: the tape, a trace. So saved values keep
their contents, and an array identifies a value of a graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import interpreter
from ..arrays import devices
from ..arrays.devices import CPU
from ..arrays.dtypes import (
    OWN,
    as_dtype,
    complex64,
    float32,
    int64,
    is_dtype_name,
    kind,
    require_in_range,
    result_type,
    uint64,
)
from ..arrays.shapes import ElementCount, product
from ..errors import DeviceError, DTypeError, GradientError, ShapeError
from ..upper_layer import UPPER
from .lazy import held_by
from .tape import Entry, Leaf
from .transform_value import TransformValue
from .views import ViewNode, define_access, view_of

if TYPE_CHECKING:  # at run time the methods are copied to Tensor: the ops import it
    from ..tensor_methods.methods import TensorMethods
else:
    TensorMethods = object

__all__ = ["Tensor", "from_numpy", "tensor"]

_ndarray = np.ndarray

# The supported versions of the Array API standard; each contains those before it.
STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class Tensor(TensorMethods):
    """An n-dimensional array with a dtype and, optionally, a gradient. Make one with `fw.tensor`.

    A slice or another view shares its elements with its base: a write to one changes the other.
    Operators broadcast and promote dtypes.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([[2., 4.],
                [6., 8.]])
    """

    __slots__ = ("__weakref__", "_data", "_grad", "_view", "edge")
    __module__ = "fusewire"  # pickles name the class by its public module

    # An array, a lazy array (`lazy.py`), or a value of a transform (`transform_value.py`). A tensor
    # without values has a TensorType here.
    _data: Any
    edge: Entry | Leaf | None  # the target of its gradient
    _grad: Tensor | None
    _view: ViewNode | None  # its base and its views, if it has any

    def __init__(self, data: Any, edge: Any = None) -> None:
        """Wraps the array `data` as it is, without copying. Users call `fw.tensor`."""
        self._data = data if type(data) is _ndarray else held_by(self, data)
        self.edge = edge
        self._grad = self._view = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes."""
        if not interpreter.in_use or interpreter.STATE.active is None:
            return self._data.shape
        return interpreter.STATE.active.shape(self)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements: `fw.float32`, `fw.int64`, ..."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._data.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        count = product(self.shape)
        return ElementCount(count) if type(count) is int and not interpreter.in_use else count

    @property
    def device(self) -> str:
        """The name of the device of the elements: "cpu", "cuda:0", ..."""
        data = self._data
        return CPU if type(data) is _ndarray else devices.of(data)

    @property
    def is_cuda(self) -> bool:
        """True if the elements are on a GPU."""
        return self.device.partition(":")[0] == "cuda"

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self._data.size * self._data.dtype.itemsize

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """This tensor on a device; the copy runs on `stream`, by default the current one.

        DeviceError for a stream if both devices are the CPU, or for a device that is not available.
        """
        target = devices.resolve_device(device)
        if stream is None:
            return self.to(target)
        if CPU == target == self.device:
            raise DeviceError(f'device "cpu" has no streams, got stream {stream!r:.80}',
                              "leave stream out")
        with stream:
            return self.to(target)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The package, which has the functions of the Array API standard.

        ShapeError for a version of the standard that is not supported.
        """
        package = sys.modules[__name__.partition(".")[0]]
        if api_version not in (None, *STANDARDS):
            raise ShapeError(f"the Array API standard of {api_version!r} is not supported",
                             f"the versions are {', '.join(STANDARDS)}")
        return package

    def to(self, target: Any = None, dtype: Any = None, non_blocking: bool = False,
           copy: bool = False, *, device: Any = None) -> Tensor:
        """This tensor on a device, in a dtype, or both: x.to("cuda", fw.float64), or x.to(y).

        Args:
            target: a device, a dtype, or a tensor that has both.
            dtype: of the result; None keeps this tensor's.
            non_blocking: no effect. A copy to a GPU is in sequence with the work there.
            copy: True returns a copy if nothing has to change. Default False: this tensor's view.
            device: of the result; None keeps this tensor's.

        Returns:
            Tensor of this shape. Its gradient flows back to this tensor.

        Raises:
            DeviceError: the device is not available.
            DTypeError: the dtype does not exist.
        """
        if isinstance(target, Tensor):
            device, target, dtype = target.device, None, target.dtype
        elif devices.is_name(target):
            device, target = target, None
        elif isinstance(target, str) and not is_dtype_name(target):
            raise DeviceError(f"{target!r} is neither a device nor a dtype of fusewire",
                              'devices are "cpu" and "cuda"')
        spec = target if dtype is None else dtype
        new_dtype = self.dtype if spec is None else spec
        out: Tensor = self.astype(new_dtype, device=device)
        if not copy and out.dtype == self.dtype and out.device == self.device:
            # PyTorch returns this tensor itself, so a write to the result would change it too.
            view_of(self, out, SAME)
        return out

    def cpu(self) -> Tensor:
        """This tensor on the CPU."""
        return self.to(CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """This tensor on a GPU, the current one unless `device` names another."""
        return self.to(device="cuda" if device is None else device)

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients of all `backward` calls, or None."""
        if interpreter.in_use and interpreter.STATE.active is not None:
            interpreter.STATE.active.reads_grad(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if interpreter.in_use and interpreter.STATE.active is not None:
            interpreter.STATE.active.sets_grad(self)
        self._grad = value

    @property
    def requires_grad(self) -> bool:
        """True if `backward` computes a gradient for this tensor or through it."""
        return self.edge is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, value: bool = True) -> Tensor:
        """This tensor. From now on `backward` adds its gradient to `.grad`; with False it does not.

        GradientError if `value` is False and the tensor was computed from others; DTypeError for a
        dtype that is not floating point.
        """
        from_op = self.edge is not None and not isinstance(self.edge, Leaf)
        if from_op and not value:
            raise GradientError(
                "requires_grad_(False): only leaves can stop requiring a gradient, and this tensor "
                "was computed",
                "use x.detach()",
            )
        if value and kind(self.dtype) not in "fc":
            raise DTypeError(
                f"a tensor of {self.dtype.name} cannot require a gradient",
                "only floating point tensors have gradients: x.astype(fw.float32)",
            )
        if not from_op:
            self.edge = Leaf(self) if value else None
        return self

    @property
    def is_leaf(self) -> bool:
        """True if this tensor was not computed from tensors that require gradients."""
        return self.edge is None or isinstance(self.edge, Leaf)

    def detach(self) -> Tensor:
        """A view of this tensor that is not on the tape."""
        return view_of(self, _detached(self), DETACH)

    # ---- values for Python

    def numpy(self) -> Any:
        """The values as a NumPy array, which is read-only. DeviceError for a tensor on a GPU."""
        if self.device != CPU:
            raise DeviceError(f"NumPy cannot read the memory of a tensor on {self.device}",
                              'copy it to the CPU first: x.to("cpu")')
        if interpreter.STATE.active is not None:
            interpreter.STATE.active.reads_values(self, "NumPy")
        traced = isinstance(self._data, TransformValue)
        view = (self._data.values("numpy()") if traced else self._data).view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The one element as a Python number. DTypeError for a tensor of another size."""
        value = self._decide("item()").item()
        active = interpreter.STATE.active if interpreter.in_use else None
        return value if active is None else active.item(self, value)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._decide("tolist()", any_size=True).tolist()

    def _decide(self, how: str, any_size: bool = False, key: Any = None) -> Any:
        """The values, for Python code that reads them by `how`; only `key` of them matters."""
        if not any_size and self._data.size != 1:
            raise DTypeError(
                f"{how} needs a tensor with one element, this one has shape {self._data.shape}",
                "reduce it first: x.sum(), x.any(), x.all(), or pick one element x[0]",
            )
        if interpreter.STATE.active is not None:
            # A transform that reads needs the plain values of all examples.
            plain = any_size and (how == "item()" or self._data.size != 1)
            instead = interpreter.STATE.active.reads_values(self, "tolist()" if plain else how)
            if instead is not None:
                return instead
        return self._data.values(how, key) if isinstance(self._data, TransformValue) else \
            devices.host(self._data)

    def __bool__(self) -> bool:
        return bool(self._decide("bool()", key=bool).item())

    def __int__(self) -> int:
        return int(self._decide("int()", key=int).item())

    def __float__(self) -> float:
        return float(self._decide("float()").item())

    def __complex__(self) -> complex:
        return complex(self._decide("complex()").item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DTypeError(f"a tensor of {self.dtype.name} cannot be used as an index",
                             "indices are integers: x.astype(fw.int64)")
        return int(self._decide("int()", key=int).item())

    def __len__(self) -> int:
        if not self._data.shape:
            raise DTypeError("a 0-d tensor has no length and cannot be iterated over",
                             "x.item() gives its number")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        def rows() -> Iterator[Tensor]:
            return map(self.__getitem__, range(len(self)))
        return UPPER.iterate(self, rows, sys._getframe(1))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    __hash__ = object.__hash__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)


def is_bare(x: Any) -> bool:
    """True for a tensor that has no attributes beyond those of `Tensor`, whatever its class is."""
    cls = type(x)
    return cls is Tensor or (issubclass(cls, Tensor) and not cls.__dictoffset__
                             and cls.__basicsize__ == Tensor.__basicsize__)


def with_class(cls: type[Tensor], data: Any, edge: Any = None) -> Tensor:
    """A tensor of `data` of the class of a bare tensor."""
    out = Tensor(data, edge)
    if cls is not Tensor:
        out.__class__ = cls  # type: ignore[assignment]
    return out


def value_of(x: Tensor) -> Tensor:
    """A new tensor with the values that `x` has now, off the tape. Later writes to `x` leave it."""
    return _detached(x)


def _detached(x: Tensor, params: Any = None) -> Tensor:
    data = x._data
    return Tensor(data.detached() if isinstance(data, TransformValue) else data)


def _same(x: Tensor, params: Any) -> Tensor:
    out = Tensor(x._data)
    out.edge = x.edge
    return out


def _written(base: Tensor, value: Tensor, params: Any) -> Tensor:
    return value


# Views with the elements of their base.
SAME = define_access("same", _same, _written)
DETACH = define_access("detach", _detached, _written, is_on_tape=False)


def tensor(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of `data`.

    Args:
        data: a number, nested lists of numbers, arrays or tensors, an array, or a tensor.
        dtype: None keeps the dtype of arrays and tensors. Of Python's numbers float becomes
            float32, int int64, complex complex64.
        device: "cpu", "cuda" or "cuda:0"; None is the CPU, or the device of `data` if it is a
            tensor.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Returns:
        Tensor of the shape of `data`.

    Raises:
        DTypeError: `data` is not made of numbers, does not fit into the dtype, or is to require a
            gradient in a dtype that is not floating point.
        ShapeError: nested lists differ in length.
        DeviceError: the device is not available.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 2.5], [3, 4]])
        tensor([[1. , 2.5],
                [3. , 4. ]])
        >>> fw.tensor([1, 2], dtype=fw.float64)
        tensor([1., 2.], dtype=float64)
    """
    if isinstance(data, Tensor):
        out = _detached(data) if dtype is None and device is None else \
            _detached(data).to(dtype=dtype, device=device)
        out._view = None  # a copy
    else:
        target = devices.resolve_device(device)
        out = _of_values(data, dtype)
        out = out if target == CPU else out.to(target)
    return out.requires_grad_() if requires_grad else out


def _of_values(data: Any, dtype: Any) -> Tensor:
    """A tensor of `data` that is not a tensor itself."""
    followed = data.__tensor__(dtype) if isinstance(data, interpreter.Symbol) else None
    return followed if followed is not None else \
        interpreter.note_constant(Tensor(_array_of(data, dtype)))


_DEFAULTS = {"f": float32, "i": int64, "c": complex64}


def _array_of(data: Any, dtype: Any) -> Any:
    """A new array of `data`, in the default dtype of its kind if it has no dtype."""
    if dtype is None and type(data) is np.ndarray and OWN.get(data.dtype) is data.dtype:
        return data.copy()  # a short cut: the code below takes ten times as long
    target = None if dtype is None else as_dtype(dtype)
    if _has_arrays(data):
        target = target or result_type(*_leaves(data))
        data = _plain(data)
    try:
        array = np.array(data)
        if target is None and not hasattr(data, "dtype"):
            target = _DEFAULTS.get(array.dtype.kind)
        elif target is not None and kind(array.dtype) in "biuf":
            if not hasattr(data, "dtype"):
                require_in_range(target, array)
            array = np.array(data, dtype=target)  # raises for Python ints that do not fit
        elif array.dtype.kind == "c" and target is not None and target.kind != "c":
            raise TypeError("a complex number is not a real number")
    except ValueError as error:
        raise ShapeError(f"tensor: cannot make a tensor of {data!r:.80}: {error}",
                         "the lists at one level must have one length") from None
    except (TypeError, OverflowError) as error:
        raise DTypeError(f"tensor: cannot make a tensor of {data!r:.80}: {error}",
                         "choose a dtype that holds these values") from None
    unfit = kind(array.dtype) not in "biufc" or (array.dtype == uint64 and target is None
                                                 and not hasattr(data, "dtype"))
    if unfit:
        raise DTypeError(f"tensor: cannot make a tensor of {data.__class__.__name__}: {data!r:.80}",
                         "it takes numbers, nested lists of numbers, arrays and tensors; integers "
                         "of 2**63 and more need dtype=fw.uint64")
    return array.astype(target or as_dtype(array.dtype), copy=False)


_WITH_DTYPE = (Tensor, np.ndarray, np.generic)


def _has_arrays(data: Any) -> bool:
    """True if nested lists hold an array or a tensor."""
    return isinstance(data, (list, tuple)) and any(
        isinstance(x, _WITH_DTYPE) or _has_arrays(x) for x in data
    )


def _leaves(data: Any) -> Iterator[Any]:
    """The dtypes of arrays, and the Python numbers, in nested lists."""
    for x in data:
        if isinstance(x, (list, tuple)):
            yield from _leaves(x)
        else:
            yield x.dtype if isinstance(x, _WITH_DTYPE) else x


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.tolist()
    return [_plain(x) for x in data] if isinstance(data, (list, tuple)) else data


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of `array`, without a copy.

    Args:
        array: NumPy array. Do not write to it afterwards: arrays of tensors never change.

    Returns:
        Tensor of the shape and dtype of `array`.

    Raises:
        DTypeError: `array` is not a NumPy array, or has a dtype that tensors do not have.

    Example:
        >>> import fusewire as fw
        >>> import numpy as np
        >>> fw.from_numpy(np.arange(3))
        tensor([0, 1, 2])
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy: takes a NumPy array, not {type(array).__name__}",
                         "fw.tensor takes numbers and lists, and copies")
    as_dtype(array.dtype)
    return interpreter.note_constant(Tensor(array))


def as_tensor(name: str, x: Any) -> Tensor:
    """`x` as a tensor for the op `name`: a tensor or a NumPy array; else raises DTypeError."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return tensor(x)
    raise DTypeError(f"{name}: takes tensors, not {type(x).__name__}",
                     "make a tensor of it first: fw.tensor(x)")
