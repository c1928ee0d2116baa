"""Exchanges arrays with other libraries by DLPack, without copies.

NumPy makes and reads the capsules. It does not know bfloat16 and float8, so such arrays pass NumPy
as unsigned integers and the dtype is corrected in the capsule's record, whose layout is that of
dlpack.h. DLPack packs numbers of 4 and 2 bits, so they have no capsules here. Tensors do not
change, so capsules are read-only where the protocol can say so. A consumer of the older protocol is
trusted not to write, as in the Array API.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import interpreter
from ..arrays import devices
from ..arrays.device_type import DeviceType
from ..arrays.dtypes import (
    as_dtype,
    bfloat16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    is_stored,
)
from ..core.tensor import Tensor
from ..errors import ExchangeError

__all__ = ["from_dlpack"]

_CPU, _PINNED = 1, 3  # kinds of memory that the processor reads
_UINT = 1  # the code of unsigned integers
# The codes of dtypes that NumPy does not know.
_CODES = {bfloat16: 4, float8_e4m3fn: 10, float8_e4m3fnuz: 11, float8_e5m2: 12, float8_e5m2fnuz: 13,
          float8_e8m0fnu: 14}
_DTYPES = {(code, 8 * dtype.itemsize): dtype for dtype, code in _CODES.items()}
_ASKS_VERSION = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # 2.0 knows the older protocol only


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Record(ctypes.Structure):
    """The start of a capsule's record, up to the dtype."""

    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("dtype", _Type))


class _Versioned(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32 * 2), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("record", _Record))


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi))
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


def _type_in(capsule: Any) -> _Type:
    """The dtype in the record of a capsule; a change of it changes the capsule."""
    name = _name_of(capsule)
    record = _Versioned if name == b"dltensor_versioned" else _Record
    start: Any = record.from_address(_address_of(capsule, name))
    return (start.record if record is _Versioned else start).dtype  # type: ignore[no-any-return]


class _Unlocked:
    """An array without its read-only mark, which the older protocol cannot express."""

    def __init__(self, array: Any) -> None:
        self.array = array  # keeps the memory
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def dlpack(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None, copy: bool | None = None,
) -> Any:
    """A DLPack capsule of this tensor's memory, or of a copy of it, for another library.

    BufferError where the export is not possible: a gradient is required, or a copy that copy=False
    forbids is needed.
    """
    if devices.is_elsewhere(self._data):
        return _of_device(self, stream, max_version, dl_device, copy)
    if stream is not None:
        raise ExchangeError(f"__dlpack__: got stream={stream!r}, and the CPU has no streams",
                            "pass stream=None for a tensor on the CPU")
    if dl_device is not None and _kind_of(dl_device) != _CPU:
        raise ExchangeError(f"__dlpack__: cannot export to device {tuple(dl_device)!r}",
                            f"this tensor is on the CPU, which is ({_CPU}, 0)")
    _check_untaped(self)
    if is_stored(self.dtype) and self.dtype not in _CODES:
        raise ExchangeError(f"__dlpack__: {self.dtype.name} has a byte for each number here, and "
                            "is packed in DLPack",
                            "export x.astype(fw.int8) or x.astype(fw.float32)")
    array = self.numpy()
    if any(step < 0 for step in array.strides):  # other libraries do not count backwards
        if copy is False:
            raise ExchangeError("__dlpack__: this tensor runs backwards along an axis and can only "
                                "be exported as a copy", "leave copy=False out")
        copy = True
    code = _CODES.get(array.dtype)
    if code is None:
        return _capsule(array, max_version, copy)
    capsule = _capsule(array.view(f"u{array.itemsize}"), max_version, copy)
    _type_in(capsule).code = code
    return capsule


def _check_untaped(x: Tensor) -> None:
    if x.requires_grad:
        raise ExchangeError("__dlpack__: a tensor that requires a gradient cannot be exported: "
                            "no other library records on the tape", "export x.detach()")


def _of_device(x: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The capsule of a tensor on another device: its array's, or that of a copy on the CPU."""
    _check_untaped(x)
    if dl_device is None or _kind_of(dl_device) == devices.type_of(x.device).dlpack_kind:
        return x._data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device,
                                  copy=copy)
    if copy is False:
        raise ExchangeError(f"__dlpack__: a tensor on {x.device} can be exported to device "
                            f"{tuple(dl_device)!r} only as a copy", "leave copy=False out")
    return dlpack(x.to(devices.CPU), max_version=max_version, dl_device=dl_device)


def _capsule(array: Any, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
    if not _ASKS_VERSION:
        return (array.copy() if copy else np.asarray(_Unlocked(array))).__dlpack__()
    if not copy and (max_version is None or max_version[0] < 1):
        array = np.asarray(_Unlocked(array))
    return array.__dlpack__(max_version=max_version, copy=copy)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's kind and number of this tensor's device: (1, 0) the CPU, (2, 0) the first GPU."""
    return (_CPU, 0) if not devices.is_elsewhere(self._data) else \
        tuple(self._data.__dlpack_device__())


def _kind_of(device: tuple[Any, int]) -> int:
    return int(getattr(device[0], "value", device[0]))  # a number or an enumeration's member


class _Producer:
    """Stands for `source` in NumPy's from_dlpack and shows as unsigned integers what it does not
    know: elements of `dtype`."""

    def __init__(self, source: Any, copy: bool | None) -> None:
        self.source, self.copy = source, copy
        self.dtype: Any = None
        self.elsewhere = _kind_of(source.__dlpack_device__()) not in (_CPU, _PINNED)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0

    def __dlpack__(self, **asked: Any) -> Any:
        if self.elsewhere:
            asked["dl_device"] = (_CPU, 0)
        if "copy" in asked:  # an older producer knows no `copy` and makes none
            asked["copy"] = self.copy
        capsule = self.source.__dlpack__(**asked)
        dtype = _type_in(capsule)
        self.dtype = _DTYPES.get((dtype.code, dtype.bits)) if dtype.lanes == 1 else None
        if self.dtype is not None:
            dtype.code = _UINT
        return capsule


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of `x`, an array of any library that has `__dlpack__`.

    Args:
        x: array. Do not write to it afterwards if the memory is shared: arrays never change.
        device: None keeps the device of `x`, the CPU or a GPU; another device needs a copy.
        copy: True always copies, False never, None only where it is needed.

    Returns:
        Tensor of the shape and dtype of `x`.

    Raises:
        BufferError: `x` cannot be handed over, or only by a copy that copy=False forbids.
        DTypeError: `x` has a dtype that tensors do not have.
        DeviceError: `device` is not available.

    Example:
        >>> import fusewire as fw
        >>> import numpy as np
        >>> fw.from_dlpack(np.arange(3))
        tensor([0, 1, 2])
    """
    target = None if device is None else devices.name_of(device)
    kind = _device_type_of(x)
    if kind is not None and target != devices.CPU and kind.count():
        return _from_device(x, devices.load(kind.name), target, copy)
    if target not in (None, devices.CPU):
        if copy is False:
            raise ExchangeError(f"from_dlpack: the {type(x).__name__} is not on {device}",
                                "leave copy=False out")
        return from_dlpack(x).to(target)
    producer = _Producer(x, False if copy is False else None)
    if producer.elsewhere and (device is None or copy is False):
        raise ExchangeError(f"from_dlpack: the {type(x).__name__} is on device "
                            f"{tuple(x.__dlpack_device__())!r}, not on the CPU",
                            'device="cpu" makes a copy there')
    try:
        array = np.from_dlpack(producer)
    except (BufferError, RuntimeError) as error:
        raise ExchangeError(f"from_dlpack: cannot take the memory of {type(x).__name__}: {error}",
                            "its dtype, its strides or its gradient prevents it: "
                            "x.detach(), or copy it first") from None
    array = array if producer.dtype is None else array.view(producer.dtype)
    as_dtype(array.dtype)
    out: Tensor = interpreter.note_constant(Tensor(array.copy() if copy else array))
    return out


def _device_type_of(x: Any) -> DeviceType | None:
    """The kind of devices, besides the CPU, whose arrays can share the memory of `x`; or None."""
    number = _kind_of(x.__dlpack_device__())
    return next((kind for kind in devices.TYPES.values()
                 if kind.dlpack_kind == number and kind.name != devices.CPU), None)


def _from_device(x: Any, kind: DeviceType, device: str | None, copy: bool | None) -> Tensor:
    """A tensor over the memory of an array of another library, or over a copy on a device."""
    array = kind.from_dlpack(x)
    as_dtype(array.dtype)
    home = devices.of(array)
    target = home if device is None else device
    if copy is False and target != home:
        raise ExchangeError(f"from_dlpack: the {type(x).__name__} is on {home}, not on {target}",
                            "leave copy=False out")
    data = devices.moved(array, target) if copy or target != home else array
    return interpreter.note_constant(Tensor(data))  # type: ignore[no-any-return]
