"""Scales random numbers in the memory that they were drawn to."""

from __future__ import annotations

import numpy as np

from ... import interpreter
from ...arrays.memory import is_whole
from ...core.tensor import Tensor


def scaled(draws: Tensor, factor: float, offset: float) -> Tensor:
    """draws * factor + offset, for a tensor that has no other reference.

    Eager, NumPy writes it to the memory of `draws`. Native code for two steps would take longer to
    compile than to use once.
    """
    if interpreter.in_use or draws.edge is not None:
        return draws * factor + offset
    array = draws._data
    number = array.dtype.type
    product = np.multiply(array, number(factor),
                          out=array if is_whole(array) else np.empty_like(array))
    return Tensor(np.add(product, number(offset), out=product))
