"""Exports every operator by name, as source of loaded models calls them: `op.Relu(x)`.

An older version of an operator that computes something else has its version in the name:
`op.Softmax_1`. The module also exports the functions that control flow is written with.
"""

from __future__ import annotations

from ..runtime.table import OPERATORS
from . import (
    contractions,
    convolution,
    image,
    learning,
    moving,
    normalization,
    optimizers,
    pointwise,
    pooling,
    quantized,
    random,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    signals,
    texts,
)
from .control import iteration, length, number, result, slices, stacked

__all__ = ["iteration", "length", "number", "result", "slices", "stacked"]

globals().update({entry.label: entry for versions in OPERATORS.values() for entry in versions})
