"""Constructors by dtype, such as `torch.LongTensor`, and names of dtypes."""

from __future__ import annotations

from typing import Any

from .base.meanings import NAMES_OF_TYPES
from .base.package import fw
from .base.tensor_class import Tensor, retag


class _TypeOfTensors(type):
    """The class of `FloatTensor` and others: tensors of its dtype are its instances."""

    dtype_of_elements: Any

    def __call__(cls, *data: Any) -> Any:
        dtype = cls.dtype_of_elements
        if data and all(isinstance(n, int) for n in data):
            return retag(fw.zeros(*data, dtype=dtype))
        values = data[0] if data else []
        return retag(fw.tensor(values, dtype=dtype))

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype == cls.dtype_of_elements


TYPES = {name: _TypeOfTensors(name, (), {"dtype_of_elements": getattr(fw, dtype)})
         for dtype, name in NAMES_OF_TYPES.items()}
DTYPES = {"float": fw.float32, "double": fw.float64, "half": fw.float16, "int": fw.int32,
          "long": fw.int64, "short": fw.int16, "cfloat": fw.complex64, "cdouble": fw.complex128}
