"""What every library has in common with its callers: error codes, dtypes, and their C types.

The header, the native code and the documentation are written from these tables.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

VERSION = 1  # of the interface: a call of another one is refused
ALIGN = 64  # bytes: what memory for work and for weights is aligned to
MOST_SIZES = 8


class Code(IntEnum):
    """What a function of a library returns."""

    OK = 0
    NULL = 1
    VERSION = 2
    COUNT = 3
    SIZE = 4
    DTYPE = 5
    RANK = 6
    SHAPE = 7
    ALIGNMENT = 8
    OVERLAP = 9
    WEIGHTS = 10
    WORKSPACE = 11
    MEMORY = 12
    INDEX = 13
    FILE = 14


MESSAGES = {
    Code.OK: "all is well",
    Code.NULL: "a pointer is NULL that must not be",
    Code.VERSION: "the call was made for another version of this interface: see its member `abi`",
    Code.COUNT: "a wrong number of inputs, outputs or sizes",
    Code.SIZE: "a size is less than 1, larger than the library was built for, or none that it was "
               "built for",
    Code.DTYPE: "an array has another dtype than the library was built for",
    Code.RANK: "an array has another number of axes than the library was built for",
    Code.SHAPE: "the shape of an array is not that which the sizes of the call give",
    Code.ALIGNMENT: "a pointer is not aligned: arrays to their elements, workspace and weights to "
                    "64 bytes",
    Code.OVERLAP: "an output overlaps with an input, another output or the workspace",
    Code.WEIGHTS: "the weights are not those of this library, cut off or damaged",
    Code.WORKSPACE: "the workspace is smaller than the library needs for these sizes",
    Code.MEMORY: "there is no memory for the workspace",
    Code.INDEX: "an index is out of range",
    Code.FILE: "the file of weights cannot be opened or mapped",
}
UNKNOWN = "no code of this library"


class ElementType(NamedTuple):
    """A dtype: its number, and the C type of an element."""

    number: int
    c: str


# Numbers never change: a new dtype gets a new one. The order is that of a switch in native code.
DTYPES = {
    "bool": ElementType(1, "uint8_t"),
    "int8": ElementType(2, "int8_t"), "int16": ElementType(3, "int16_t"),
    "int32": ElementType(4, "int32_t"), "int64": ElementType(5, "int64_t"),
    "uint8": ElementType(6, "uint8_t"), "uint16": ElementType(7, "uint16_t"),
    "uint32": ElementType(8, "uint32_t"), "uint64": ElementType(9, "uint64_t"),
    "float16": ElementType(10, "uint16_t"), "bfloat16": ElementType(11, "uint16_t"),
    "float32": ElementType(12, "float"), "float64": ElementType(13, "double"),
}


def number_of(dtype: Any) -> int:
    """The number by which callers name a dtype."""
    return DTYPES[dtype.name].number
