"""The format "fusewire" of Hugging Face `datasets`: `dataset.with_format("fusewire")`.

Source: `TensorFormatter` in datasets/formatting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtypes
from ...core.tensor import Tensor
from ...ops.create import asarray
from ...ops.shape.join import stack

__all__: list[str] = []


def register(formatting: Any) -> None:
    """Adds the format; `formatting` is the module `datasets.formatting`."""
    formatter = type("FusewireFormatter", (_Tensors, formatting.NumpyFormatter), {})
    formatting._register_formatter(formatter, __name__.partition(".")[0], aliases=["fw"])


class _Tensors:
    """Makes tensors of what the formatter of NumPy makes arrays of.

    `np_array_kwargs` are the options of `with_format`: `dtype` and `device`.
    """

    np_array_kwargs: dict[str, Any]

    def _tensorize(self, value: Any) -> Any:
        """A tensor for numbers: float32, or int64 for integers. Arrays of text are lists."""
        if isinstance(value, (str, bytes, type(None))):
            return value
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            return array.tolist()
        default = {"f": dtypes.float32, "b": dtypes.bool}.get(array.dtype.kind, dtypes.int64)
        return asarray(array, **{"dtype": default, **self.np_array_kwargs})

    def _consolidate(self, column: Any) -> Any:
        """One tensor for a list of tensors of equal shape, else the list."""
        if not isinstance(column, list) or not column or not isinstance(column[0], Tensor):
            return column
        first = column[0]
        alike = all(isinstance(x, Tensor) and x.shape == first.shape and x.dtype == first.dtype
                    for x in column)
        return stack(column) if alike else column
