"""The weights of a library: one block of memory, inside of the object file or in a file beside it.

    bytes 0 ... 15     "fusewire weights"
    bytes 16 ... 23    the version of this layout
    bytes 24 ... 31    the size of the whole block in bytes
    bytes 32 ... 39    a checksum of what follows the first 64 bytes (see `checksum`)
    bytes 40 ... 63    the beginning of the SHA-256 of what follows

Numbers are little-endian. The arrays follow, each at a multiple of 64 bytes, as kernels read them:
weights of products and convolutions are packed, and so are no good to anybody else.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from ...codegen.program.arena import padded

MAGIC = b"fusewire weights"
LAYOUT = 1
HEAD = 64  # bytes
FACTOR = 0x9E3779B97F4A7C15  # of the checksum
_BLOCK = 1 << 20  # words at once


class WeightPool:
    """Arrays, of which equal ones are held once."""

    def __init__(self) -> None:
        self.end = HEAD
        self._arrays: list[tuple[int, Any]] = []
        self._known: dict[Any, int] = {}

    def add(self, array: Any) -> int:
        """Where the elements of an array will be, in bytes from the beginning."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = raw.nbytes, hashlib.sha256(raw.data).digest()
        if key not in self._known:
            self._known[key] = self.end
            self._arrays.append((self.end, raw))
            self.end += padded(raw.nbytes)
        return self._known[key]

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not self._arrays

    def block(self) -> bytes:
        """All of it."""
        block = np.zeros(self.end, np.uint8)
        for start, raw in self._arrays:
            block[start:start + raw.nbytes] = raw
        rest = block[HEAD:]
        head = MAGIC + struct.pack("<QQQ", LAYOUT, self.end, checksum(rest)) + \
            hashlib.sha256(rest.data).digest()[:24]
        block[:HEAD] = np.frombuffer(head, np.uint8)
        return block.tobytes()


def checksum(raw: Any) -> int:
    """The sum, modulo 2**64, of all words of 8 bytes, each mixed and times an odd number that tells
    its place: for accidents, not against malice."""
    total = 0
    words = raw.view("<u8")
    with np.errstate(over="ignore"):
        for first in range(0, len(words), _BLOCK):
            mixed = words[first:first + _BLOCK] * np.uint64(FACTOR)
            mixed ^= mixed >> np.uint64(32)
            places = np.arange(first, first + len(mixed), dtype=np.uint64)
            total += int((mixed * (places * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64))
    return total % (1 << 64)
