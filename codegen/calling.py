"""How native code is called with Python's objects: the function for that, and what it is told."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..eager import memory
from .address import address
from .llvm.entry import function
from .llvm.threads import entry

# References to an array that only its tensor holds: the tensor, the argument list, the question.
_EXCLUSIVE = 3
SHORT_NANOSECONDS = 20_000  # programs that take less keep Python's lock

Launch = Callable[[list[Any], list[Any], Any], bool]
NOTHING: Mapping[int, Any] = {}


class _Words(bytes):
    """What native code reads, and the objects that have to stay as long as it may."""

    kept: Any


class Call(NamedTuple):
    """What native code is called with: how to run it, where its program is, whether it keeps
    Python's lock; how many inputs and results there are; which inputs are written over."""

    run: str
    program: int
    keeps_lock: bool
    inputs: int
    results: int
    overwritten: Sequence[int]


def launcher(call: Call, constants: Sequence[Any], same: Mapping[int, Any] = NOTHING,
             kept: Any = None) -> Launch:
    """launch(arrays, results, arena) makes the call, or refuses what needs a closer look: inputs,
    too, that are not the `same` arrays. What is `kept` lives as long."""
    words = (entry(call.run), call.program, call.keeps_lock, call.inputs, len(constants),
             call.results, len(call.overwritten), len(same), *map(address, constants),
             *call.overwritten,
             *[word for number, array in same.items() for word in (number, id(array))])
    held = _Words(struct.pack(f"{len(words)}Q", *words))
    held.kept = constants, same, kept
    return function("launch", held)


def make_ready(arrays: list[Any], overwritten: Sequence[int]) -> None:
    """Copies what is overwritten and not ours alone, and what is not contiguous."""
    for i in overwritten:
        if sys.getrefcount(arrays[i]) > _EXCLUSIVE or not memory.is_whole(arrays[i]) \
                or not arrays[i].flags.writeable:
            arrays[i] = arrays[i].copy()
    for i, a in enumerate(arrays):
        if not (a.flags.c_contiguous and a.flags.aligned):
            arrays[i] = np.array(a, order="C")
