"""The Tensor: an array that is never changed, and where it came from.

A tensor is a value. What looks like a change (`x[i] = v`, `x += y`, an optimizer's step) gives the
tensor a new array and leaves the old one to whoever still holds it: other tensors, the tape, a
recording. So slices never alias, saved values stay what they were, and arrays can be identified with
the values of a graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import interpreter
from .dtypes import as_dtype, is_float
from .errors import DeviceError, DTypeError, GradientError
from .shapes import product
from .tape import Entry, Leaf


class Tensor:
    """An n-dimensional array with a dtype, and optionally a gradient. Make one with `fw.tensor`."""

    __slots__ = ("__weakref__", "data", "edge", "grad")
    __array_priority__ = 1000  # NumPy's operators give way to ours

    data: Any  # a NumPy array; for a tensor without values, a TensorType
    edge: Entry | Leaf | None  # where gradients go
    grad: Tensor | None

    def __init__(self, data: Any, edge: Any = None) -> None:
        """Wraps the array `data` as it is, without copying. Users call `fw.tensor`."""
        self.data, self.edge, self.grad = data, edge, None

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the axes."""
        active = interpreter.active
        return self.data.shape if active is None else active.shape(self)

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.data.shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        return product(self.shape)

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return self.data.size * self.data.dtype.itemsize

    def to(self, target: Any) -> Tensor:
        """This tensor on a device ("cpu") or in a dtype."""
        if isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda"):
            return check_device(target) or self
        return self.astype(target)  # type: ignore[attr-defined,no-any-return]

    @property
    def requires_grad(self) -> bool:
        return self.edge is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, value: bool = True) -> Tensor:
        """This tensor, marked as one whose gradient `backward` collects in `.grad`."""
        from_op = self.edge is not None and not isinstance(self.edge, Leaf)
        if from_op and not value:
            raise GradientError(
                "requires_grad can be taken away from leaves only, this tensor was computed",
                "use x.detach()",
            )
        if value and not is_float(self.dtype):
            raise DTypeError(
                f"a tensor of {self.dtype.name} cannot require a gradient",
                "only floating point tensors have gradients: x.astype(fw.float32)",
            )
        if not from_op:
            self.edge = Leaf(self) if value else None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user rather than computed from ones with gradients."""
        return self.edge is None or isinstance(self.edge, Leaf)

    def detach(self) -> Tensor:
        """The same values, cut off from the tape."""
        return Tensor(self.data)

    # ---- values that leave for Python

    def numpy(self) -> Any:
        """The values as a NumPy array that must not be written to."""
        if interpreter.active is not None:
            interpreter.active.leaves(self, "NumPy")
        view = self.data.view()
        view.flags.writeable = False
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return np.array(array, dtype=dtype, copy=True) if copy else np.asarray(array, dtype=dtype)

    def item(self) -> Any:
        """The one element, as a Python number."""
        return self._decide("item()").item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._decide("tolist()", any_size=True).tolist()

    def _decide(self, how: str, any_size: bool = False) -> Any:
        if not any_size and self.data.size != 1:
            raise DTypeError(
                f"{how} needs a tensor with one element, this one has shape {self.data.shape}",
                "reduce it first: x.sum(), x.any(), x.all(), or pick one element x[0]",
            )
        if interpreter.active is not None:
            interpreter.active.leaves(self, how)
        return self.data

    def __bool__(self) -> bool:
        return bool(self._decide("bool()"))

    def __int__(self) -> int:
        return int(self._decide("int()"))

    def __float__(self) -> float:
        return float(self._decide("float()"))

    def __complex__(self) -> complex:
        return complex(self._decide("complex()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DTypeError(f"a tensor of {self.dtype.name} cannot be used as an index")
        return int(self._decide("int()"))

    def __len__(self) -> int:
        if not self.data.shape:
            raise DTypeError("len() of a 0-d tensor")
        return self.shape[0]

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        body = np.array2string(self.data, separator=", ", prefix="tensor(")
        extra = "" if self.dtype.name in ("float32", "int64", "bool") else f", dtype={self.dtype}"
        extra += ", requires_grad=True" if self.requires_grad else ""
        return f"tensor({body}{extra})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradientError("only leaves can be deep-copied", "use x.detach() first")
        made = type(self).__new__(type(self))
        Tensor.__init__(made, self.data)
        made.requires_grad_(self.requires_grad)
        return made

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.data, self.requires_grad)


def _restore(cls: type[Tensor], data: Any, requires_grad: bool) -> Tensor:
    made = cls.__new__(cls)
    Tensor.__init__(made, data)
    return made.requires_grad_() if requires_grad else made


def check_device(device: Any) -> None:
    """Raises DeviceError unless `device` is None or "cpu"."""
    if device not in (None, "cpu"):
        raise DeviceError(f"device {device!r} is not available", 'the device here is "cpu"')


def tensor(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested lists, an array or a tensor.

    Python floats become float32, ints int64; arrays keep their dtype. DTypeError for anything
    that is not numbers, DeviceError for a device that is not there.
    """
    check_device(device)
    if isinstance(data, Tensor):
        made = data.detach() if dtype is None else data.detach().to(as_dtype(dtype))
    else:
        array = np.array(data if not _has_tensors(data) else _plain(data))
        if dtype is None and not hasattr(data, "dtype"):
            dtype = {"f": "float32", "i": "int64", "u": "int64", "c": "complex64"}.get(array.dtype.kind)
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"cannot make a tensor of {type(data).__name__}: {data!r:.80}")
        made = interpreter.source(Tensor(array.astype(as_dtype(dtype or array.dtype), copy=False)))
    return made.requires_grad_() if requires_grad else made


def _has_tensors(data: Any) -> bool:
    return isinstance(data, (list, tuple)) and any(
        isinstance(x, Tensor) or _has_tensors(x) for x in data
    )


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.tolist()
    return [_plain(x) for x in data] if isinstance(data, (list, tuple)) else data


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of `array`, without copying. Do not write to the array afterwards."""
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy takes a NumPy array, not {type(array).__name__}")
    as_dtype(array.dtype)
    return interpreter.source(Tensor(array))
