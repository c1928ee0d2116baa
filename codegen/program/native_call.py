"""Calls native programs from Python, by a native function that is bound to its program."""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ...eager.errors import CodegenError
from ..runtime.cpython.data_pointers import address
from ..runtime.cpython.entry import function
from ..runtime.cpython.object_layout import LAYOUT
from .native_program import NativeProgram
from .native_threads import entry

# References to an array that only its tensor holds: the tensor, the argument list, the question.
_EXCLUSIVE_REFERENCES = 3
SHORT_NANOSECONDS = 20_000  # programs that take less keep Python's lock

LaunchFunction = Callable[[list[Any], list[Any], Any], bool]
NOTHING: Mapping[int, Any] = {}


class _WatchedWords(bytes):
    """The data that native code reads, and the objects that must outlive it."""

    referents: Any


class NativeCall(NamedTuple):
    """The parameters of a native call: entry point, program address, whether it keeps Python's
    lock, the numbers of inputs and results, and the overwritten inputs."""

    run: str
    program: int
    keeps_lock: bool
    inputs: int
    results: int
    overwritten: Sequence[int]


def launcher(call: NativeCall, constants: Sequence[Any], expected: Mapping[int, Any] = NOTHING,
             keep_alive: Any = None) -> LaunchFunction:
    """launch(arrays, results, arena) makes the call. It returns False, without effects, for arrays
    that need preparation and for inputs that differ from the `expected` arrays. It keeps
    `keep_alive` alive."""
    if LAYOUT is None:
        return _refuses
    words = (entry(call.run), call.program, call.keeps_lock, call.inputs, len(constants),
             call.results, len(call.overwritten), len(expected), *map(address, constants),
             *call.overwritten,
             *[word for number, array in expected.items() for word in (number, id(array))])
    record = _WatchedWords(struct.pack(f"{len(words)}Q", *words))
    record.referents = constants, expected, keep_alive
    try:
        return function("launch", record)
    except CodegenError:  # no memory to make it in
        return _refuses


def _refuses(arrays: list[Any], results: list[Any], arena: Any) -> bool:
    """Refuses every call; the caller then calls the program from Python."""
    return False


def is_contiguous(x: Any) -> bool:
    """True if native code can read an array where it is."""
    return bool(x.flags.c_contiguous and x.flags.aligned)


def make_ready(arrays: list[Any], overwritten: Sequence[int]) -> None:
    """Copies overwritten arrays that others hold as well, and arrays that are not contiguous."""
    for i in overwritten:
        if sys.getrefcount(arrays[i]) > _EXCLUSIVE_REFERENCES or not memory.is_whole(arrays[i]) \
                or not arrays[i].flags.writeable:
            arrays[i] = arrays[i].copy()
    for i, a in enumerate(arrays):
        if not is_contiguous(a):
            arrays[i] = np.array(a, order="C")


class ProgramCall:
    """A program as a function of arrays, which several threads may call. A program for a block of
    rows runs on `rows` rows. `constants` are additional arguments behind the arrays."""

    def __init__(self, program: NativeProgram, inputs: int, results: Sequence[TensorType],
                 constants: Sequence[Any] = (), rows: int = 0, arena: int = 0) -> None:
        """`arena`: the bytes of its temporaries."""
        self._program, self._rows, self._constants = program, rows, constants
        self._results = [memory.maker(t.shape, t.dtype) for t in results]
        size = max(arena, memory.SMALLEST)  # from which on memory begins on a cache line
        self._arena = memory.maker((size,), np.dtype("uint8")) if arena else _no_arena
        pair = array.array("Q", [program.address, rows])
        run, about = ("fusewire_rows", pair.buffer_info()[0]) if rows else \
            ("fusewire_run", program.address)
        short = program.nanoseconds(rows) < SHORT_NANOSECONDS
        call = NativeCall(run, about, short, inputs, len(results), ())
        self._launch = launcher(call, constants, keep_alive=(pair, program))

    def __call__(self, arrays: list[Any]) -> list[Any] | None:
        """The results, in new memory; None if an input is not contiguous."""
        results = []
        for make in self._results:  # a comprehension would cost a call
            results.append(make())
        arena = self._arena()
        if self._launch(arrays, results, arena):
            return results
        if not all(map(is_contiguous, arrays)):
            return None
        addresses = map(address, (*arrays, *self._constants, *results))
        table = array.array("Q", [self._rows, *addresses] if self._rows else addresses)
        self._program.run(table.buffer_info()[0], 0 if arena is None else address(arena))
        return results


def _no_arena() -> None:
    return None
