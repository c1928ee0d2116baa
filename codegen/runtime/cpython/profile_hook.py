"""Implements natively the profile hook that records which code runs during a trace.

Python calls it for each call of a function. Nearly all of these are of code that was seen before;
then it returns without running any Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from string import Template
from typing import Any

import numpy as np

from .entry import load_functions
from .object_layout import LAYOUT, Layout

_TABLE_WORDS = 8192  # words, a power of two
_EVENTS = ("call", "exception", "line", "return", "c_call", "c_exception", "c_return")

# observe(self, frame, what, arg) is a profile function. self: an array, the function to tell of
# what is not known, the names of events. The array: whether everything is to be told, then two
# tables of code objects by their addresses: whose calls are known, and whose calls of C functions.
_OBSERVE = """
define i32 @observe(ptr %self, ptr %frame, i32 %event.kind, ptr %arg) #0 {
entry:
  %items = getelementptr i8, ptr %self, i64 $elements
  %array = load ptr, ptr %items
  %words.slot = getelementptr i8, ptr %array, i64 $data
  %words = load ptr, ptr %words.slot
  %flag = load i64, ptr %words
  %all = icmp ne i64 %flag, 0
  br i1 %all, label %tell, label %filter
filter:
  switch i32 %event.kind, label %known [
    i32 0, label %look
    i32 4, label %look
  ]
look:
  %is.c = icmp eq i32 %event.kind, 4
  %start = select i1 %is.c, i64 $second, i64 1
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  call void @Py_DecRef(ptr %code)
  %address = ptrtoint ptr %code to i64
  %hash = lshr i64 %address, 4
  %bucket = and i64 %hash, $mask
  %index = add i64 %bucket, %start
  %slot = getelementptr i64, ptr %words, i64 %index
  %there = load i64, ptr %slot
  %same = icmp eq i64 %there, %address
  br i1 %same, label %known, label %tell
tell:
  %args = call ptr @PyTuple_New(i64 3)
  %created = icmp ne ptr %args, null
  br i1 %created, label %fill, label %failed
fill:
  %callback.slot = getelementptr ptr, ptr %items, i64 1
  %callback = load ptr, ptr %callback.slot
  %event.kind.long = sext i32 %event.kind to i64
  %event.number = add i64 %event.kind.long, 2
  %event.slot = getelementptr ptr, ptr %items, i64 %event.number
  %event = load ptr, ptr %event.slot
  %without = icmp eq ptr %arg, null
  %value = select i1 %without, ptr @none, ptr %arg
  call void @Py_IncRef(ptr %frame)
  call void @Py_IncRef(ptr %event)
  call void @Py_IncRef(ptr %value)
  %ok1 = call i32 @PyTuple_SetItem(ptr %args, i64 0, ptr %frame)
  %ok2 = call i32 @PyTuple_SetItem(ptr %args, i64 1, ptr %event)
  %ok3 = call i32 @PyTuple_SetItem(ptr %args, i64 2, ptr %value)
  %result = call ptr @PyObject_CallObject(ptr %callback, ptr %args)
  call void @Py_DecRef(ptr %args)
  %done = icmp ne ptr %result, null
  br i1 %done, label %drop, label %failed
drop:
  call void @Py_DecRef(ptr %result)
  br label %known
known:
  ret i32 0
failed:
  ret i32 -1
}
"""
_USED = {"PyFrame_GetCode": "ptr (ptr)", "Py_IncRef": "void (ptr)", "Py_DecRef": "void (ptr)",
         "PyTuple_New": "ptr (i64)", "PyTuple_SetItem": "i32 (ptr, i64, ptr)",
         "PyObject_CallObject": "ptr (ptr, ptr)"}


@functools.cache
def _address(layout: Layout) -> int:
    numbers = {"second": 1 + _TABLE_WORDS, "mask": _TABLE_WORDS - 1}
    body = Template(_OBSERVE).substitute(layout._asdict(), **numbers)
    return load_functions(body, ["observe"], _USED)["observe"]


_install = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)(
    ("PyEval_SetProfile", ctypes.pythonapi))


class _ObserverArgument(tuple[Any, ...]):
    """The argument of `observe`. Code that reads `sys.getprofile()` gets it, and may pass it to
    `sys.setprofile` later: then it is the profile function."""

    __slots__ = ()

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        self[1](frame, event, arg)


class NativeObserver:
    """Calls `tell(frame, event, arg)` for the events of this thread, except for known code."""

    def __init__(self, tell: Callable[[Any, str, Any], None]) -> None:
        assert LAYOUT is not None
        self._words = np.zeros(1 + 2 * _TABLE_WORDS, np.uint64)
        self._self = _ObserverArgument((self._words, tell, *_EVENTS))
        self._address = _address(LAYOUT)

    def start(self) -> None:
        """Starts observing; `sys.setprofile(None)` ends it."""
        _install(self._address, self._self)

    def report_all(self, all: bool) -> None:
        """Sets if all events are reported from now on."""
        self._words[0] = all

    def ignore(self, code: Any, calls_of_c: bool = False) -> None:
        """Stops reports of calls of this code, or of C functions called from it. The code must stay
        alive meanwhile, since another could take its address."""
        slot = id(code) >> 4 & _TABLE_WORDS - 1
        self._words[1 + slot + _TABLE_WORDS * calls_of_c] = id(code)
