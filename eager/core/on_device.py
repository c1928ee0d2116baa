"""Runs ops on arrays of a GPU: by compiled code of an upper layer, or by CuPy.

Most implementations of ops serve NumPy and CuPy alike, as their functions have the same names. An
op's entry says where CuPy differs from NumPy or lacks a function (`why["cupy"]`): such an op runs
as compiled code or raises. Where CuPy is slow (`why["fast cupy"]`), compiled code comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import interpreter
from ..arrays import device_kernels, devices
from ..arrays.dtypes import bfloat16
from ..errors import DeviceError
from .op import Op
from .tape import no_grad
from .tensor import Tensor

# Set by an upper layer: returns the result of an op on arrays of one GPU and numbers as an array
# there, or None without code for it. The arrays may have any strides.
compiled: Callable[[Op, Sequence[Any], dict[str, Any]], Any] | None = None


def device_of(op: Op, arrays: Sequence[Any]) -> str:
    """The name of the GPU of the operands; DeviceError if they are on several devices.

    Arrays of the CPU without axes count as numbers.
    """
    names = {devices.of(a) for a in arrays if hasattr(a, "dtype")
             and (a.ndim or isinstance(a, devices.ndarray))}
    if len(names) > 1:
        raise DeviceError(f"{op.name}: the operands are on {_listed(names)}",
                          'bring them to one device first, as with x.to("cuda")')
    return names.pop()


def _listed(names: set[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}"


def run(op: Op, arrays: Sequence[Any], params: dict[str, Any], device: str) -> Any:
    """The result of an op on arrays of a GPU and numbers, as an array there."""
    with devices.current(device):
        reason = _why_not_cupy(op, arrays, params)
        if (reason or _is_better_compiled(op)) and compiled is not None:
            out = compiled(op, arrays, params)
            if out is not None:
                return out
        if reason:
            raise not_there(op, device, reason)
        if op.kind == "reduce" and op.meaning.combine in device_kernels.REDUCE:
            return device_kernels.reduce(op.meaning.combine, *arrays, **params)
        with devices.making_on(device), device_kernels.failing():
            if op.kind == "composite":
                return run_decomposition(op.meaning, arrays, params)
            return op.impl(device_kernels, *arrays, **params)


def run_decomposition(decompose: Callable[..., Tensor], arrays: Sequence[Any],
                      params: dict[str, Any]) -> Any:
    """The array that `decompose` computes by its ops, off the tape."""
    before, interpreter.STATE.active = interpreter.STATE.active, None
    try:
        with no_grad():
            return decompose(*[Tensor(a) if hasattr(a, "shape") else a for a in arrays],
                             **params)._data
    finally:
        interpreter.STATE.active = before


def _why_not_cupy(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> str:
    """The reason why CuPy's result would differ from NumPy's, or an empty text."""
    if params.get("dtype") == bfloat16 or any(getattr(a, "dtype", None) == bfloat16
                                              for a in arrays):
        return "CuPy has few functions for bfloat16"
    if op.kind == "scan" and op.meaning.combine not in device_kernels.SCAN:
        return "CuPy has no such scan"
    if op.kind == "pointwise" and _drops_fraction(arrays, params):
        return "CuPy converts nan and floats out of range to other integers than NumPy"
    return op.why.get("cupy", "")


def _is_better_compiled(op: Op) -> bool:
    """True if compiled code comes first although CuPy has the function."""
    return op.draws or op.kind == "composite" or "fast cupy" in op.why


def _drops_fraction(arrays: Sequence[Any], params: dict[str, Any]) -> bool:
    """True for a cast of floats to integers."""
    target = params.get("dtype")
    return target is not None and target.kind in "iu" and arrays[0].dtype.kind in "fc"


def not_there(op: Op, device: str, reason: str) -> DeviceError:
    """The error for an op that cannot run on a GPU."""
    return DeviceError(f"{op.name} does not run on {device}: {reason}",
                       'compute this part on the CPU: x.to("cpu"), then .to("cuda")')
