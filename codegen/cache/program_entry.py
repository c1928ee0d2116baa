"""Programs without their machine code as bytes: what an entry on disk says of how one is called.

The bytes are JSON, and the arrays of constants after it. Reading them makes objects of the classes
below and runs nothing that the bytes name: an entry can do no more than the machine code that
belongs to it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ...capture.passes.bounds_checks import BoundsCheck
from ...eager.arrays.shapes import TensorType
from ...eager.errors import FusewireError
from ..dynamic.dynamic_program import DynamicProgram
from ..dynamic.prime_unification import SizeFormula
from ..program.executable import Interface
from ..program.native_program import ProgramFacts
from ..program.prepack import PrepackedBuffers
from ..program.prepacked_executable import Parts
from .codec import DATA, Kind, Reading, Unsaved, Writing, record

PARTS: dict[Any, Kind] = {cls: record(cls) for cls in (Interface, BoundsCheck, PrepackedBuffers,
                                                       SizeFormula, DynamicProgram)}
"""The kinds of what programs are called with."""

_KINDS = {**DATA, **PARTS, ProgramFacts: record(ProgramFacts), Parts: record(Parts),
          TensorType: record(TensorType)._replace(key=lambda kind: kind)}  # few, met often
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
           FusewireError)


class Damaged(ValueError):
    """Bytes that are no entry."""


def to_bytes(value: Any) -> bytes:
    """The bytes of a value; empty where something in it has no place in an entry."""
    to = Writing(_KINDS, None)
    try:
        written = to.value(value)
    except Unsaved:
        return b""
    arrays = {name: np.ascontiguousarray(array).tobytes() for name, array in to.arrays.items()}
    head = {"value": written, "rows": to.rows, "arrays": [[n, len(a)] for n, a in arrays.items()]}
    return b"\n".join([json.dumps(head).encode(), b"".join(arrays.values())])


def from_bytes(raw: bytes) -> Any:
    """The value that `to_bytes` made the bytes of. Damaged where they are no such bytes."""
    try:
        return _read(raw)
    except _FAULTS as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


def _read(raw: bytes) -> Any:
    head, _, data = raw.partition(b"\n")
    about, arrays, start = json.loads(head), {}, 0
    for name, size in about["arrays"]:
        part = np.frombuffer(data, np.uint8, size, start)
        arrays[name] = part.copy()  # aligned, and nobody else's
        start += size
    if start != len(data):
        raise ValueError(f"{len(data)} bytes of arrays, of which {start} are named")
    of = Reading(_KINDS, arrays, None)
    of.rows(about["rows"])
    return of.value(about["value"])
