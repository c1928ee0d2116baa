"""Dispatches ops: every op passes through `apply`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import interpreter
from ..arrays import cpu_kernels, devices
from ..arrays.dtypes import STORED_NUMBERS, characters, only_stored
from ..arrays.shapes import TensorType
from ..errors import DTypeError, FusewireError, IndexingError, ShapeError
from ..upper_layer import UPPER
from . import on_device
from .lazy import array_of
from .op import OPS, Op
from .tape import MODE, Entry
from .tensor import Tensor
from .ufunc import implementation

LARGE = 1 << 17  # elements of an input times passes of the op; from here on native code comes first

_NOTHING: dict[str, Any] = {}
_FAILURES = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, RuntimeWarning)
_ndarray = np.ndarray
_FLOAT32 = np.dtype("float32")

# log(0) is -inf and 0 / 0 is nan, without NumPy's RuntimeWarning, as in compiled code. (np.errstate
# around every op would cost more than most small ops.)
warnings.filterwarnings("ignore", "", RuntimeWarning, r"fusewire\.eager\.")


def apply(op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = _NOTHING) -> Tensor:
    """The result of `op` for `inputs`: tensors, and Python scalars that adapt to them."""
    if not op.stored:
        for x in inputs:
            if isinstance(x, Tensor) and x._data.dtype.num in STORED_NUMBERS:
                raise only_stored(op.name, x._data.dtype)
    if interpreter.in_use:
        state = interpreter.STATE
        front = state._limiting
        if front is None:
            front = state._active if state._casting is None else state._casting
        if front is not None:
            return front.apply(op, inputs, params)  # type: ignore[no-any-return]
        return evaluate(op, inputs, params)
    if len(inputs) == 1:
        return _evaluate_one(op, inputs[0], params)
    return _evaluate(op, inputs, params)


def evaluate(op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = _NOTHING) -> Tensor:
    """The result of `op` on values, now: with the tape, without any interpreter."""
    if devices.in_use and _is_elsewhere(inputs, params):
        return _evaluate_elsewhere(op, inputs, params)
    if len(inputs) == 1:
        return _evaluate_one(op, inputs[0], params)
    return _evaluate(op, inputs, params)


def _evaluate(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    tracked = is_large = False
    passes = op.passes
    arrays = []
    for x in inputs:
        if isinstance(x, Tensor):
            data = x._data
            arrays.append(data)
            tracked = tracked or x.edge is not None
            is_large = is_large or data.size * passes >= LARGE
        else:
            arrays.append(x)
    try:
        data = _run_large(op, arrays, params) if is_large else op.impl(cpu_kernels, *arrays,
                                                                       **params)
    except _FAILURES as error:
        data = _retry_without_warnings(op, inputs, params, arrays, error)
    if type(data) is not _ndarray:
        data = np.asarray(data)
    out = Tensor(data)
    if tracked and MODE.enabled and op.vjp is not None:
        edges = tuple([x.edge if isinstance(x, Tensor) else None for x in inputs])
        out.edge = Entry(op, params, tuple(arrays), edges, data)
    return out


def _evaluate_one(op: Op, x: Tensor, params: dict[str, Any]) -> Tensor:
    array = x._data
    try:
        # The result of an op of kind "create" is larger than its input.
        small = array.size * op.passes < LARGE and op.kind != "create"
        data = op.impl(cpu_kernels, array, **params) if small else _run_large(op, (array,), params)
    except _FAILURES as error:
        data = _retry_without_warnings(op, (x,), params, [array], error)
    if type(data) is not _ndarray:
        data = np.asarray(data)
    out = Tensor(data)
    if x.edge is not None and MODE.enabled and op.vjp is not None:
        out.edge = Entry(op, params, (array,), (x.edge,), data)
    return out


# ---- on other devices
def create(op: Op, params: dict[str, Any], device: str) -> Tensor:
    """The result of an op without inputs, on a device."""
    if device == devices.CPU:
        return apply(op, (), params)
    if interpreter.STATE.active is None:
        return Tensor(on_device.run(op, (), params, device))
    return apply(OPS["transfer"], (apply(op, (), params),), {"device": device})


def _is_elsewhere(inputs: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """True if an input is on another device, or the op moves its input to a device."""
    return "device" in params or any(
        isinstance(x, Tensor) and type(x._data) in devices.LOADED for x in inputs)


def _evaluate_elsewhere(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    if "device" in params:
        return taped(op, inputs, params, Tensor(op.impl(cpu_kernels, *arrays, **params)))
    device = on_device.device_of(op, arrays)
    if any(isinstance(a, _ndarray) for a in arrays):  # 0-d arrays of the CPU count as numbers
        inputs = tuple([x.to(device) if isinstance(x, Tensor) else x for x in inputs])
        arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    try:
        data = on_device.run(op, arrays, params, device)
    except (*_FAILURES, NotImplementedError) as error:
        raise _device_error(op, inputs, params, error, device) from None
    return taped(op, inputs, params, Tensor(data))


def _device_error(op: Op, inputs: tuple[Any, ...], params: dict[str, Any],
                  error: Exception, device: str) -> Exception:
    """The error of the result rule for these operands, or else a DeviceError with the library's."""
    if isinstance(error, FusewireError):
        return error
    try:
        op.result(*map(type_of, inputs), **params)
    except FusewireError as ours:
        return ours
    return on_device.not_there(op, device, f"{devices.type_of(device).library} says: {error}")


def with_data(op: Op, x: Tensor, data: Any, params: dict[str, Any]) -> Tensor:
    """The result of op(x) with the array `data`, on the tape; for code without an interpreter."""
    out = new(Tensor)
    out._data, out.edge, out._grad, out._view = data, None, None, None
    if x.edge is not None and MODE.enabled:
        out.edge = Entry(op, params, (x._data,), (x.edge,), data)
    return out  # type: ignore[no-any-return]


def taped(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], out: Tensor) -> Tensor:
    """`out`, the result of an interpreter for `inputs`, with its entry on the tape."""
    edges = tuple([x.edge if isinstance(x, Tensor) else None for x in inputs])
    if MODE.enabled and op.vjp is not None and any(e is not None for e in edges):
        arrays = tuple([x._data if isinstance(x, Tensor) else x for x in inputs])
        out.edge = Entry(op, params, arrays, edges, out._data)
    return out


# Most small ops of a program go through the two functions below. They set the attributes of tensors
# and entries one by one: a call of `__init__` would take as long as NumPy's addition.
new: Any = object.__new__


def function_of_one(op: Op, kinds: str, otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that applies `op` to one tensor of `kinds` of dtypes without loops.

    It calls `otherwise` for any other operand and under an interpreter.
    """
    if op.passes > 1:
        return otherwise
    direct, differentiable = implementation(op, 1), op.vjp is not None
    usual = _FLOAT32 if "f" in kinds else None  # identity is faster than its character
    taken = characters(kinds)

    def function(x: Tensor | complex) -> Tensor:
        if interpreter.in_use or not isinstance(x, Tensor):
            return otherwise(x)
        array = x._data
        dtype = array.dtype
        if dtype is not usual and dtype.char not in taken:
            return otherwise(x)
        try:
            data = direct(array) if array.size < LARGE else _run_large(op, (array,), _NOTHING)
        except _FAILURES as error:
            data = _retry_without_warnings(op, (x,), _NOTHING, [array], error)
        if type(data) is not _ndarray:
            data = np.asarray(data)
        out = new(Tensor)
        out._data, out.edge, out._grad, out._view = data, None, None, None
        edge = x.edge
        if edge is not None and differentiable and MODE.enabled:
            entry = out.edge = new(Entry)
            entry.op, entry.params, entry.out = op, _NOTHING, data
            entry.arrays, entry.edges = (array,), (edge,)
        return out

    return function


def function_of_two(
    op: Op, kinds: str, otherwise: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A function that applies `op` to two tensors of one dtype, see `function_of_one`."""
    direct, differentiable = implementation(op, 2), op.vjp is not None
    usual = _FLOAT32 if "f" in kinds else None
    taken = characters(kinds)

    def function(x: Tensor | complex, y: Tensor | complex) -> Tensor:
        if interpreter.in_use or not isinstance(x, Tensor) or not isinstance(y, Tensor):
            return otherwise(x, y)
        left, right = x._data, y._data
        dtype = left.dtype
        if dtype is not right.dtype or (dtype is not usual and dtype.char not in taken):
            return otherwise(x, y)
        try:
            data = direct(left, right) if left.size < LARGE and right.size < LARGE else \
                _run_large(op, (left, right), _NOTHING)
        except _FAILURES as error:
            data = _retry_without_warnings(op, (x, y), _NOTHING, [left, right], error)
        if type(data) is not _ndarray:
            data = np.asarray(data)
        out = new(Tensor)
        out._data, out.edge, out._grad, out._view = data, None, None, None
        a, b = x.edge, y.edge
        if (a is not None or b is not None) and differentiable and MODE.enabled:
            entry = out.edge = new(Entry)
            entry.op, entry.params, entry.out = op, _NOTHING, data
            entry.arrays, entry.edges = (left, right), (a, b)
        return out

    return function


def _run_large(op: Op, arrays: Any, params: dict[str, Any]) -> Any:
    arrays = [array_of(x, "another thread") for x in arrays]
    data = None if UPPER.large_op is None else UPPER.large_op(op, arrays, params)
    return op.impl(cpu_kernels, *arrays, **params) if data is None else data


def _retry_without_warnings(
    op: Op, inputs: tuple[Any, ...], params: dict[str, Any], arrays: list[Any], error: Exception
) -> Any:
    """The result after a failure that was a warning turned into an error; else raises our error."""
    if not isinstance(error, RuntimeWarning):
        raise explained(op, inputs, params, error) from None
    try:
        with np.errstate(all="ignore"):
            return op.impl(cpu_kernels, *arrays, **params)
    except _FAILURES as second:
        raise explained(op, inputs, params, second) from None


def explained(
    op: Op, inputs: tuple[Any, ...], params: dict[str, Any], error: Exception
) -> Exception:
    """The error of the op's result rule, which names the cause, or NumPy's error as one of ours."""
    if isinstance(error, FusewireError):
        return error
    try:
        op.result(*map(type_of, inputs), **params)
    except FusewireError as ours:
        return ours
    operands = ", ".join(str(type_of(x)) for x in inputs)
    error_type: type[FusewireError] = ShapeError
    if isinstance(error, IndexError):
        error_type = IndexingError
    elif isinstance(error, (TypeError, OverflowError)):
        error_type = DTypeError
    return error_type(f"{op.name}({operands}): {error}",
                      "check the shapes and dtypes of these operands")


def type_of(x: Any) -> Any:
    """The TensorType of a tensor; a Python scalar unchanged."""
    return TensorType(x._data.shape, x._data.dtype) if isinstance(x, Tensor) else x
