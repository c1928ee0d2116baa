"""Joins tensors of one dtype along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import interpreter
from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.op import Op, Source, define
from ...core.tensor import Tensor
from ...errors import ShapeError
from ..batching import shifted
from ..elementwise.pointwise import alias
from .view import slice_axes


def _concat_result(*types: TensorType, axis: int) -> TensorType:
    return TensorType(_concat_shape([t.shape for t in types], axis), types[0].dtype)


def _concat_shape(shapes: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """The shape of tensors of these shapes joined along `axis`."""
    first = shapes[0]
    before, behind, total = first[:axis], first[axis + 1:], first[axis]
    for shape in shapes[1:]:
        if len(shape) != len(first) or shape[:axis] != before or shape[axis + 1:] != behind:
            raise _concat_error(first, shape, axis)
        total = total + shape[axis]
    return (*before, total, *behind)


def _concat_error(a: Any, b: Any, axis: int) -> ShapeError:
    text = f"concat: shapes {a} and {b} "
    if len(a) != len(b):
        return ShapeError(f"{text}have {len(a)} and {len(b)} axes",
                          "a missing axis is inserted with x[None], or use fw.stack")
    other = next(i for i, (m, n) in enumerate(zip(a, b)) if i != axis and m != n)
    joins = all(m == n for i, (m, n) in enumerate(zip(a, b)) if i != other)
    return ShapeError(f"{text}differ in more than axis {axis}: axis {other} is {a[other]} in one "
                      f"and {b[other]} in the other",
                      f"they would fit along axis={other}" if joins else
                      "all other sizes must be equal")


def _concat_read(k: Any, index: Any, types: Any, at: Any, axis: int) -> list[Source]:
    sources, start = [], 0
    for n, t in enumerate(types):
        stop = start + t.shape[axis]
        position = (*index[:axis], index[axis] - start, *index[axis + 1:])
        sources.append(Source(n, position, (index[axis] >= start) & (index[axis] < stop)))
        start = stop
    return sources


def _concat_vjp(needs: Any, g: Tensor, out: Tensor, *xs: Tensor, axis: int) -> list[Any]:
    result, start = [], 0
    for need, x in zip(needs, xs):
        begin = tuple(start if i == axis else 0 for i in range(x.ndim))
        result.append(slice_axes(g, begin, (1,) * x.ndim, x.shape) if need else None)
        start = start + x.shape[axis]
    return result


concat_op = define(Op(
    "concat", "view", _concat_result, lambda xp, *xs, axis: np.concatenate(xs, axis=axis),
    _concat_read, _concat_vjp, "Concat",
    batch=shifted("axis"), stored=True))


def concat_same_dtype(xs: Sequence[Tensor], axis: int) -> Tensor:
    """The tensors `xs` of one dtype, joined along `axis`, which is counted from the front."""
    if len(xs) == 1:
        return alias(xs[0])
    if interpreter.in_use:
        _concat_shape([x.shape for x in xs], axis)
    try:
        return apply(concat_op, tuple(xs), {"axis": axis})
    except Exception:
        _concat_shape([x.shape for x in xs], axis)  # raises the error that says what to do
        raise
