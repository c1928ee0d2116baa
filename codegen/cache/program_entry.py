"""Encodes the interface of a program, without its machine code, as bytes for an entry on disk.

The bytes are JSON, followed by the arrays of constants. Reading them creates only objects of the
classes below and runs nothing that the bytes name, so an entry can do no more than the machine code
that belongs to it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ...capture.passes.bounds_checks import BoundsCheck
from ...capture.sizes.size_expr import Quotient, SizeExpr, SizeSymbol
from ...eager.arrays.shapes import TensorType
from ...eager.errors import FusewireError
from ..dynamic.dynamic_program import DynamicProgram
from ..program.executable import Interface
from ..program.native_program import ProgramFacts
from ..program.prepack import PrepackedBuffers
from ..program.prepacked_executable import Parts
from .json_codec import DATA, Codec, Decoder, Encoder, Unsaved, record

SIZES: dict[Any, Codec] = {
    SizeExpr: Codec("expr", lambda x, to: [to.value(x.terms)],
                    lambda parts, of: SizeExpr(dict(of.value(parts[0])))),
    SizeSymbol: record(SizeSymbol), Quotient: record(Quotient)}
"""The kinds of symbolic sizes."""
PARTS: dict[Any, Codec] = {**SIZES, **{cls: record(cls) for cls in (
    Interface, BoundsCheck, PrepackedBuffers, DynamicProgram)}}
"""The kinds of what programs are called with."""

_CODECS = {**DATA, **PARTS, ProgramFacts: record(ProgramFacts), Parts: record(Parts),
           TensorType: record(TensorType)._replace(key=lambda kind: kind)}  # few, seen often
_DECODE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
                  ValueError, FusewireError)


class Damaged(ValueError):
    """Raised for bytes that are not an intact entry."""


def to_bytes(value: Any) -> bytes:
    """The bytes of a value; empty if a part of it cannot be stored."""
    to = Encoder(_CODECS, None)
    try:
        written = to.value(value)
    except Unsaved:
        return b""
    arrays = {name: np.ascontiguousarray(array).tobytes() for name, array in to.arrays.items()}
    head = {"value": written, "rows": to.rows, "arrays": [[n, len(a)] for n, a in arrays.items()]}
    return b"\n".join([json.dumps(head).encode(), b"".join(arrays.values())])


def from_bytes(raw: bytes) -> Any:
    """The value that `to_bytes` encoded. Raises Damaged for other bytes."""
    try:
        return _read(raw)
    except _DECODE_ERRORS as error:
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
    of = Decoder(_CODECS, arrays, None)
    of.rows(about["rows"])
    return of.value(about["value"])
