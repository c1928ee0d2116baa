"""Defines native functions that Python calls directly: `launch` and `collect`.

They run with the global lock held, read objects at the offsets of `object_layout.LAYOUT`, and have
no state: their `self` holds all that they need. They check everything first and refuse an
unexpected argument before they change anything; the caller then takes the slow path in Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from string import Template
from typing import Any

import numpy as np

from ....eager.arrays.memory import MemoryBlock
from .. import object_cache
from ..target import host
from .object_layout import LAYOUT, Layout

# launch(arrays, results, arena) runs a program; whether it did.
# self: bytes of the words `run, program, lock, inputs, constants, results, owned, same`, then the
# addresses of the constants, then the numbers of the inputs that are overwritten, so that nobody
# else may hold them, then the numbers of those that must be certain objects, and these.
_LAUNCH = """
define ptr @launch(ptr %self, ptr %args, i64 %count) #0 {
entry:
  %words = getelementptr i8, ptr %self, i64 $text
  %run = load ptr, ptr %words
  %q1 = getelementptr i64, ptr %words, i64 1
  %q2 = getelementptr i64, ptr %words, i64 2
  %q3 = getelementptr i64, ptr %words, i64 3
  %q4 = getelementptr i64, ptr %words, i64 4
  %q5 = getelementptr i64, ptr %words, i64 5
  %q6 = getelementptr i64, ptr %words, i64 6
  %q7 = getelementptr i64, ptr %words, i64 7
  %program = load ptr, ptr %q1
  %lock = load i64, ptr %q2
  %inputs = load i64, ptr %q3
  %constants = load i64, ptr %q4
  %results = load i64, ptr %q5
  %owned = load i64, ptr %q6
  %same = load i64, ptr %q7
  %fixed = getelementptr i64, ptr %words, i64 8
  %exclusive.arrays = getelementptr i64, ptr %fixed, i64 %constants
  %wanted = getelementptr i64, ptr %exclusive.arrays, i64 %owned
  %a1 = getelementptr ptr, ptr %args, i64 1
  %a2 = getelementptr ptr, ptr %args, i64 2
  %arrays = load ptr, ptr %args
  %fresh = load ptr, ptr %a1
  %arena.object = load ptr, ptr %a2
  %ready = add i64 %inputs, %constants
  %total = add i64 %ready, %results
  %bytes = shl i64 %total, 3
  %table = call ptr @PyMem_Malloc(i64 %bytes)
  %room = icmp ne ptr %table, null
  br i1 %room, label %begin, label %refuse
begin:
  %table.constants = getelementptr i64, ptr %table, i64 %inputs
  %table.results = getelementptr i64, ptr %table, i64 %ready
  %ok1 = call i1 @addresses(ptr %arrays, i64 %inputs, ptr %table)
  br i1 %ok1, label %next, label %drop
next:
  %ok2 = call i1 @addresses(ptr %fresh, i64 %results, ptr %table.results)
  br i1 %ok2, label %whose, label %drop
whose:
  %ok3 = call i1 @exclusive(ptr %arrays, ptr %exclusive.arrays, i64 %owned)
  br i1 %ok3, label %which, label %drop
which:
  %ok4 = call i1 @unchanged(ptr %arrays, ptr %wanted, i64 %same)
  br i1 %ok4, label %copy, label %drop
copy:
  %size = shl i64 %constants, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %table.constants, ptr %fixed, i64 %size, i1 false)
  %without = icmp eq ptr %arena.object, @none
  br i1 %without, label %go, label %with
with:
  %arena.slot = getelementptr i8, ptr %arena.object, i64 $data
  %arena.address = load ptr, ptr %arena.slot
  br label %go
go:
  %arena = phi ptr [null, %copy], [%arena.address, %with]
  %held = icmp ne i64 %lock, 0
  br i1 %held, label %short, label %long
short:
  call void %run(ptr %program, ptr %table, ptr %arena)
  br label %done
long:
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %program, ptr %table, ptr %arena)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %done
done:
  call void @PyMem_Free(ptr %table)
  call void @Py_IncRef(ptr @true)
  ret ptr @true
drop:
  call void @PyMem_Free(ptr %table)
  br label %refuse
refuse:
  call void @Py_IncRef(ptr @false)
  ret ptr @false
}

; Whether a list holds so many contiguous arrays; their addresses go to `out`.
define internal i1 @addresses(ptr %list, i64 %count, ptr %out) #0 {
entry:
  %length.slot = getelementptr i8, ptr %list, i64 $length
  %length = load i64, ptr %length.slot
  %items.slot = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.slot
  %same = icmp eq i64 %length, %count
  br i1 %same, label %loop, label %bad
loop:
  %i = phi i64 [0, %entry], [%up, %good]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %array = load ptr, ptr %slot
  %kind.slot = getelementptr i8, ptr %array, i64 $kind
  %kind = load ptr, ptr %kind.slot
  %plain = icmp eq ptr %kind, @ndarray
  br i1 %plain, label %known, label %bad
known:
  %flags.slot = getelementptr i8, ptr %array, i64 $flags
  %flags = load i32, ptr %flags.slot
  %both = and i32 %flags, $contiguous
  %fits = icmp eq i32 %both, $contiguous
  br i1 %fits, label %good, label %bad
good:
  %data.slot = getelementptr i8, ptr %array, i64 $data
  %data = load i64, ptr %data.slot
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %data, ptr %to
  %up = add i64 %i, 1
  br label %loop
end:
  ret i1 1
bad:
  ret i1 0
}

; Whether these elements of a list are these objects: pairs of a number and an address.
define internal i1 @unchanged(ptr %list, ptr %pairs, i64 %count) #0 {
entry:
  %items.slot = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.slot
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%up, %body]
  %up = add i64 %i, 1
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %pair = getelementptr {i64, ptr}, ptr %pairs, i64 %i
  %wanted.slot = getelementptr {i64, ptr}, ptr %pair, i64 0, i32 1
  %number = load i64, ptr %pair
  %wanted = load ptr, ptr %wanted.slot
  %slot = getelementptr ptr, ptr %items, i64 %number
  %there = load ptr, ptr %slot
  %equal = icmp eq ptr %there, %wanted
  br i1 %equal, label %loop, label %bad
end:
  ret i1 1
bad:
  ret i1 0
}

; Whether nobody but the list and one tensor holds these arrays and their memory.
define internal i1 @exclusive(ptr %list, ptr %exclusive.arrays, i64 %count) #0 {
entry:
  %items.slot = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.slot
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%up, %good]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %number.slot = getelementptr i64, ptr %exclusive.arrays, i64 %i
  %number = load i64, ptr %number.slot
  %slot = getelementptr ptr, ptr %items, i64 %number
  %array = load ptr, ptr %slot
  %references = load i32, ptr %array
  %alone = icmp eq i32 %references, 2
  br i1 %alone, label %memory, label %bad
memory:
  %flags.slot = getelementptr i8, ptr %array, i64 $flags
  %flags = load i32, ptr %flags.slot
  %may = and i32 %flags, $writeable
  %writeable = icmp ne i32 %may, 0
  br i1 %writeable, label %whole, label %bad
whole:
  %base.slot = getelementptr i8, ptr %array, i64 $base
  %base = load ptr, ptr %base.slot
  %own = icmp eq ptr %base, null
  br i1 %own, label %good, label %shared
shared:
  %kind.slot = getelementptr i8, ptr %base, i64 $kind
  %kind = load ptr, ptr %kind.slot
  %block = icmp eq ptr %kind, @block
  br i1 %block, label %good, label %bad
good:
  %up = add i64 %i, 1
  br label %loop
end:
  ret i1 1
bad:
  ret i1 0
}
"""

# collect(*tensors) gives the arrays of these tensors and of others, if all is as it was; else None.
# self: (bytes, the other tensors). The words of the bytes: `conditions, given, held, arrays`; for
# each condition an address and the word that must be there; for each tensor, those given first, its
# type, whether it has an edge, its dtype, its rank, where its sizes are (in bytes from the first
# word; -1 is any above 0), and its number among the arrays, -1 where it is only looked at.
_COLLECT = """
define ptr @collect(ptr %self, ptr %args, i64 %count) #0 {
entry:
  %config.slot = getelementptr i8, ptr %self, i64 $elements
  %held.slot = getelementptr i8, ptr %config.slot, i64 8
  %config = load ptr, ptr %config.slot
  %others.object = load ptr, ptr %held.slot
  %others = getelementptr i8, ptr %others.object, i64 $elements
  %words = getelementptr i8, ptr %config, i64 $text
  %q1 = getelementptr i64, ptr %words, i64 1
  %q2 = getelementptr i64, ptr %words, i64 2
  %q3 = getelementptr i64, ptr %words, i64 3
  %conditions = load i64, ptr %words
  %argument.count = load i64, ptr %q1
  %held = load i64, ptr %q2
  %arrays = load i64, ptr %q3
  %first = getelementptr i64, ptr %words, i64 4
  %many = icmp eq i64 %argument.count, %count
  br i1 %many, label %conditions.loop, label %refuse
conditions.loop:
  %c = phi i64 [0, %entry], [%c.up, %condition]
  %c.more = icmp ult i64 %c, %conditions
  br i1 %c.more, label %condition, label %unchanged
condition:
  %c.up = add i64 %c, 1
  %c.twice = shl i64 %c, 1
  %address.slot = getelementptr i64, ptr %first, i64 %c.twice
  %wanted.slot = getelementptr i64, ptr %address.slot, i64 1
  %address = load ptr, ptr %address.slot
  %wanted = load i64, ptr %wanted.slot
  %there = load i64, ptr %address
  %equal = icmp eq i64 %there, %wanted
  br i1 %equal, label %conditions.loop, label %refuse
unchanged:
  %skip = shl i64 %conditions, 1
  %records = getelementptr i64, ptr %first, i64 %skip
  %argument.words = mul i64 %argument.count, 6
  %records.held = getelementptr i64, ptr %records, i64 %argument.words
  %list = call ptr @PyList_New(i64 %arrays)
  %created = icmp ne ptr %list, null
  br i1 %created, label %fill, label %failed
fill:
  %items.slot = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.slot
  %ok1 = call i1 @tensors(ptr %args, i64 %argument.count, ptr %records, ptr %words, ptr %items)
  br i1 %ok1, label %more, label %drop
more:
  %ok2 = call i1 @tensors(ptr %others, i64 %held, ptr %records.held, ptr %words, ptr %items)
  br i1 %ok2, label %done, label %drop
done:
  ret ptr %list
failed:
  ret ptr null
drop:
  call void @Py_DecRef(ptr %list)
  br label %refuse
refuse:
  call void @Py_IncRef(ptr @none)
  ret ptr @none
}

; Whether tensors are as their records say; their arrays go to `items`.
define internal i1 @tensors(ptr %them, i64 %count, ptr %records, ptr %words, ptr %items) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%up, %stored]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %up = add i64 %i, 1
  %offset = mul i64 %i, 6
  %r0 = getelementptr i64, ptr %records, i64 %offset
  %r1 = getelementptr i64, ptr %r0, i64 1
  %r2 = getelementptr i64, ptr %r0, i64 2
  %r3 = getelementptr i64, ptr %r0, i64 3
  %r4 = getelementptr i64, ptr %r0, i64 4
  %r5 = getelementptr i64, ptr %r0, i64 5
  %slot = getelementptr ptr, ptr %them, i64 %i
  %tensor = load ptr, ptr %slot
  %kind.slot = getelementptr i8, ptr %tensor, i64 $kind
  %kind = load ptr, ptr %kind.slot
  %kind.wanted = load ptr, ptr %r0
  %kind.same = icmp eq ptr %kind, %kind.wanted
  br i1 %kind.same, label %is.tensor, label %bad
is.tensor:
  %edge.slot = getelementptr i8, ptr %tensor, i64 $edge
  %edge = load ptr, ptr %edge.slot
  %edge.set = icmp ne ptr %edge, null
  %edge.there = icmp ne ptr %edge, @none
  %edge.word = load i64, ptr %r1
  %edge.wanted = icmp ne i64 %edge.word, 0
  %edge.same = icmp eq i1 %edge.there, %edge.wanted
  %edge.good = and i1 %edge.set, %edge.same
  %values.slot = getelementptr i8, ptr %tensor, i64 $values
  %array = load ptr, ptr %values.slot
  %values.set = icmp ne ptr %array, null
  %both = and i1 %edge.good, %values.set
  br i1 %both, label %has.values, label %bad
has.values:
  %array.kind.slot = getelementptr i8, ptr %array, i64 $kind
  %array.kind = load ptr, ptr %array.kind.slot
  %plain = icmp eq ptr %array.kind, @ndarray
  br i1 %plain, label %is.array, label %bad
is.array:
  %dtype.slot = getelementptr i8, ptr %array, i64 $dtype
  %dtype = load ptr, ptr %dtype.slot
  %dtype.wanted = load ptr, ptr %r2
  %dtype.same = icmp eq ptr %dtype, %dtype.wanted
  %rank.slot = getelementptr i8, ptr %array, i64 $ndim
  %rank.short = load i32, ptr %rank.slot
  %rank = sext i32 %rank.short to i64
  %rank.wanted = load i64, ptr %r3
  %rank.same = icmp eq i64 %rank, %rank.wanted
  %type.same = and i1 %dtype.same, %rank.same
  br i1 %type.same, label %sizes, label %bad
sizes:
  %shape.slot = getelementptr i8, ptr %array, i64 $shape
  %shape = load ptr, ptr %shape.slot
  %shape.offset = load i64, ptr %r4
  %shape.wanted = getelementptr i8, ptr %words, i64 %shape.offset
  br label %axes
axes:
  %k = phi i64 [0, %sizes], [%k.up, %axis]
  %k.more = icmp slt i64 %k, %rank
  br i1 %k.more, label %axis, label %good
axis:
  %k.up = add i64 %k, 1
  %size.slot = getelementptr i64, ptr %shape, i64 %k
  %size.wanted.slot = getelementptr i64, ptr %shape.wanted, i64 %k
  %size = load i64, ptr %size.slot
  %size.wanted = load i64, ptr %size.wanted.slot
  %size.same = icmp eq i64 %size, %size.wanted
  %size.open = icmp slt i64 %size.wanted, 0
  %size.some = icmp sgt i64 %size, 0
  %size.any = and i1 %size.open, %size.some
  %size.good = or i1 %size.same, %size.any
  br i1 %size.good, label %axes, label %bad
good:
  %number = load i64, ptr %r5
  %wanted = icmp sge i64 %number, 0
  br i1 %wanted, label %store, label %stored
store:
  call void @Py_IncRef(ptr %array)
  %to = getelementptr ptr, ptr %items, i64 %number
  store ptr %array, ptr %to
  br label %stored
stored:
  br label %loop
end:
  ret i1 1
bad:
  ret i1 0
}
"""

_USED = {"PyEval_SaveThread": "ptr ()", "PyEval_RestoreThread": "void (ptr)",
         "Py_IncRef": "void (ptr)", "Py_DecRef": "void (ptr)", "PyList_New": "ptr (i64)",
         "PyMem_Malloc": "ptr (i64)", "PyMem_Free": "void (ptr)"}
_OBJECTS = {"none": None, "true": True, "false": False, "ndarray": np.ndarray, "block": MemoryBlock}
_CONTIGUOUS = 0x0101  # in C's order, and aligned
_WRITEABLE = 0x0400
_FASTCALL = 0x0080


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_METHODS: dict[str, _Method] = {}  # functions that were made refer to these: none is ever freed


def _method(name: str) -> _Method:
    assert LAYOUT is not None
    method = _METHODS.get(name)
    if method is None:  # another thread may ask for the same
        new = _Method(name.encode(), _loaded(LAYOUT)[name], _FASTCALL, None)
        method = _METHODS.setdefault(name, new)
    return method


def function(name: str, own: Any) -> Callable[..., Any]:
    """The function `launch` or `collect`, bound to its `self`."""
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi))
    bound: Callable[..., Any] = make(ctypes.addressof(_method(name)), own, None)
    return bound


@functools.cache
def _loaded(layout: Layout) -> dict[str, int]:
    """The addresses of the functions."""
    flags = {"contiguous": _CONTIGUOUS, "writeable": _WRITEABLE}
    body = Template(_LAUNCH + _COLLECT).substitute(layout._asdict(), **flags)
    body += "\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    return load_functions(body, ["launch", "collect"], _USED)


def load_functions(body: str, names: list[str], used: Mapping[str, str]) -> dict[str, int]:
    """Compiles LLVM IR that calls Python's C API, given by name and type; returns the addresses of
    its functions."""
    target = host()
    declared = [f"declare {kind.replace(' (', f' @{name}(')}" for name, kind in used.items()]
    declared += [f"@{name} = external global i8" for name in _OBJECTS]
    text = "\n".join([*declared, body, f"attributes #0 = {{ {target.attributes} }}\n"])
    imports = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
               for name in used} | {name: id(value) for name, value in _OBJECTS.items()}
    return object_cache.loaded(target.header + text, names, imports, target)
