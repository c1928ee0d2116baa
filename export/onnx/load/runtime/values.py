"""Defines the values of a loaded model: tensors, and values that Python computes.

A size is an int and a shape a tuple of ints. A trace keeps these symbolic, so a model that computes
shapes compiles and exports for any size. They become tensors if an operator needs one. A sequence
is a list, an empty optional is None. Strings are NumPy arrays of Python's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import Tensor, tensor
from .....eager.errors import DTypeError, ImportModelError
from .....eager.ops.create import zeros
from .....eager.ops.shape.join import stack
from ...writer.element_types import TYPES

MAX_CREATED_BYTES = 1 << 31  # of an array that a model creates from sizes alone


def np_dtype(name: str) -> Any:
    """The NumPy dtype of the type `name`."""
    if name == "str":
        return np.dtype(object)
    return dtypes.DTYPES[name]


def type_name(code: Any) -> str:
    """The name of the type with the code `code` in ONNX."""
    if code not in TYPES:
        raise ImportModelError(f"element type {code!r} does not exist in ONNX")
    return TYPES[code]


def is_plain(value: Any) -> bool:
    """True for a size or a shape: an int, or a tuple of ints."""
    return isinstance(value, (int, tuple)) and not isinstance(value, Tensor)


def is_tensor(value: Any) -> bool:
    """True for a tensor."""
    return isinstance(value, Tensor)


def is_texts(value: Any) -> bool:
    """True for an array of strings."""
    return isinstance(value, np.ndarray)


def tensor_of(value: Any) -> Any:
    """A value as a tensor; sizes become int64. Lists and None are returned unchanged."""
    if isinstance(value, Tensor) or value is None or isinstance(value, list):
        return value
    if isinstance(value, np.ndarray):
        raise ImportModelError("an operator computes with a tensor of texts",
                               "Cast them to numbers first")
    if isinstance(value, tuple):
        return _of_sizes(value)
    if type(value) in (bool, int, float):
        return tensor(value)
    return zeros((), dtype=dtypes.int64) + value  # a symbolic size or number


def _of_sizes(sizes: tuple[Any, ...]) -> Tensor:
    if all(type(n) in (int, bool) for n in sizes):
        return tensor(sizes) if sizes else zeros(0, dtype=dtypes.int64)
    return stack([tensor_of(n) for n in sizes])


def ints(value: Any) -> Any:
    """A tuple of numbers: of a size, a shape, or a tensor of integers; None stays None."""
    if value is None or isinstance(value, tuple):
        return value
    if isinstance(value, Tensor):
        elements = value.tolist()
        return tuple(elements) if isinstance(elements, list) else (elements,)
    if isinstance(value, (list, np.ndarray)):
        raise DTypeError(f"expected a vector of integers, got {type(value).__name__}")
    return (value,)


def number(value: Any) -> Any:
    """A Python number: of a size, or a tensor with one element; None stays None."""
    if isinstance(value, Tensor):
        return value.reshape(()).item()  # type: ignore[attr-defined]
    if isinstance(value, tuple):
        if len(value) != 1:
            raise DTypeError(f"expected one number, got {len(value)}: {value}")
        return value[0]
    return value


def text(value: Any) -> Any:
    """A string: an attribute, or the first element of an array."""
    return value.reshape(-1)[0] if isinstance(value, np.ndarray) else value


def anything(value: Any) -> Any:
    """The value, unchanged."""
    return value


def check_room(shape: Any, dtype: Any) -> None:
    """Raises ImportModelError for an array beyond the limit for created arrays.

    Symbolic sizes are not checked, as a comparison would add a condition to the trace.
    """
    count = math.prod(map(int, shape)) if all(type(n) in (int, np.int64) for n in shape) else 0
    if count * np.dtype(dtype).itemsize > MAX_CREATED_BYTES:
        raise ImportModelError(f"the model requests an array of shape {tuple(shape)}",
                               f"the limit for arrays created from sizes is {MAX_CREATED_BYTES} "
                               "bytes")


def array_of(value: Any) -> Any:
    """A value as a NumPy array, a list of arrays, or None."""
    if isinstance(value, list):
        return [array_of(v) for v in value]
    if value is None or isinstance(value, np.ndarray):
        return value
    return tensor_of(value).numpy()


def value_of(array: Any) -> Any:
    """An argument as a value: arrays become tensors if tensors support their dtype."""
    if isinstance(array, (list, tuple)):
        return [value_of(v) for v in array]
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if not isinstance(array, np.ndarray):
        return tensor(array) if isinstance(array, (bool, int, float)) else array
    if array.dtype.kind in "US":
        array = array.astype(object)
    return tensor(array) if array.dtype in dtypes.OWN else array
