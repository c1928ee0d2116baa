"""Words of memory that tell of an object: while they stay, nothing was written to it.

Lists, functions and the cells of closures are read word by word.
A class has a version, which each change of it or of its bases makes another. A dictionary has one
before Python 3.12; from then on CPython calls a function before each change, and ours counts. From
3.13 on it does not do so for values that lie in the object whose attributes they are: these words
are watched themselves.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import object_cache
from ..target import host
from .object_layout import LAYOUT, half, slot, word

Words = list[tuple[int, int]]  # an address, and what is there


class Contents(NamedTuple):
    """`words` that stay while an object holds what it does, as long as `objects` are not freed:
    another one at the address of one of these would look the same."""

    words: Words
    objects: list[Any]


_CLASS_VERSION = 384  # bytes from the beginning of a class, verified by `_class_versions`
_DICT_VERSION = 24  # bytes from the beginning of a dictionary, verified by `_dict_versions`
_CELL = 16  # bytes from the beginning of a closure's cell to what it holds
_DICT_KEYS, _DICT_VALUES = 32, 40  # where its keys are, and its values if these lie apart
_COUNTERS = 4096  # of changes, for dictionaries by their address
_BEFORE = 4  # words before an object in which CPython keeps its dictionary


def contents(value: Any) -> Contents | None:
    """What stays while `value` holds what it does; None for what cannot be watched.

    Of an object: while it has the same attributes, found in it or its class.
    """
    words = _words(value)
    return None if words is None else Contents(words, _referred(value))


def _referred(value: Any) -> list[Any]:
    """The objects whose addresses are among the words of `value`, and perhaps others."""
    if type(value) is types.FunctionType:
        return gc.get_referents(value, *value.__closure__ or ())
    own = None if isinstance(value, type) else getattr(value, "__dict__", None)
    return gc.get_referents(value, own)


def _words(value: Any) -> Words | None:
    kind = type(value)
    if LAYOUT is None or not _class_versions():
        return None
    if kind is tuple:
        return []
    if kind is dict:
        return _of_dict(value)
    if kind is list:
        return _of_list(value)
    if kind is types.CellType:
        return [(id(value) + _CELL, word(id(value) + _CELL))]
    if kind is types.FunctionType:
        return _of_function(value)
    return _of_class(value) if isinstance(value, type) else _of_object(value)


def _of_list(value: list[Any]) -> Words:
    assert LAYOUT is not None
    first = id(value) + LAYOUT.items
    items = [(word(first) + 8 * i, id(x)) for i, x in enumerate(value)]
    return [(id(value) + LAYOUT.length, len(value)), (first, word(first)), *items]


def _of_dict(value: dict[Any, Any]) -> Words | None:
    if _counts():
        return _counted(value)
    place = id(value) + _DICT_VERSION
    return [(place, word(place))] if _dict_versions() else None


def _counted(value: dict[Any, Any]) -> Words:
    _Counters.watch(value)
    place = _Counters.place(value)
    return [(place, word(place)), *(_split(value) if sys.version_info >= (3, 13) else ())]


def _split(value: dict[Any, Any]) -> Words:
    """The values that lie apart from their keys, and where they are."""
    first = word(id(value) + _DICT_VALUES)
    count = half(first) & 0xFF if first else 0
    start = id(value)
    places = [start + _DICT_VALUES, start + _DICT_KEYS,
              *range(first + 8, first + 8 * count + 8, 8)]
    return [(place, word(place)) for place in places]


def _of_function(function: Any) -> Words | None:
    """Its code, defaults and closure, and what the closure holds."""
    parts = _function_parts()
    if parts is None:
        return None
    places = [id(function) + p for p in parts]
    cells = [id(cell) + _CELL for cell in function.__closure__ or ()]
    return [(place, word(place)) for place in (*places, *cells)]


@functools.cache
def _function_parts() -> list[int] | None:
    """Bytes from the beginning of a function to code, defaults, keyword defaults and closure."""
    cell = types.CellType(object())
    code = (lambda: cell).__code__
    probe = types.FunctionType(code, {}, None, (object(),), (cell,))
    probe.__kwdefaults__ = {"x": 1}
    wanted = (probe.__code__, probe.__defaults__, probe.__kwdefaults__, probe.__closure__)
    found = [slot(probe, value) for value in wanted]
    same = word(id(cell) + _CELL) == id(cell.cell_contents)
    return None if None in found or not same else found  # type: ignore[return-value]


def _of_class(cls: type) -> Words | None:
    getattr(cls, "__hash__", None)  # looked up in it, which gives it a version if it has none
    place = id(cls) + _CLASS_VERSION
    return [(place, word(place))] if half(place) else None


def _of_object(value: Any) -> Words | None:
    assert LAYOUT is not None
    own = getattr(value, "__dict__", None)
    if type(own) is not dict:
        return None
    offset = type(value).__dictoffset__
    places = [offset] if offset > 0 else [-8 * i for i in range(1, _BEFORE + 1)]
    found = [id(value) + p for p in places if word(id(value) + p) == id(own)]
    of_class, of_dict = _of_class(type(value)), _of_dict(own)
    if len(found) != 1 or of_class is None or of_dict is None:
        return None
    kind = (id(value) + LAYOUT.kind, id(type(value)))
    return [kind, *of_class, (found[0], id(own)), *of_dict]


# ---- what holds on this interpreter
@functools.cache
def _class_versions() -> bool:
    """Whether classes have versions where they are expected."""
    base = type("Base", (), {})
    cls = type("Derived", (base,), {})
    seen = []
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: setattr(cls, "x", 1), lambda: setattr(cls, "x", 2),
        lambda: setattr(base, "y", 1), lambda: delattr(cls, "x")]
    for change in changes:
        change()
        seen.append(half(id(cls) + _CLASS_VERSION))
        for name in ("x", "y"):
            getattr(cls, name, None)
        first = half(id(cls) + _CLASS_VERSION)
        getattr(cls, "x", None)
        if not first or first != half(id(cls) + _CLASS_VERSION):
            return False
        seen.append(first)
    made = seen[1::2]
    return len(set(made)) == len(made) and all(a != b for a, b in zip(seen[1::2], seen[2::2]))


@functools.cache
def _dict_versions() -> bool:
    """Whether dictionaries have versions where they are expected."""
    if sys.version_info >= (3, 12):  # from here on some changes leave the version as it is
        return False
    probe: dict[Any, Any] = {}
    changes = [lambda: probe.update(a=1), lambda: probe.__setitem__("a", 2),
               lambda: probe.setdefault("b", 3), lambda: probe.pop("a"), probe.clear]
    seen = [word(id(probe) + _DICT_VERSION)]
    for change in changes:
        change()
        seen.append(word(id(probe) + _DICT_VERSION))
        probe.get("a")
        if seen[-1] != word(id(probe) + _DICT_VERSION):
            return False
    return len(set(seen)) == len(seen)


# ---- counted changes, from Python 3.12 on
_CHANGED = """
@counters = external global [{count} x i64], align 8

define i32 @changed(i32 %event, ptr %dictionary, ptr %key, ptr %value) #0 {{
  %address = ptrtoint ptr %dictionary to i64
  %part = lshr i64 %address, 4
  %number = and i64 %part, {mask}
  %place = getelementptr i64, ptr @counters, i64 %number
  %count = load i64, ptr %place
  %more = add i64 %count, 1
  store i64 %more, ptr %place
  ret i32 0
}}
"""


class _Counters:
    """Where changes are counted; two dictionaries may share a counter."""

    memory = (ctypes.c_uint64 * _COUNTERS)()
    watcher = -1

    @classmethod
    def place(cls, value: dict[Any, Any]) -> int:
        return ctypes.addressof(cls.memory) + 8 * (id(value) >> 4 & _COUNTERS - 1)

    @classmethod
    def watch(cls, value: dict[Any, Any]) -> None:
        ctypes.pythonapi.PyDict_Watch(ctypes.c_int(cls.watcher), ctypes.py_object(value))

    @classmethod
    def start(cls) -> bool:
        """Has changes counted; False where this interpreter does not tell of them."""
        if sys.version_info < (3, 12):
            return False
        text, target = _CHANGED.format(count=_COUNTERS, mask=_COUNTERS - 1), host()
        ir = f"{target.header}{text}\nattributes #0 = {{ {target.attributes} }}\n"
        counters = {"counters": ctypes.addressof(cls.memory)}
        code = object_cache.loaded(ir, ["changed"], counters, target)["changed"]
        add = ctypes.pythonapi.PyDict_AddWatcher
        cls.watcher = add(ctypes.c_void_p(code))
        return cls.watcher >= 0


@functools.cache
def _counting() -> bool:
    """Whether changes of dictionaries are counted."""
    try:
        return _Counters.start()
    except (AttributeError, SystemError, RuntimeError):
        return False


@functools.cache
def _counts() -> bool:
    """Whether every change of a dictionary is seen by `_counted`."""
    return _counting() and all(_sees(probe, change)
                               for probe in (_Probe(), _Probe()) for change in _CHANGES)


class _Probe:
    def __init__(self) -> None:
        self.a, self.b = 1, 2


_CHANGES: list[Callable[[Any], Any]] = [
    lambda p: setattr(p, "a", 3), lambda p: p.__dict__.update(a=4), lambda p: setattr(p, "c", 5),
    lambda p: delattr(p, "b"), lambda p: p.__dict__.pop("a"), lambda p: p.__dict__.update({1: 2}),
    lambda p: setattr(p, "a", 6), lambda p: p.__dict__.clear(),
]


def _sees(probe: Any, change: Callable[[Any], Any]) -> bool:
    seen = _counted(probe.__dict__)
    same = all(word(place) == value for place, value in seen)
    change(probe)
    return same and any(word(place) != value for place, value in seen)
