"""The Tensor: an array that is never changed, and where it came from.

A tensor is a value. What looks like a change (`x[i] = v`, `x += y`, an optimizer's step) gives the
tensor a new array and leaves the old one to whoever still holds it: other tensors, the tape, a
recording. So slices never alias, saved values stay what they were, and arrays can be identified
with the values of a graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from .. import interpreter
from ..arrays import devices
from ..arrays.devices import CPU
from ..arrays.dtypes import OWN, as_dtype, complex64, float32, int64, kind, result_type, uint64
from ..arrays.shapes import product
from ..errors import DeviceError, DTypeError, GradientError, ShapeError
from .lazy import held_by
from .tape import Entry, Leaf
from .tracer import Traced
from .views import linked

if TYPE_CHECKING:  # at run time the methods are copied to Tensor: the ops import it
    from ..tensor_methods.methods import TensorMethods
else:
    TensorMethods = object

__all__ = ["Tensor", "from_numpy", "tensor"]

_ndarray = np.ndarray

# The versions of the Array API standard that are kept; each contains those before it.
STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class Tensor(TensorMethods):
    """An n-dimensional array with a dtype, and optionally a gradient. Make one with `fw.tensor`."""

    __slots__ = ("__weakref__", "_base", "_data", "_grad", "edge")
    __module__ = "fusewire"  # pickles name the class by its public place

    _data: Any  # a NumPy array, or one to come (`later.py`); without values, a TensorType
    edge: Entry | Leaf | None  # where gradients go
    _grad: Tensor | None
    _base: Any  # what it is a view of (`views.py`), or None

    def __init__(self, data: Any, edge: Any = None) -> None:
        """Wraps the array `data` as it is, without copying. Users call `fw.tensor`."""
        self._data = data if type(data) is _ndarray else held_by(self, data)
        self.edge = edge
        self._grad = self._base = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the axes."""
        if not interpreter.in_use or interpreter.STATE.active is None:
            return self._data.shape
        return interpreter.STATE.active.shape(self)

    @property
    def dtype(self) -> Any:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return len(self._data.shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        return product(self.shape)

    @property
    def device(self) -> str:
        """The name of the device that the elements are on: "cpu", "cuda:0", ..."""
        data = self._data
        return CPU if type(data) is _ndarray else devices.of(data)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        return self.device != CPU

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return self._data.size * self._data.dtype.itemsize

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """This tensor on a device; what a GPU does for it is done on `stream`, by default its own.

        DeviceError for a stream where no GPU takes part.
        """
        place = devices.placed(device)
        if stream is None:
            return self.to(place)
        if CPU == place == self.device:
            raise DeviceError(f'device "cpu" has no streams, got stream {stream!r:.80}',
                              "leave stream out")
        with stream:
            return self.to(place)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module that holds the functions of the Array API standard for tensors."""
        package = sys.modules[__name__.partition(".")[0]]
        if api_version not in (None, *STANDARDS):
            raise ShapeError(f"the Array API standard of {api_version!r} is not provided",
                             f"the versions are {', '.join(STANDARDS)}")
        return package

    def to(self, target: Any = None, dtype: Any = None, non_blocking: bool = False,
           copy: bool = False, *, device: Any = None) -> Tensor:
        """This tensor on a device, in a dtype, or in both: x.to("cuda", fw.float64).

        As another tensor is: x.to(y). Gradients go the way back. A copy to a GPU is in order with
        what is computed there, so that non_blocking has nothing to say; copy makes no difference,
        as tensors are values.
        """
        if isinstance(target, Tensor):
            device, target, dtype = target.device, None, target.dtype
        elif devices.is_name(target):
            device, target = target, None
        given = target if dtype is None else dtype
        wanted = self.dtype if given is None else given
        out: Tensor = self.astype(wanted, device=device)
        if out.dtype == self.dtype and out.device == self.device:
            out._base = ref(self) if self._base is None else linked(self)  # in PyTorch this tensor
        return out

    def cpu(self) -> Tensor:
        """This tensor on the CPU."""
        return self.to(CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """This tensor on a GPU, the current one unless `device` names another."""
        return self.to(device="cuda" if device is None else device)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has added up, or None."""
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
        """Whether this tensor was made by the user, not computed from tensors with gradients."""
        return self.edge is None or isinstance(self.edge, Leaf)

    def detach(self) -> Tensor:
        """The same values, cut off from the tape."""
        data = self._data
        out = Tensor(data.detached() if isinstance(data, Traced) else data)
        out._base = ref(self) if self._base is None else linked(self)
        return out

    # ---- values that leave for Python

    def numpy(self) -> Any:
        """The values as a NumPy array that must not be written to."""
        if self.is_cuda:
            raise DeviceError(f"NumPy does not see the memory of a tensor on {self.device}",
                              'copy it to the CPU first: x.to("cpu")')
        if interpreter.STATE.active is not None:
            interpreter.STATE.active.leaves(self, "NumPy")
        traced = isinstance(self._data, Traced)
        view = (self._data.values("numpy()") if traced else self._data).view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The one element, as a Python number."""
        value = self._decide("item()").item()
        active = interpreter.STATE.active if interpreter.in_use else None
        return value if active is None else active.number(self, value)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._decide("tolist()", any_size=True).tolist()

    def _decide(self, how: str, any_size: bool = False, key: Any = None) -> Any:
        """The values, for Python code that asks by `how`; it looks at `key` of them only."""
        if not any_size and self._data.size != 1:
            raise DTypeError(
                f"{how} needs a tensor with one element, this one has shape {self._data.shape}",
                "reduce it first: x.sum(), x.any(), x.all(), or pick one element x[0]",
            )
        if interpreter.STATE.active is not None:
            # A transform that asks gets plain values of all examples, whatever its user asked for.
            plain = any_size and (how == "item()" or self._data.size != 1)
            instead = interpreter.STATE.active.leaves(self, "tolist()" if plain else how)
            if instead is not None:
                return instead
        return self._data.values(how, key) if isinstance(self._data, Traced) else \
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
        rows = interpreter.rows and interpreter.rows(self, sys._getframe(1))
        return rows or (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    __hash__ = object.__hash__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)


def tensor(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested lists, an array or a tensor.

    Python floats become float32, ints int64; arrays keep their dtype. DTypeError for anything
    that is not numbers, DeviceError for a device that is not there.

    >>> import fusewire as fw
    >>> fw.tensor([[1, 2.5], [3, 4]])
    tensor([[1. , 2.5],
            [3. , 4. ]])
    >>> fw.tensor([1, 2], dtype=fw.float64)
    tensor([1., 2.], dtype=float64)
    """
    if isinstance(data, Tensor):
        made = data.detach() if dtype is None and device is None else \
            data.detach().to(dtype=dtype, device=device)
        made._base = None  # a copy
    else:
        place = devices.placed(device)
        made = _made(data, dtype)
        made = made if place == CPU else made.to(place)
    return made.requires_grad_() if requires_grad else made


def _made(data: Any, dtype: Any) -> Tensor:
    """A tensor of anything but a tensor."""
    followed = data.__tensor__(dtype) if isinstance(data, interpreter.Symbol) else None
    return interpreter.source(Tensor(_array_of(data, dtype))) if followed is None else followed


_DEFAULTS = {"f": float32, "i": int64, "c": complex64}


def _array_of(data: Any, dtype: Any) -> Any:
    """A new array of `data`, in the default dtype of its kind where it has none of its own."""
    if dtype is None and type(data) is np.ndarray and OWN.get(data.dtype) is data.dtype:
        return data.copy()  # the usual case without what follows, which takes ten times as long
    wanted = None if dtype is None else as_dtype(dtype)
    if _has_arrays(data):
        wanted = wanted or result_type(*_leaves(data))
        data = _plain(data)
    try:
        array = np.array(data)
        if wanted is None and not hasattr(data, "dtype"):
            wanted = _DEFAULTS.get(array.dtype.kind)
        elif wanted is not None and kind(array.dtype) in "biuf":
            array = np.array(data, dtype=wanted)  # refuses Python ints that do not fit
        elif array.dtype.kind == "c" and wanted is not None and wanted.kind != "c":
            raise TypeError("a complex number is no real one")
    except ValueError as error:
        raise ShapeError(f"tensor: cannot make a tensor of {data!r:.80}: {error}",
                         "the lists at one level must have one length") from None
    except (TypeError, OverflowError) as error:
        raise DTypeError(f"tensor: cannot make a tensor of {data!r:.80}: {error}",
                         "choose a dtype that holds these values") from None
    unfit = kind(array.dtype) not in "biufc" or (array.dtype == uint64 and wanted is None
                                                and not hasattr(data, "dtype"))
    if unfit:
        raise DTypeError(f"tensor: cannot make a tensor of {data.__class__.__name__}: {data!r:.80}",
                         "it takes numbers, nested lists of numbers, arrays and tensors; integers "
                         "of 2**63 and more need dtype=fw.uint64")
    return array.astype(wanted or as_dtype(array.dtype), copy=False)


_WITH_DTYPE = (Tensor, np.ndarray, np.generic)


def _has_arrays(data: Any) -> bool:
    """Whether nested lists hold something that has a dtype of its own."""
    return isinstance(data, (list, tuple)) and any(
        isinstance(x, _WITH_DTYPE) or _has_arrays(x) for x in data
    )


def _leaves(data: Any) -> Iterator[Any]:
    """The dtypes and Python's numbers in nested lists."""
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
    """A tensor over the memory of `array`, not a copy. Do not write to the array afterwards."""
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy: takes a NumPy array, not {type(array).__name__}",
                         "fw.tensor takes numbers and lists, and copies")
    as_dtype(array.dtype)
    return interpreter.source(Tensor(array))


def as_tensor(name: str, x: Any) -> Tensor:
    """`x` as a tensor for the op `name`; NumPy's arrays become tensors, else DTypeError."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return tensor(x)
    raise DTypeError(f"{name}: takes tensors, not {type(x).__name__}",
                     "make a tensor of it first: fw.tensor(x)")
