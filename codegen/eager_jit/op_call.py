"""Calls the native code of an eager op, and chooses the arrays that the code reads.

All native code of eager ops runs through `OpCall`. The code reads whole arrays from the start of
their memory, so an input of another layout is copied first, or left to NumPy if it is too large.
Results are in new memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ...capture.graph.graph import Graph
from ...capture.heap.code_tracker import unobserved
from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.errors import FusewireError
from ..compile import compile_native
from ..program.native_call import ProgramCall, is_contiguous

Arrays = list[Any]
Run = Callable[[Arrays], "Arrays | None"]
Call = Callable[[Sequence[Any]], "Arrays | None"]

UNLIMITED = 1 << 62  # elements


class OpCall:
    """Runs native code on an op's inputs, arrays and numbers. The result is None if NumPy is as
    good, since large inputs would have to be copied first."""

    __slots__ = ("_broadcast", "_code", "_dtype", "_max_copied_elements", "_reads")

    def __init__(self, code: Run, reads: Sequence[int] | None = None,
                 broadcast: Sequence[int] = (), dtype: Any = None,
                 max_copied_elements: int = UNLIMITED) -> None:
        """`code(arrays)` runs the code, or returns None if an array is not contiguous. `reads`: the
        inputs that it reads; None if it reads all as they are. `broadcast`: inputs of which it
        reads one element. `dtype`: of the arrays that numbers become. Inputs of more than
        `max_copied_elements` are not copied, unless all their elements are one in memory."""
        self._code, self._reads, self._broadcast = code, reads, frozenset(broadcast)
        self._dtype, self._max_copied_elements = dtype, max_copied_elements

    def run(self, inputs: Sequence[Any]) -> Arrays | None:
        """The results for these inputs."""
        reads = self._reads
        if reads is not None:
            inputs = [self._array(i, inputs[i]) for i in reads]
        results = self._code(inputs if type(inputs) is list else [*inputs])
        return self._run_on_copies([*inputs]) if results is None else results

    def _array(self, number: int, x: Any) -> Any:
        """The array that the code reads of an input."""
        if not isinstance(x, np.ndarray):
            return np.asarray(x, self._dtype)
        return x[(0,) * x.ndim + (...,)] if number in self._broadcast else x

    def _run_on_copies(self, arrays: Arrays) -> Arrays | None:
        for i, a in enumerate(arrays):
            if not is_contiguous(a):
                if a.size > self._max_copied_elements and any(a.strides):
                    return None
                arrays[i] = np.array(a, order="C")
        return self._code(arrays)


def is_broadcast(x: Any) -> bool:
    """True if all elements of `x` are one element in memory, as in the gradient of a sum."""
    return x.size > 1 and not any(x.strides)


def numpy_nanoseconds(op: Op, types: Sequence[Any], params: dict[str, Any]) -> float:
    """About the time that NumPy takes for an op on arrays of these types, and numbers."""
    if op.work is not None:
        return op.work(*types, **params)
    return float(op.passes * max([t.size for t in types if isinstance(t, TensorType)], default=1))


def program_for(cache: Specializations[Any], key: Hashable, op: str, make: Callable[[], Any],
                work: float) -> Any:
    """The program of a key in a cache, from `make()` if it is new; None for a call that is too
    short for one more program, and for one that has no code.

    `work`: the nanoseconds of the call in NumPy."""
    def compiled() -> Any:
        # Files that the compiler reads are no effects of a traced function.
        with unobserved(), contextlib.suppress(FusewireError):
            return make()
        return None

    return cache.get(key, compiled, op, work)


def run_of_graph(graph: Graph) -> Run:
    """The code for a graph, for `OpCall`."""
    executable = compile_native(graph)
    if executable.is_plain:
        return ProgramCall(executable.program, len(graph.inputs), executable.interface.results,
                           executable.interface.constants, arena=executable.arena)
    return lambda arrays: executable(arrays) if all(map(is_contiguous, arrays)) else None
