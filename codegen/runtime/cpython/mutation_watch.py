"""Finds words of memory that change whenever an object is mutated.

Lists, functions and closure cells are compared word by word. A class has a version, which changes
with the class and its bases. A dictionary has one before Python 3.12; from 3.12 on CPython calls a
watcher before each change, and ours counts. From 3.13 on it does not call it for attribute values
that are stored inline in the object: these words are watched themselves.
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
from .object_layout import LAYOUT, half, offset_of, word

Words = list[tuple[int, int]]  # an address, and the word there


class Contents(NamedTuple):
    """The `words` that prove an object unchanged, as long as `objects` are alive: after one is
    freed, another object could have its address."""

    words: Words
    objects: list[Any]


_CLASS_VERSION_OFFSET = 384  # bytes from the beginning of a class, verified by `_class_versions`
_DICT_VERSION_OFFSET = 24  # bytes from the beginning of a dictionary, verified by `_dict_versions`
_CELL_OFFSET = 16  # bytes from the beginning of a closure's cell to its object
_DICT_KEYS, _DICT_VALUES = 32, 40  # where its keys are, and its values if these lie apart
_COUNTER_COUNT = 4096  # of changes, for dictionaries by their address
_MAX_WORDS_BEFORE_OBJECT = 4  # words before an object in which CPython keeps its dictionary


def contents(value: Any) -> Contents | None:
    """The words that prove `value` unchanged; None if it cannot be watched.

    For an object these are the attributes found in it or its class.
    """
    words = _words(value)
    return None if words is None else Contents(words, _referred(value))


def _referred(value: Any) -> list[Any]:
    """The objects whose addresses are among the words of `value`, and perhaps others."""
    if type(value) is types.FunctionType:
        return gc.get_referents(value, *value.__closure__ or ())
    attributes = None if isinstance(value, type) else getattr(value, "__dict__", None)
    return gc.get_referents(value, attributes)


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
        return [(id(value) + _CELL_OFFSET, word(id(value) + _CELL_OFFSET))]
    if kind is types.FunctionType:
        return _of_function(value)
    return _of_class(value) if isinstance(value, type) else _of_object(value)


def _of_list(value: list[Any]) -> Words:
    assert LAYOUT is not None
    first = id(value) + LAYOUT.items
    items = [(word(first) + 8 * i, id(x)) for i, x in enumerate(value)]
    return [(id(value) + LAYOUT.length, len(value)), (first, word(first)), *items]


def _of_dict(value: dict[Any, Any]) -> Words | None:
    if _dict_watch_works():
        return _counter_words(value)
    address = id(value) + _DICT_VERSION_OFFSET
    return [(address, word(address))] if _dict_versions() else None


def _counter_words(value: dict[Any, Any]) -> Words:
    _Counters.watch(value)
    address = _Counters.counter_address(value)
    return [(address, word(address)), *(_inline_value_words(value)
                                        if sys.version_info >= (3, 13) else ())]


def _inline_value_words(value: dict[Any, Any]) -> Words:
    """The values that are stored inline in an object, and their address."""
    first = word(id(value) + _DICT_VALUES)
    count = half(first) & 0xFF if first else 0
    start = id(value)
    addresses = [start + _DICT_VALUES, start + _DICT_KEYS,
                 *range(first + 8, first + 8 * count + 8, 8)]
    return [(address, word(address)) for address in addresses]


def _of_function(function: Any) -> Words | None:
    """The words for its code, its defaults, its closure, and the contents of the closure."""
    parts = _function_parts()
    if parts is None:
        return None
    addresses = [id(function) + p for p in parts]
    cells = [id(cell) + _CELL_OFFSET for cell in function.__closure__ or ()]
    return [(address, word(address)) for address in (*addresses, *cells)]


@functools.cache
def _function_parts() -> list[int] | None:
    """Bytes from the beginning of a function to code, defaults, keyword defaults and closure."""
    cell = types.CellType(object())
    code = (lambda: cell).__code__
    probe = types.FunctionType(code, {}, None, (object(),), (cell,))
    probe.__kwdefaults__ = {"x": 1}
    parts = (probe.__code__, probe.__defaults__, probe.__kwdefaults__, probe.__closure__)
    offsets = [offset_of(probe, value) for value in parts]
    cell_matches = word(id(cell) + _CELL_OFFSET) == id(cell.cell_contents)
    return None if None in offsets or not cell_matches else offsets  # type: ignore[return-value]


def _of_class(cls: type) -> Words | None:
    getattr(cls, "__hash__", None)  # looked up in it, which gives it a version if it has none
    address = id(cls) + _CLASS_VERSION_OFFSET
    return [(address, word(address))] if half(address) else None


def _of_object(value: Any) -> Words | None:
    assert LAYOUT is not None
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is not dict:
        return None
    offset = type(value).__dictoffset__
    offsets = [offset] if offset > 0 else [-8 * i for i in range(1, _MAX_WORDS_BEFORE_OBJECT + 1)]
    slots = [id(value) + p for p in offsets if word(id(value) + p) == id(attributes)]
    of_class, of_dict = _of_class(type(value)), _of_dict(attributes)
    if len(slots) != 1 or of_class is None or of_dict is None:
        return None
    kind = (id(value) + LAYOUT.kind, id(type(value)))
    return [kind, *of_class, (slots[0], id(attributes)), *of_dict]


# ---- what holds on this interpreter
@functools.cache
def _class_versions() -> bool:
    """True if the versions of classes are at the expected offset."""
    base = type("Base", (), {})
    cls = type("Derived", (base,), {})
    seen = []
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: setattr(cls, "x", 1), lambda: setattr(cls, "x", 2),
        lambda: setattr(base, "y", 1), lambda: delattr(cls, "x")]
    for change in changes:
        change()
        seen.append(half(id(cls) + _CLASS_VERSION_OFFSET))
        for name in ("x", "y"):
            getattr(cls, name, None)
        first = half(id(cls) + _CLASS_VERSION_OFFSET)
        getattr(cls, "x", None)
        if not first or first != half(id(cls) + _CLASS_VERSION_OFFSET):
            return False
        seen.append(first)
    versions = seen[1::2]
    return len(set(versions)) == len(versions) and all(a != b
                                                       for a, b in zip(seen[1::2], seen[2::2]))


@functools.cache
def _dict_versions() -> bool:
    """True if the versions of dictionaries are at the expected offset."""
    if sys.version_info >= (3, 12):  # from here on some changes leave the version as it is
        return False
    probe: dict[Any, Any] = {}
    changes = [lambda: probe.update(a=1), lambda: probe.__setitem__("a", 2),
               lambda: probe.setdefault("b", 3), lambda: probe.pop("a"), probe.clear]
    seen = [word(id(probe) + _DICT_VERSION_OFFSET)]
    for change in changes:
        change()
        seen.append(word(id(probe) + _DICT_VERSION_OFFSET))
        probe.get("a")
        if seen[-1] != word(id(probe) + _DICT_VERSION_OFFSET):
            return False
    return len(set(seen)) == len(seen)


# ---- counted changes, from Python 3.12 on
_CHANGED = """
@counters = external global [{count} x i64], align 8

define i32 @changed(i32 %event, ptr %dictionary, ptr %key, ptr %value) #0 {{
  %address = ptrtoint ptr %dictionary to i64
  %part = lshr i64 %address, 4
  %number = and i64 %part, {mask}
  %slot = getelementptr i64, ptr @counters, i64 %number
  %count = load i64, ptr %slot
  %more = add i64 %count, 1
  store i64 %more, ptr %slot
  ret i32 0
}}
"""


class _Counters:
    """The counters of dictionary changes; two dictionaries may share a counter."""

    memory = (ctypes.c_uint64 * _COUNTER_COUNT)()
    watcher = -1

    @classmethod
    def counter_address(cls, value: dict[Any, Any]) -> int:
        return ctypes.addressof(cls.memory) + 8 * (id(value) >> 4 & _COUNTER_COUNT - 1)

    @classmethod
    def watch(cls, value: dict[Any, Any]) -> None:
        ctypes.pythonapi.PyDict_Watch(ctypes.c_int(cls.watcher), ctypes.py_object(value))

    @classmethod
    def start(cls) -> bool:
        """Registers the dictionary watcher; False if this interpreter has none."""
        if sys.version_info < (3, 12):
            return False
        text, target = _CHANGED.format(count=_COUNTER_COUNT, mask=_COUNTER_COUNT - 1), host()
        ir = f"{target.header}{text}\nattributes #0 = {{ {target.attributes} }}\n"
        counters = {"counters": ctypes.addressof(cls.memory)}
        code = object_cache.loaded(ir, ["changed"], counters, target)["changed"]
        add = ctypes.pythonapi.PyDict_AddWatcher
        cls.watcher = add(ctypes.c_void_p(code))
        return cls.watcher >= 0


@functools.cache
def _start_counting() -> bool:
    """True if changes of dictionaries are counted from now on."""
    try:
        return _Counters.start()
    except (AttributeError, SystemError, RuntimeError):
        return False


@functools.cache
def _dict_watch_works() -> bool:
    """True if the counter words detect every change of a dictionary."""
    return _start_counting() and all(_detects(probe, change)
                                     for probe in (_Probe(), _Probe()) for change in _CHANGES)


class _Probe:
    def __init__(self) -> None:
        self.a, self.b = 1, 2


_CHANGES: list[Callable[[Any], Any]] = [
    lambda p: setattr(p, "a", 3), lambda p: p.__dict__.update(a=4), lambda p: setattr(p, "c", 5),
    lambda p: delattr(p, "b"), lambda p: p.__dict__.pop("a"), lambda p: p.__dict__.update({1: 2}),
    lambda p: setattr(p, "a", 6), lambda p: p.__dict__.clear(),
]


def _detects(probe: Any, change: Callable[[Any], Any]) -> bool:
    seen = _counter_words(probe.__dict__)
    unchanged_before = all(word(address) == value for address, value in seen)
    change(probe)
    return unchanged_before and any(word(address) != value for address, value in seen)
