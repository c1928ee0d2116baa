"""Computes index vectors whose size only values tell: one axis of `size` elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import interpreter
from ..arrays import cpu_kernels, devices, dtypes
from ..arrays.shapes import TensorType
from ..core.op import Op, define
from ..core.tensor import Tensor
from ..errors import ShapeError
from .transfer import beside

_WHY = {"vjp": "integers have no gradient",
        "meaning": "only run time tells the number of elements",
        "onnx": "a model's sizes follow from those of its inputs"}


def _result(x: TensorType, size: Any) -> TensorType:
    return TensorType((size,), dtypes.int64)


true_indices_op = define(Op(
    "true_indices", "opaque", _result,
    lambda xp, mask, size: np.flatnonzero(mask).astype(np.int64, copy=False), why=_WHY))


def _repeats(xp: Any, times: Any, size: Any) -> Any:
    counts = times.astype(np.int64)
    if counts.size and counts.min() < 0:
        raise ShapeError(f"repeat: {counts.min()} repeats", "elements are repeated 0 times or more")
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


repeats_op = define(Op("repeats", "opaque", _result, _repeats, why=_WHY))


def where_true(mask: Tensor) -> Tensor:
    """The indices at which `mask` is True, in row-major order: int64.

    Example:
        >>> import fusewire as fw
        >>> where_true(fw.tensor([True, False, True]))
        tensor([0, 2])
    """
    return _measured(true_indices_op, mask)


def repeated(times: Tensor) -> Tensor:
    """The indices 0 to len(times) - 1, each repeated as the vector `times` says: int64.

    Example:
        >>> import fusewire as fw
        >>> repeated(fw.tensor([2, 0, 1]))
        tensor([0, 0, 2])
    """
    return _measured(repeats_op, times)


def _measured(op: Op, x: Tensor) -> Tensor:
    """The result of `op`.

    Its size is a symbol if an interpreter can record that. Otherwise NumPy computes the result.
    """
    active = interpreter.STATE.active
    measured = None if active is None else active.apply_data_dependent(op, x)
    if measured is not None:
        return measured  # type: ignore[no-any-return]
    array = devices.host(x._data) if devices.is_elsewhere(x._data) else x.numpy()
    return beside(interpreter.note_constant(Tensor(run(op, array))), x)


def run(op: Op, array: Any) -> Any:
    """The result of such an op, which NumPy computes, on the device of the array."""
    out = op.impl(cpu_kernels, devices.host(array), size=None)
    return devices.moved(out, devices.of(array)) if devices.is_elsewhere(array) else out
