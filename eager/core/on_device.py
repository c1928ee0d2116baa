"""Ops on arrays that are on a GPU: by code of ours where an upper layer has it, else by CuPy.

Most implementations of ops are the same for NumPy and CuPy, whose functions take each other's
place. Where CuPy computes something else than NumPy, or nothing, an op's entry says so
(`why["cupy"]`): such an op runs as compiled code, or not at all. Where it takes long
(`why["fast cupy"]`), compiled code comes first.
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

# Set by an upper layer: the result of an op on arrays of one GPU and numbers as an array there, or
# None where there is no code for it. The arrays are given as they lie, with any strides.
compiled: Callable[[Op, Sequence[Any], dict[str, Any]], Any] | None = None


def device_of(op: Op, arrays: Sequence[Any]) -> str:
    """The GPU that the operands are on. DeviceError where they are on several devices.

    Arrays of the CPU without axes count as numbers.
    """
    places = {devices.of(a) for a in arrays if hasattr(a, "dtype")
              and (a.ndim or isinstance(a, devices.ndarray))}
    if len(places) > 1:
        raise DeviceError(f"{op.name}: the operands are on {_listed(places)}",
                          'bring them to one device first, as with x.to("cuda")')
    return places.pop()


def _listed(places: set[str]) -> str:
    *most, last = sorted(places)
    return f"{', '.join(most)} and {last}"


def run(op: Op, arrays: Sequence[Any], params: dict[str, Any], device: str) -> Any:
    """The result of an op on arrays of a GPU and numbers, as an array there."""
    with devices.current(device):
        reason = _why_not_cupy(op, arrays, params)
        if (reason or _is_better_compiled(op)) and compiled is not None:
            found = compiled(op, arrays, params)
            if found is not None:
                return found
        if reason:
            raise not_there(op, device, reason)
        if op.kind == "reduce" and op.meaning.combine in device_kernels.REDUCE:
            return device_kernels.reduce(op.meaning.combine, *arrays, **params)
        with devices.making_on(device), device_kernels.failing():
            if op.kind == "composite":
                return opened(op.meaning, arrays, params)
            return op.impl(device_kernels, *arrays, **params)


def opened(decompose: Callable[..., Tensor], arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The array that the ops give of which `decompose` makes an op, off the tape."""
    before, interpreter.STATE.active = interpreter.STATE.active, None
    try:
        with no_grad():
            return decompose(*[Tensor(a) if hasattr(a, "shape") else a for a in arrays],
                             **params)._data
    finally:
        interpreter.STATE.active = before


def _why_not_cupy(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> str:
    """Why CuPy does not compute this as NumPy does; empty where it does."""
    if params.get("dtype") == bfloat16 or any(getattr(a, "dtype", None) == bfloat16
                                              for a in arrays):
        return "CuPy hardly knows bfloat16"
    if op.kind == "scan" and op.meaning.combine not in device_kernels.SCAN:
        return "CuPy has no such scan"
    if op.kind == "pointwise" and _drops_fraction(arrays, params):
        return "CuPy makes other integers of nan and of floats that do not fit"
    return op.why.get("cupy", "")


def _is_better_compiled(op: Op) -> bool:
    """Whether code of ours comes first, though CuPy's functions would do."""
    return op.draws or op.kind == "composite" or "fast cupy" in op.why


def _drops_fraction(arrays: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether floats become integers."""
    wanted = params.get("dtype")
    return wanted is not None and wanted.kind in "iu" and arrays[0].dtype.kind in "fc"


def not_there(op: Op, device: str, reason: str) -> DeviceError:
    """The error for an op that cannot run on a GPU."""
    return DeviceError(f"{op.name} does not run on {device}: {reason}",
                       'compute this part on the CPU: x.to("cpu"), and back by .to("cuda")')
