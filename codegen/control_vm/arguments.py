"""Tensors in, arrays out, if all is as it was: the native half of a call's short way."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...capture.replay.fast_path import ExpectedTensor
from ..runtime.cpython.entry import function
from ..runtime.cpython.mutation_watch import Words, contents
from ..runtime.cpython.object_layout import LAYOUT
from .lower import lower_control

__all__ = ["collector", "contents", "lower_control"]

_HEAD, _RECORD = 4, 6  # words
_ANY = -1  # a size that only has to be above 0


def collector(words: Words, given: Sequence[ExpectedTensor], held: Sequence[ExpectedTensor]
              ) -> Callable[..., Any] | None:
    """A function of tensors like `given`: the arrays of all, at their numbers; None where a word or
    a tensor's type differs. Without native code for it there is no function."""
    if LAYOUT is None:
        return None
    both = [*given, *held]
    arrays = sum(number >= 0 for _, number, _ in both)
    sizes: list[int] = []
    start = _HEAD + 2 * len(words) + _RECORD * len(both)
    records: list[int] = []
    for tensor, number, shape in both:
        dtype = tensor._data.dtype
        records += [id(type(tensor)), tensor.edge is not None, id(dtype), len(shape),
                    8 * (start + len(sizes)), number]
        sizes += [_ANY if size is None else size for size in shape]
    pairs = [part for pair in words for part in pair]
    raw = [len(words), len(given), len(held), arrays, *pairs, *records, *sizes]
    packed = b"".join([struct.pack("q" if n < 0 else "Q", n) for n in raw])
    kept = [(type(t), t._data.dtype) for t, *_ in both]  # their addresses stay taken
    return function("collect", (packed, tuple([t for t, *_ in held]), kept))
