"""Defines the context of a model being written, which the rows of the op table receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....capture.sizes.symbolic_dim import Dim
from .graph_writer import OnnxValue, Writer
from .pointwise_formulas import Builder, Number
from .size_expressions import SizeWriter


@dataclass(frozen=True)
class WriterContext:
    """A model being written: its writer, its sizes, and the builder of pointwise formulas."""

    writer: Writer
    sizes: SizeWriter
    k: Builder

    def reduce(self, kind: str, x: OnnxValue, axes: tuple[int, ...], keepdims: bool) -> OnnxValue:
        """A ReduceSum or similar node. Before opset 18, only ReduceSum has its axes as an input."""
        w = self.writer
        if kind == "ReduceSum" or w.opset >= 18:
            out = w.apply(kind, [x, w.ints(axes)], keepdims=int(keepdims))
        else:
            out = w.apply(kind, [x], axes=list(axes), keepdims=int(keepdims))
        return out

    def expand(self, x: OnnxValue, own: Any, shape: Any) -> OnnxValue:
        """`x` of shape `own` broadcast to `shape`. Computes only the sizes of axes that change."""
        padded = [1] * (len(shape) - len(own)) + list(own)
        target = [1 if size == old else size for size, old in zip(shape, padded)]
        if all(type(n) is int and n == 1 for n in target) and len(own) == len(shape):
            return x
        return self.writer.op("Expand", [x, self.sizes.vector(target)], x.dtype)

    def positions(self, size: Any) -> Any:
        """0, 1, ... size - 1: an array if the size is an int, else numbers in the model."""
        if type(size) is not Dim:
            return np.arange(size)
        w = self.writer
        limits = [w.const(np.int64(0)), self.sizes.number(size, np.int64), w.const(np.int64(1))]
        return Number(self.k, w.op("Range", limits, np.int64))

    def as_value(self, x: Any, dtype: Any) -> OnnxValue:
        """The tensor of an array or number: its own value, or a constant."""
        return x.value if isinstance(x, Number) else self.writer.const(np.asarray(x, dtype))

    def size_number(self, size: Any) -> Any:
        """A size for arithmetic with `positions`: an int, or a number in the model."""
        if type(size) is not Dim:
            return size
        return Number(self.k, self.sizes.number(size, np.int64))
