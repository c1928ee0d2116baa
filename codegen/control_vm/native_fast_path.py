"""Collects the arrays of a call natively and checks its guards: the native half of the fast path.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...capture.replay.fast_path import ExpectedTensor
from ..runtime.cpython.entry import function
from ..runtime.cpython.mutation_watch import Words, contents
from ..runtime.cpython.object_layout import LAYOUT
from .native_control import lower_control

__all__ = ["collector", "contents", "lower_control"]

_HEAD, _RECORD = 4, 6  # words
_ANY = -1  # a size that only has to be above 0


def collector(words: Words, arguments: Sequence[ExpectedTensor], closure: Sequence[ExpectedTensor]
              ) -> Callable[..., Any] | None:
    """A function from tensors like `arguments` to the arrays of all, at their numbers; it returns
    None if a watched word or a tensor's type differs. None if this interpreter has no native code
    for it."""
    if LAYOUT is None:
        return None
    both = [*arguments, *closure]
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
    raw = [len(words), len(arguments), len(closure), arrays, *pairs, *records, *sizes]
    packed = b"".join([struct.pack("q" if n < 0 else "Q", n) for n in raw])
    referents = [(type(t), t._data.dtype) for t, *_ in both]  # their addresses stay taken
    return function("collect", (packed, tuple([t for t, *_ in closure]), referents))
