"""How native code is called with Python's objects: the function for that, and what it is told."""

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
_EXCLUSIVE = 3
SHORT_NANOSECONDS = 20_000  # programs that take less keep Python's lock

Launch = Callable[[list[Any], list[Any], Any], bool]
NOTHING: Mapping[int, Any] = {}


class _WatchedWords(bytes):
    """What native code reads, and the objects that have to stay as long as it may."""

    kept: Any


class NativeCall(NamedTuple):
    """What native code is called with: how to run it, where its program is, whether it keeps
    Python's lock; how many inputs and results there are; which inputs are written over."""

    run: str
    program: int
    keeps_lock: bool
    inputs: int
    results: int
    overwritten: Sequence[int]


def launcher(call: NativeCall, constants: Sequence[Any], same: Mapping[int, Any] = NOTHING,
             kept: Any = None) -> Launch:
    """launch(arrays, results, arena) makes the call, or refuses what needs a closer look: inputs,
    too, that are not the `same` arrays. What is `kept` lives as long."""
    if LAYOUT is None:
        return _refuses
    words = (entry(call.run), call.program, call.keeps_lock, call.inputs, len(constants),
             call.results, len(call.overwritten), len(same), *map(address, constants),
             *call.overwritten,
             *[word for number, array in same.items() for word in (number, id(array))])
    held = _WatchedWords(struct.pack(f"{len(words)}Q", *words))
    held.kept = constants, same, kept
    try:
        return function("launch", held)
    except CodegenError:  # no memory to make it in
        return _refuses


def _refuses(arrays: list[Any], results: list[Any], arena: Any) -> bool:
    """A call in Python takes its place."""
    return False


def make_ready(arrays: list[Any], overwritten: Sequence[int]) -> None:
    """Copies what is overwritten and not ours alone, and what is not contiguous."""
    for i in overwritten:
        if sys.getrefcount(arrays[i]) > _EXCLUSIVE or not memory.is_whole(arrays[i]) \
                or not arrays[i].flags.writeable:
            arrays[i] = arrays[i].copy()
    for i, a in enumerate(arrays):
        if not (a.flags.c_contiguous and a.flags.aligned):
            arrays[i] = np.array(a, order="C")


class ProgramCall:
    """A program as a function of arrays, to be called by several threads at once: one for a block
    of rows for so many of them, others as they are. What it reads beside the arrays it is called
    with are `constants`, behind those."""

    def __init__(self, program: NativeProgram, inputs: int, results: Sequence[TensorType],
                 constants: Sequence[Any] = (), rows: int = 0, arena: int = 0) -> None:
        """arena: the bytes that it works in."""
        self._program, self._rows, self._constants = program, rows, constants
        self._results = [memory.maker(t.shape, t.dtype) for t in results]
        size = max(arena, memory.SMALLEST)  # from which on memory begins on a cache line
        self._arena = memory.maker((size,), np.dtype("uint8")) if arena else _no_arena
        pair = array.array("Q", [program.address, rows])
        run, about = ("fusewire_rows", pair.buffer_info()[0]) if rows else \
            ("fusewire_run", program.address)
        short = program.nanoseconds(rows) < SHORT_NANOSECONDS
        call = NativeCall(run, about, short, inputs, len(results), ())
        self._launch = launcher(call, constants, kept=(pair, program))

    def __call__(self, arrays: list[Any]) -> list[Any] | None:
        """The results, in memory of their own; None where an input is not contiguous."""
        results = []
        for make in self._results:  # a comprehension would cost a call
            results.append(make())
        arena = self._arena()
        if self._launch(arrays, results, arena):
            return results
        if not all([a.flags.c_contiguous and a.flags.aligned for a in arrays]):
            return None
        held = map(address, (*arrays, *self._constants, *results))
        table = array.array("Q", [self._rows, *held] if self._rows else held)
        self._program.run(table.buffer_info()[0], 0 if arena is None else address(arena))
        return results


def _no_arena() -> None:
    return None


def contiguous(call: ProgramCall) -> Callable[[Sequence[Any]], Any]:
    """The one result of a call, whatever its inputs look like in memory: some are copied."""
    def run(arrays: Sequence[Any]) -> Any:
        found = call([*arrays])
        if found is None:
            found = call([np.require(a, requirements=["C", "A"]) for a in arrays])
        return None if found is None else found[0]

    return run
