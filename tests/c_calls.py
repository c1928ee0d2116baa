"""Calls libraries through ctypes, as C does: with valid calls, and with calls changed at random.

    python tests/c_calls.py model.so SEED COUNT     makes many invalid calls
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.export.aot.abi import DTYPES

_P, _N, _I = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
LARGEST = 8  # of the batch
WIDE = (1 << 62, -1, 0, -(1 << 63), 9, 3, 1 << 31)  # numbers that are invalid in most members


class Array(ctypes.Structure):
    """`fusewire_array`."""

    _fields_ = (("data", _P), ("shape", ctypes.POINTER(_N)), ("rank", _I), ("dtype", _I))


class Call(ctypes.Structure):
    """`fusewire_call`."""

    _fields_ = (("abi", _N), ("inputs", ctypes.POINTER(Array)), ("input_count", _N),
                ("outputs", ctypes.POINTER(Array)), ("output_count", _N),
                ("sizes", ctypes.POINTER(_N)), ("size_count", _N),
                ("workspace", _P), ("workspace_bytes", _N), ("weights", _P), ("weights_bytes", _N),
                ("parallel_for", _P), ("context", _P))


class Library:
    """A library with inputs float32[batch, 4] and int64[batch], indices below 5, and one output."""

    def __init__(self, path: str, weights: Any = None) -> None:
        self.native = ctypes.CDLL(path)
        self.native.model_error.restype = ctypes.c_char_p
        self.native.model_workspace.restype = _N
        # Memory for the largest sizes: a call may use all sizes that the library allows.
        self.memory = [aligned(LARGEST * 4 * 4), aligned(LARGEST * 8), aligned(LARGEST * 4 * 64),
                       aligned(1 << 20)]
        self.weights = weights
        x, index, self.out, self.work = self.memory
        x.view(np.float32)[:] = np.arange(LARGEST * 4)
        index.view(np.int64)[:] = np.arange(LARGEST) % 5

    def call(self, batch: int = 3, columns: int = 3) -> Call:
        """A valid call."""
        x, index, out, work = [a.ctypes.data for a in self.memory]
        sizes = (_N * 8)(batch)
        shapes = [(_N * 8)(batch, 4), (_N * 8)(batch), (_N * 8)(batch, columns)]
        inputs = (Array * 4)(Array(x, shapes[0], 2, 12), Array(index, shapes[1], 1, 5))
        outputs = (Array * 4)(Array(out, shapes[2], 2, 12))
        call = Call(1, inputs, 2, outputs, 1, sizes, 1, work, 1 << 20)
        if self.weights is not None:
            call.weights, call.weights_bytes = self.weights.ctypes.data, self.weights.nbytes
        call.held = (sizes, shapes, inputs, outputs)
        return call

    def run(self, call: Call | None) -> int:
        """The code that a call returns."""
        return int(self.native.model_run(None if call is None else ctypes.byref(call)))


def code_and_outputs(path: str, arrays: Sequence[Any], like: Sequence[Any],
                     sizes: Sequence[int] = ()) -> tuple[int, list[Any]]:
    """The code that a call of the library `model` returns, and its outputs in arrays like `like`.
    Contiguous inputs are passed as they are, so that the library can update states."""
    native = ctypes.CDLL(path)
    inputs = [np.ascontiguousarray(a) for a in arrays]
    outputs = [np.empty_like(np.ascontiguousarray(a)) for a in like]
    shapes = [(_N * 8)(*a.shape) for a in (*arrays, *like)]
    arguments = [Array(a.ctypes.data, shape, b.ndim, DTYPES[a.dtype.name].number)
                 for a, b, shape in zip((*inputs, *outputs), (*arrays, *like), shapes)]
    call = Call(1, (Array * 32)(*arguments[:len(inputs)]), len(inputs),
                (Array * 32)(*arguments[len(inputs):]), len(outputs), (_N * 8)(*sizes), len(sizes))
    code = native.model_run(ctypes.byref(call))
    return code, [a.reshape(b.shape) for a, b in zip(outputs, like)]


def outputs_of(path: str, arrays: Sequence[Any], like: Sequence[Any], sizes: Sequence[int] = ()
               ) -> list[Any]:
    """The outputs of the library `model` for these inputs, in arrays like `like`."""
    code, outputs = code_and_outputs(path, arrays, like, sizes)
    assert code == 0, code
    return outputs


def aligned(size: int) -> Any:
    """An array of `size` bytes that begins at a multiple of 64."""
    data = np.zeros(size + 64, np.uint8)
    start = -data.ctypes.data % 64
    return data[start:start + size]


def _set(name: str, *values: Any) -> Callable[[Call, random.Random], None]:
    """A change of a member of the call."""
    return lambda call, rng: setattr(call, name, rng.choice(values))


def _array(name: str, *values: Any) -> Callable[[Call, random.Random], None]:
    """A change of a member of one of the call's arrays."""
    def change(call: Call, rng: random.Random) -> None:
        arrays = [call.held[2][0], call.held[2][1], call.held[3][0]]
        setattr(rng.choice(arrays), name, rng.choice(values))

    return change


def _numbers(which: int) -> Callable[[Call, random.Random], None]:
    """A change of a size (0) or of a shape (1)."""
    def change(call: Call, rng: random.Random) -> None:
        numbers = call.held[0] if which == 0 else rng.choice(call.held[1])
        numbers[rng.randrange(2)] = rng.choice(WIDE)

    return change


def _moved(call: Call, rng: random.Random) -> None:
    """Changes a pointer so that it is not aligned."""
    array = rng.choice([call.held[2][0], call.held[2][1], call.held[3][0]])
    array.data = (array.data or 0) + 1


CHANGES = [
    _set("abi", *WIDE), _set("input_count", *WIDE), _set("output_count", *WIDE),
    _set("size_count", *WIDE), _set("inputs", None), _set("outputs", None), _set("sizes", None),
    _set("workspace", None), _set("workspace_bytes", *WIDE), _set("weights", None),
    _set("weights_bytes", *WIDE), _array("data", None), _array("shape", None),
    _array("rank", 0, 1, 3, -1, 1 << 30), _array("dtype", 0, 1, 13, 99, -5), _numbers(0),
    _numbers(1), _moved,
]


def fuzz(library: Library, seed: int, count: int) -> dict[int, int]:
    """Counts of the codes that invalid calls return."""
    rng, counts = random.Random(seed), dict[int, int]()
    for _ in range(count):
        call = library.call(rng.randrange(1, LARGEST + 1))
        for change in rng.sample(CHANGES, rng.randrange(1, 4)):
            change(call, rng)
        code = library.run(call)
        counts[code] = counts.get(code, 0) + 1
    return counts


if __name__ == "__main__":
    print(fuzz(Library(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
