"""The kinds of memory blocks in `.pt` files, by PyTorch's names."""

from __future__ import annotations

from typing import Any

from ..base.package import fw

DTYPES: dict[str, Any] = {
    "FloatStorage": fw.float32, "DoubleStorage": fw.float64, "HalfStorage": fw.float16,
    "BFloat16Storage": fw.bfloat16, "LongStorage": fw.int64, "IntStorage": fw.int32,
    "ShortStorage": fw.int16, "CharStorage": fw.int8, "ByteStorage": fw.uint8,
    "BoolStorage": fw.bool, "ComplexFloatStorage": fw.complex64,
    "ComplexDoubleStorage": fw.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
