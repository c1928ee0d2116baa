"""What flows through a loaded model: tensors, and what is kept plain because Python computes it.

A size is a Python int, a shape a tuple of them: so they stay what the recorder calls sizes, and a
model that computes shapes compiles and exports for any size. They become tensors where an operator
needs one. Sequences are lists, an optional that is empty is None. Numbers of a dtype that no tensor
has (float8, 4 bits) and texts are NumPy arrays, which are stored and cast, not computed with.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import Tensor, tensor
from .....eager.errors import DTypeError, ImportModelError
from .....eager.ops.create import zeros
from .....eager.ops.shape.join import stack

# The numbers that ONNX gives its types, in order from 1.
TYPES = dict(enumerate((
    "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "str", "bool", "float16",
    "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn",
    "float8_e8m0fnu", "uint2", "int2"), 1))
MOST = 1 << 31  # bytes of what a model may ask for without giving as many


def np_dtype(name: str) -> Any:
    """The NumPy dtype of a type's name."""
    if name == "str":
        return np.dtype(object)
    return np.dtype(getattr(ml_dtypes, name, name))


def type_name(code: Any) -> str:
    """The name of the type that ONNX gives the number `code`."""
    if code not in TYPES:
        raise ImportModelError(f"a model names element type {code!r}, which ONNX does not have")
    return TYPES[code]


def is_plain(value: Any) -> bool:
    """Whether it is a size or a shape: an int, or a tuple of them."""
    return isinstance(value, (int, tuple)) and not isinstance(value, Tensor)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(value, Tensor)


def is_stored(value: Any) -> bool:
    """Whether it is of a dtype that no tensor has."""
    return isinstance(value, np.ndarray)


def tensor_of(value: Any) -> Any:
    """A value as a tensor: of int64 for sizes. Lists and None stay what they are."""
    if isinstance(value, Tensor) or value is None or isinstance(value, list):
        return value
    if isinstance(value, np.ndarray):
        raise ImportModelError(f"a tensor of {_named(value)} is computed with",
                               "such values are only stored: Cast them first")
    if isinstance(value, tuple):
        return _of_sizes(value)
    if type(value) in (bool, int, float):
        return tensor(value)
    return zeros((), dtype=dtypes.int64) + value  # a size that may vary, or a recorded number


def _named(array: Any) -> str:
    return "texts" if array.dtype == object else str(array.dtype.name)


def _of_sizes(sizes: tuple[Any, ...]) -> Tensor:
    if all(type(n) in (int, bool) for n in sizes):
        return tensor(sizes) if sizes else zeros(0, dtype=dtypes.int64)
    return stack([tensor_of(n) for n in sizes])


def ints(value: Any) -> Any:
    """A tuple of plain numbers: of a size, a shape, or a tensor of integers; None stays None."""
    if value is None or isinstance(value, tuple):
        return value
    if isinstance(value, Tensor):
        found = value.tolist()
        return tuple(found) if isinstance(found, list) else (found,)
    if isinstance(value, (list, np.ndarray)):
        raise DTypeError(f"a vector of integers is asked for, not {type(value).__name__}")
    return (value,)


def number(value: Any) -> Any:
    """One plain number: of a size, or a tensor with one element; None stays None."""
    if isinstance(value, Tensor):
        return value.reshape(()).item()  # type: ignore[attr-defined]
    if isinstance(value, tuple):
        if len(value) != 1:
            raise DTypeError(f"one number is asked for, not the {len(value)} of {value}")
        return value[0]
    return value


def text(value: Any) -> Any:
    """One text: of an attribute, or an array with one."""
    return value.reshape(-1)[0] if isinstance(value, np.ndarray) else value


def anything(value: Any) -> Any:
    """The value as it is."""
    return value


def check_room(shape: Any, dtype: Any) -> None:
    """ImportModelError for an array that no file of a reasonable size can mean.

    Sizes that vary while a model is recorded follow from its inputs: to ask would be a condition.
    """
    count = math.prod(map(int, shape)) if all(type(n) in (int, np.int64) for n in shape) else 0
    if count * np.dtype(dtype).itemsize > MOST:
        raise ImportModelError(f"the model asks for an array of shape {tuple(shape)}",
                               f"more than {MOST} bytes are not made from nothing")


def array_of(value: Any) -> Any:
    """A value as NumPy has it: an array, a list of them, or None."""
    if isinstance(value, list):
        return [array_of(v) for v in value]
    if value is None or isinstance(value, np.ndarray):
        return value
    return tensor_of(value).numpy()


def value_of(array: Any) -> Any:
    """An argument as a value: tensors of arrays, where a tensor can have their dtype."""
    if isinstance(array, (list, tuple)):
        return [value_of(v) for v in array]
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if not isinstance(array, np.ndarray):
        return tensor(array) if isinstance(array, (bool, int, float)) else array
    if array.dtype.kind in "US":
        array = array.astype(object)
    return tensor(array) if array.dtype in dtypes.OWN else array
