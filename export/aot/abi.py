"""Defines the binary interface of libraries: error codes, dtypes and their C types.

The header and the native code are generated from these tables.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

VERSION = 1  # of the interface: a library refuses calls of another version
ALIGN = 64  # bytes: the alignment of workspace and weights
MAX_SIZES = 8


class Code(IntEnum):
    """The return codes of a library's functions."""

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
    NUMBER = 15


MESSAGES = {
    Code.OK: "success",
    Code.NULL: "a required pointer is NULL",
    Code.VERSION: "the call was made for another version of this interface: see its member `abi`",
    Code.COUNT: "the number of inputs, outputs or sizes is wrong",
    Code.SIZE: "a size is less than 1, above the maximum, or has no program in this library",
    Code.DTYPE: "the dtype of an array differs from the dtype that the library was built for",
    Code.RANK: "the rank of an array differs from the rank that the library was built for",
    Code.SHAPE: "the shape of an array does not match the sizes of the call",
    Code.ALIGNMENT: "a pointer is not aligned: arrays to their elements, workspace and weights to "
                    "64 bytes",
    Code.OVERLAP: "an output overlaps an input, another output or the workspace",
    Code.WEIGHTS: "the weights belong to another library, are truncated or damaged",
    Code.WORKSPACE: "the workspace is smaller than the library needs for these sizes",
    Code.MEMORY: "the workspace cannot be allocated",
    Code.INDEX: "an index is out of range",
    Code.FILE: "the file of weights cannot be opened or mapped",
    Code.NUMBER: "a Python number exceeds 64 bits, or Python would raise an error for it",
}
UNKNOWN = "unknown code"


class CDtype(NamedTuple):
    """A dtype: its number, and the C type of an element."""

    number: int
    c: str


# Callers are compiled with these numbers, so they never change. A new dtype gets a new number.
DTYPES = {
    "bool": CDtype(1, "uint8_t"),
    "int8": CDtype(2, "int8_t"), "int16": CDtype(3, "int16_t"),
    "int32": CDtype(4, "int32_t"), "int64": CDtype(5, "int64_t"),
    "uint8": CDtype(6, "uint8_t"), "uint16": CDtype(7, "uint16_t"),
    "uint32": CDtype(8, "uint32_t"), "uint64": CDtype(9, "uint64_t"),
    "float16": CDtype(10, "uint16_t"), "bfloat16": CDtype(11, "uint16_t"),
    "float32": CDtype(12, "float"), "float64": CDtype(13, "double"),
    **{name: CDtype(14 + i, "uint8_t") for i, name in enumerate((  # a byte for each number
        "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float4_e2m1fn", "int4", "uint4", "int2", "uint2"))},
}


def number_of(dtype: Any) -> int:
    """The number of a dtype in the binary interface."""
    return DTYPES[dtype.name].number
