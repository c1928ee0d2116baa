"""The functions that random programs call as `xp`, for NumPy and for fusewire.

Both namespaces have fusewire's names. `F`, `D` and `H` are the dtypes of floats with 32, 64 and 16
bits. A wide namespace has more precise ones in their stead, so the same program tells how much of
a result is rounding.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import fusewire as fw

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def is_float(dtype: Any) -> bool:
    """True for a floating-point dtype of NumPy or ml_dtypes."""
    return dtype.kind == "f" or dtype in HALVES.values()


class Namespace:
    """Dtypes of a program; `half` is the name of the 16-bit dtype in use."""

    def __init__(self, library: Any, half: str, wide: bool) -> None:
        self.wide = wide
        self.bool = library.bool
        for name in INTEGERS:
            setattr(self, name, getattr(library, name))
        self.F = library.float64 if wide else library.float32
        self.D = getattr(library, "longdouble", library.float64) if wide else library.float64
        self.H = library.float64 if wide else getattr(library, half, HALVES[half])

    def float_like(self, dtype: np.dtype) -> Any:
        """The dtype of this namespace for an input of the float dtype `dtype`."""
        return {2: self.H, 4: self.F, 8: self.D}[dtype.itemsize]


class Fusewire(Namespace):
    """fusewire's own functions."""

    def __init__(self, half: str, wide: bool = False) -> None:
        super().__init__(fw, half, wide)

    def __getattr__(self, name: str) -> Any:
        return getattr(fw, name)

    def array(self, values: np.ndarray) -> fw.Tensor:
        """`values` as a tensor, in the dtype of this namespace."""
        tensor = fw.asarray(values)
        return tensor.astype(self.float_like(values.dtype)) if is_float(values.dtype) else tensor


class Numpy(Namespace):
    """NumPy under fusewire's names; sums of 16-bit floats are sums in 32 bits, rounded once."""

    def __init__(self, half: str, wide: bool = False) -> None:
        super().__init__(np, half, wide)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def array(self, values: np.ndarray) -> np.ndarray:
        """A copy of `values` in the dtype of this namespace."""
        return values.astype(self.float_like(values.dtype) if is_float(values.dtype)
                             else values.dtype)

    def astype(self, x: Any, dtype: Any) -> Any:
        return np.asarray(x).astype(dtype)

    def _in_float32(self, function: Any, x: Any, *args: Any, **options: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.itemsize > 2 or not is_float(x.dtype):
            return function(x, *args, **options)
        return np.asarray(function(x.astype(np.float32), *args, **options)).astype(x.dtype)

    def sum(self, x: Any, **options: Any) -> Any:
        return self._in_float32(np.sum, x, **options)

    def mean(self, x: Any, **options: Any) -> Any:
        if np.ndim(x) == 0:  # np.mean takes no axis of it, as np.sum does
            options["axis"] = None
        return self._in_float32(np.mean, x, **options)

    def prod(self, x: Any, **options: Any) -> Any:
        return self._in_float32(np.prod, x, **options)

    def cumulative_sum(self, x: Any, axis: int) -> Any:
        if np.ndim(x) == 0:  # np.cumsum makes an axis of its own, the Array API wants one
            raise ValueError("cumulative_sum of a number")
        return self._in_float32(np.cumsum, x, axis=axis)

    def matmul(self, x: Any, y: Any) -> Any:
        if is_float(x.dtype) and x.dtype.itemsize == 2:
            return (x.astype(np.float32) @ y.astype(np.float32)).astype(x.dtype)
        return x @ y

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def relu(self, x: Any) -> Any:
        return np.where(np.isnan(x), x, np.maximum(x, np.zeros_like(x)))

    def softmax(self, x: Any, axis: int) -> Any:
        def function(x: Any) -> Any:
            powers = np.exp(x - x.max(axis=axis, keepdims=True))
            return powers / powers.sum(axis=axis, keepdims=True)
        return self._in_float32(function, x)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))

    def argsort(self, x: Any, axis: int) -> Any:
        return np.argsort(_ordered(x), axis=axis, stable=True)

    def argmax(self, x: Any, axis: int) -> Any:
        return np.argmax(_ordered(x), axis=axis)

    def argmin(self, x: Any, axis: int) -> Any:
        return np.argmin(_ordered(x), axis=axis)

    def sort(self, x: Any, axis: int) -> Any:
        return np.sort(_ordered(x), axis=axis).astype(x.dtype)

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        if indices.size and not x.shape[axis]:  # NumPy lets it pass where the result is empty
            raise IndexError("nothing to take")
        return np.take(x, indices, axis=axis)

    def index_add(self, x: Any, axis: int, index: Any, src: Any) -> Any:
        result = x.astype(np.float32) if is_float(x.dtype) and x.dtype.itemsize == 2 else x.copy()
        np.add.at(result, (*[slice(None)] * axis, index), src)
        return result.astype(x.dtype)

    def pad(self, x: Any, width: Any) -> Any:
        return np.pad(x, width)

    def copy(self, x: Any) -> Any:
        return np.array(x)

    def item(self, x: Any) -> Any:
        return np.asarray(x).item()


def _ordered(x: np.ndarray) -> np.ndarray:
    """`x`, or its values in float32 where its dtype has no order for NaN, as bfloat16 has none."""
    return x.astype(np.float32) if x.dtype == HALVES["bfloat16"] else x
