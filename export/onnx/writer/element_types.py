"""Names the element types of ONNX: by their codes, and by the words of schemas."""

from __future__ import annotations

# The element types of ONNX by their codes, from 1.
TYPES = dict(enumerate((
    "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "str", "bool", "float16",
    "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn",
    "float8_e8m0fnu", "uint2", "int2"), 1))
_WORDS = {"string": "str", "float": "float32", "double": "float64", "float4e2m1": "float4_e2m1fn",
          "float8e8m0": "float8_e8m0fnu"}


def name_in_schema(word: str) -> str:
    """The name of the element type that schemas call `word`, as in "tensor(float8e5m2)"."""
    return _WORDS.get(word, word.replace("float8e", "float8_e"))
