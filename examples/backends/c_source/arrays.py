"""The devices "c:0" and "c:1": their memory, their arrays, and NumPy as the library beside them."""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from fusewire.eager.arrays import cpu_kernels
from fusewire.eager.arrays.device_type import DeviceType

ALIGNMENT = 64  # bytes, of an array


class Memory:
    """Bytes of a device. Their address is all that there is to see of them."""

    __slots__ = ("_block", "address")

    def __init__(self, size: int) -> None:
        self._block = (ctypes.c_char * (size + ALIGNMENT))()
        self.address = -(-ctypes.addressof(self._block) // ALIGNMENT) * ALIGNMENT


class CArray:
    """An array in a device's memory, in C order. NumPy cannot read it: `download` makes a copy."""

    __slots__ = ("__weakref__", "dtype", "memory", "number", "shape")
    __array_ufunc__ = None  # NumPy's operators give up
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: Any, number: int) -> None:
        self.memory, self.shape, self.dtype, self.number = memory, shape, np.dtype(dtype), number

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * int(self.dtype.itemsize)

    def reshape(self, *shape: Any) -> CArray:
        """The same memory in another shape."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return CArray(self.memory, tuple(sizes), self.dtype, self.number)

    def view(self) -> CArray:
        """The same memory."""
        return self.reshape(self.shape)

    def item(self) -> Any:
        """The one element as a Python number."""
        return download(self).item()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"an array on c:{self.number} is not NumPy's: copy it, x.to(\"cpu\")")

    def __bool__(self) -> bool:
        return bool(self.item())


def empty(shape: tuple[int, ...], dtype: Any, number: int) -> CArray:
    """An array without values."""
    return CArray(Memory(math.prod(shape) * np.dtype(dtype).itemsize), tuple(shape), dtype, number)


def upload(array: Any, number: int) -> CArray:
    """A copy of a NumPy array on a device."""
    source = np.asarray(array, order="C")
    out = empty(source.shape, source.dtype, number)
    ctypes.memmove(out.memory.address, source.ctypes.data, source.nbytes)
    return out


def download(array: CArray) -> Any:
    """A copy of an array as NumPy's."""
    out = np.empty(array.shape, array.dtype)
    ctypes.memmove(out.ctypes.data, array.memory.address, array.nbytes)
    return out


class CDevices(DeviceType):
    """What eager has to know of these devices. `calls` counts the ops that NumPy computed."""

    name, library = "c", "NumPy"

    def __init__(self) -> None:
        self.calls = Counter[str]()

    def count(self) -> int:
        """Two, so that values can be on different ones."""
        return 2

    def load(self) -> None:
        """Makes the class of the arrays known."""
        self.array_type = CArray

    def number_of(self, array: CArray) -> int:
        """The number of the device of an array."""
        return array.number

    def upload(self, array: Any, number: int) -> CArray:
        """A copy of an array on the device of a number."""
        return upload(download(array) if isinstance(array, CArray) else array, number)

    def download(self, array: CArray) -> Any:
        """A copy of an array as NumPy's."""
        return download(array)

    def compute(self, op: Any, arrays: Any, params: Mapping[str, Any], number: int) -> CArray:
        """The result of an op without code: by NumPy, on copies."""
        self.calls[op.name] += 1
        copies = [download(x) if isinstance(x, CArray) else x for x in arrays]
        with np.errstate(all="ignore"):
            return upload(op.impl(cpu_kernels, *copies, **params), number)


C = CDevices()
