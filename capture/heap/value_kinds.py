"""Tells kinds of values by their contents: plain values, containers, wrappers, fixed objects."""

from __future__ import annotations

import enum
import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...eager.arrays.shapes import ElementCount
from ...eager.core.tensor import Tensor
from .access_path import KnownObject, Path

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, type(Ellipsis), slice, range,
         ElementCount)
FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodWrapperType,
         types.CodeType, np.ufunc, enum.Enum)  # compared by identity
LRU_CACHE = type(functools.lru_cache(abs))
SETS = (set, frozenset, bytearray)  # compared as a whole; elements are not followed
SEQUENCES = (list, tuple, deque)
FUNCTION_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
MODULE_DICTIONARIES = ("_parameters", "_modules", "_buffers")  # shown as attributes
INDIRECTIONS: dict[type, tuple[str, ...]] = {  # wrappers, and the attributes to follow
    types.MethodType: ("__self__", "__func__"), property: ("fget",),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}


def is_plain(value: Any) -> bool:
    """True if a value has no further contents: numbers, strings and the like."""
    cls: Any = type(value)
    return cls in PLAIN or _adds_no_contents(cls) or isinstance(
        value, (np.dtype, np.number, np.bool_, np.datetime64))


@functools.lru_cache(maxsize=4096)
def _adds_no_contents(cls: Any) -> bool:
    """True for a subclass of str or bytes whose objects have no attributes and compare as these."""
    base: Any = next((b for b in (str, bytes) if issubclass(cls, b)), None)
    return base is not None and not cls.__dictoffset__ and cls.__eq__ is base.__eq__ \
        and cls.__basicsize__ == base.__basicsize__ and not issubclass(cls, enum.Enum)


def object_keys(value: dict[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """The keys of a dictionary that have contents of their own."""
    for key in value:
        if not (is_plain(key) or isinstance(key, (*FIXED, tuple, frozenset, Tensor))):
            yield Path("class", KnownObject(key)).attr("__self__"), key


def same_contents(before: Any, now: Any) -> bool:
    """True if two copies of an object's contents hold identical elements."""
    if len(before) != len(now):
        return False
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(now[k] is before[k] for k in now)
    if isinstance(before, SETS):
        return bool(before == now)
    if isinstance(before, list):
        return all(a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(before, now))
    return all(a is b for a, b in zip(before, now))
