"""Determines the layout of CPython and NumPy objects, as byte offsets from the start of an object.

The offsets come from the headers of CPython and NumPy; each is verified on objects with known
contents. `LAYOUT` is None if one does not hold, on other interpreters, and on builds without the
global lock, since reading objects requires it: then everything is done in Python.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from typing import Any, NamedTuple

import numpy as np

from ....eager.core.tensor import Tensor

_HEAD_BYTES = object.__basicsize__  # an object's head: references to it, then its type


class Layout(NamedTuple):
    """Byte offsets from the start of an object to its fields."""

    kind: int  # of every object: its type
    length: int  # of a list
    items: int  # of a list: where its items are
    elements: int  # of a tuple: its items
    text: int  # of bytes: the first of them
    data: int  # of an array: where its elements are
    ndim: int  # a word of 32 bits
    shape: int  # where its sizes are
    base: int
    dtype: int
    flags: int  # a word of 32 bits
    values: int  # of a tensor: its array
    edge: int


def word(address: int) -> int:
    """The word of memory at an address."""
    return ctypes.c_size_t.from_address(address).value


def half(address: int) -> int:
    """The 32 bits of memory at an address."""
    return ctypes.c_uint32.from_address(address).value


def offset_of(owner: Any, value: Any) -> int | None:
    """The offset at which an object holds `value`; None if there is not exactly one."""
    offsets = [i for i in range(0, type(owner).__basicsize__, 8)
               if word(id(owner) + i) == id(value)]
    return offsets[0] if len(offsets) == 1 else None


def _probe() -> Layout | None:
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") \
            or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little" \
            or _HEAD_BYTES != 16:
        return None
    values, edge = np.zeros((2, 3)), object()
    tensor = Tensor(values, edge)
    tensor_offsets = offset_of(tensor, values), offset_of(tensor, edge)
    if None in tensor_offsets:
        return None
    data, ndim, shape, _, base, dtype, flags = (_HEAD_BYTES + 8 * i for i in range(7))
    layout = Layout(8, _HEAD_BYTES, _HEAD_BYTES + 8, tuple.__basicsize__, bytes.__basicsize__ - 1,
                    data, ndim, shape, base, dtype, flags, tensor_offsets[0] or 0,
                    tensor_offsets[1] or 0)
    return layout if _matches_objects(layout) else None


def _matches_objects(at: Layout) -> bool:
    """True if lists, tuples, bytes and arrays match the layout."""
    items = [object(), object(), object()]
    if word(id(items) + at.length) != 3 or word(id(items) + at.kind) != id(list):
        return False
    first, pair = word(id(items) + at.items), tuple(items)
    items_match = all(word(first + 8 * i) == id(x) == word(id(pair) + at.elements + 8 * i)
                      for i, x in enumerate(items))
    raw = bytes(range(65, 73))
    return items_match and word(id(raw) + at.text) == int.from_bytes(raw, "little") \
        and all(_is_array(a, at) for a in _arrays())


def _arrays() -> list[Any]:
    base = np.arange(24.0)
    frozen = base.reshape(2, 3, 4)[1:]
    frozen.flags.writeable = False
    odd = np.zeros(65, np.int8)[1:].view(np.float64)
    return [base, base[3:], base.reshape(4, 6).T, np.empty((0, 3), np.int8), np.array(1), frozen,
            odd]


def _is_array(array: Any, at: Layout) -> bool:
    sizes = word(id(array) + at.shape)
    return word(id(array) + at.data) == array.ctypes.data \
        and half(id(array) + at.ndim) == array.ndim \
        and tuple(word(sizes + 8 * i) for i in range(array.ndim)) == array.shape \
        and word(id(array) + at.base) == (0 if array.base is None else id(array.base)) \
        and word(id(array) + at.dtype) == id(array.dtype) \
        and half(id(array) + at.flags) == array.flags.num


LAYOUT = _probe()
