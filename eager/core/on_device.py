"""Runs ops on arrays of other devices than the CPU: by compiled code, or by the device's library.

The implementations of most ops serve all libraries that have NumPy's functions. The kind of devices
(`arrays/device_type.py`) says where its library differs from NumPy or lacks a function: such an op
runs as compiled code or raises. It also says for which ops compiled code comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import interpreter
from ..arrays import devices
from ..errors import DeviceError
from ..upper_layer import UPPER
from .op import Op
from .tape import no_grad
from .tensor import Tensor


def device_of(op: Op, arrays: Sequence[Any]) -> str:
    """The name of the device of the operands; DeviceError if they are on several devices.

    Arrays of the CPU without axes count as numbers.
    """
    names = {devices.of(a) for a in arrays if hasattr(a, "dtype")
             and (a.ndim or type(a) in devices.LOADED)}
    if len(names) > 1:
        first = min(names - {devices.CPU})
        raise DeviceError(f"{op.name}: the operands are on {_listed(names)}",
                          f'bring them to one device first, as with x.to("{first}")')
    return names.pop()


def _listed(names: set[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}"


def run(op: Op, arrays: Sequence[Any], params: dict[str, Any], device: str) -> Any:
    """The result of an op on arrays of a device and numbers, as an array there."""
    kind = devices.load_of(device)
    with devices.current(device):
        reason = kind.why_not_library(op, arrays, params)
        if (reason or kind.prefers_code(op)) and UPPER.device_op is not None:
            out = UPPER.device_op(op, arrays, params, device)
            if out is not None:
                return out
        if reason:
            raise not_there(op, device, reason)
        with devices.making_on(device):
            if op.kind == "composite":
                return run_decomposition(op.meaning, arrays, params)
            return kind.compute(op, arrays, params, devices.number_of(device))


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


def not_there(op: Op, device: str, reason: str) -> DeviceError:
    """The error for an op that cannot run on a device."""
    return DeviceError(f"{op.name} does not run on {device}: {reason}",
                       f'compute this part on the CPU: x.to("cpu"), then .to("{device}")')
