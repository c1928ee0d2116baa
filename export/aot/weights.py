"""Lays out the weights of a library as one block, in the object file or in a file beside it.

    bytes 0 ... 15     "fusewire weights"
    bytes 16 ... 23    the version of this layout
    bytes 24 ... 31    the size of the whole block in bytes
    bytes 32 ... 39    a checksum of all bytes after the first 64 (see `checksum`)
    bytes 40 ... 63    the beginning of the SHA-256 of these bytes

Numbers are little-endian. The arrays follow, each at a multiple of 64 bytes, in the layout that
kernels read: weights of products and convolutions are packed, so only this library can use them.
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
_WORDS_PER_CHUNK = 1 << 20


class Weights:
    """The arrays of a block. Equal arrays are stored once."""

    def __init__(self) -> None:
        self.end = HEAD
        self._arrays: list[tuple[int, Any]] = []
        self._offsets: dict[Any, int] = {}

    def add(self, array: Any) -> int:
        """The offset in bytes of an array's elements in the block. Adds the array if it is new."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = data.nbytes, hashlib.sha256(data.data).digest()
        if key not in self._offsets:
            self._offsets[key] = self.end
            self._arrays.append((self.end, data))
            self.end += padded(data.nbytes)
        return self._offsets[key]

    @property
    def empty(self) -> bool:
        """True if the block has no arrays."""
        return not self._arrays

    def block(self) -> bytes:
        """The bytes of the whole block."""
        block = np.zeros(self.end, np.uint8)
        for start, data in self._arrays:
            block[start:start + data.nbytes] = data
        body = block[HEAD:]
        head = MAGIC + struct.pack("<QQQ", LAYOUT, self.end, checksum(body)) + \
            hashlib.sha256(body.data).digest()[:24]
        block[:HEAD] = np.frombuffer(head, np.uint8)
        return block.tobytes()


def checksum(data: Any) -> int:
    """The sum, modulo 2**64, of all words of 8 bytes. Each word is mixed and multiplied by an odd
    number that depends on its position. It detects accidents; it does not resist attacks."""
    total = 0
    words = data.view("<u8")
    with np.errstate(over="ignore"):
        for first in range(0, len(words), _WORDS_PER_CHUNK):
            mixed = words[first:first + _WORDS_PER_CHUNK] * np.uint64(FACTOR)
            mixed ^= mixed >> np.uint64(32)
            positions = np.arange(first, first + len(mixed), dtype=np.uint64)
            total += int((mixed * (positions * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64))
    return total % (1 << 64)
