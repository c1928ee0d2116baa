"""Names the available devices, and finds the device of an array.

The CPU is "cpu". Other kinds of devices are registered, such as "cuda"; their devices are "cuda:0",
"cuda:1", ..., and "cuda" is the current one. A kind is loaded at the first use of such a device.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import interpreter
from ..errors import DeviceError
from .device_type import Cpu, DeviceType

CPU = "cpu"

TYPES: dict[str, DeviceType] = {CPU: Cpu()}  # the kinds of devices, by name
LOADED: dict[type, DeviceType] = {}  # the kinds in use besides the CPU, by the class of arrays
LIBRARY_MODULES: set[str] = set()  # the top-level modules of the libraries of all kinds
in_use = False  # True once arrays can be on another device than the CPU


def register(kind: DeviceType) -> None:
    """Adds a kind of devices, which loads nothing. Another one of the same name is replaced."""
    TYPES[kind.name] = kind
    LIBRARY_MODULES.update(kind.modules)


def unregister(name: str) -> None:
    """Removes a kind of devices, of which no array may exist."""
    unload(name)
    del TYPES[name]


def load(name: str) -> DeviceType:
    """The kind of devices of this name, ready for use. DeviceError if it is not available."""
    global in_use
    kind = TYPES[name]
    if kind.array_type not in LOADED and name != CPU:
        kind.load()
        LOADED[kind.array_type] = kind
        in_use = True
        interpreter.count_devices()
    return kind


def unload(name: str) -> None:
    """Takes a kind out of use again. No array of it may exist."""
    global in_use
    kind = TYPES[name]
    if LOADED.pop(kind.array_type, None) is not None:
        in_use = bool(LOADED)
        interpreter.count_devices(in_use)


# ---- names

def name_of(device: Any) -> str:
    """The name of the device that a user means: "cpu", or "cuda:1"; None is the CPU.

    A number is a GPU's, "cuda" the current GPU; an object that prints as a name is that device.
    DeviceError for a device that is not available.

    >>> name_of(None), name_of("cpu")
    ('cpu', 'cpu')
    """
    if device is None or device is CPU:
        return CPU
    text = f"{_default_kind()}:{device}" if type(device) is int else str(device)
    kind, colon, number = text.partition(":")
    if kind == CPU and number in ("", "0") and text != "cpu:":
        return CPU
    if kind == CPU or kind not in TYPES or (colon and not number.isdecimal()):
        raise DeviceError(f"device {device!r} is not available", f"devices are {_listed()}")
    return _numbered(load(kind), number)


def is_name(x: Any) -> bool:
    """True if `x` is a text like the name of a device, available or not."""
    return isinstance(x, str) and x.partition(":")[0] in TYPES


def type_of(device: str) -> DeviceType:
    """The kind of a device."""
    return TYPES[device.partition(":")[0]]


def number_of(device: str) -> int:
    """The number in the name of a device; 0 for the CPU."""
    return int(device.partition(":")[2] or 0)


def kinds() -> tuple[str, ...]:
    """The names of all kinds of devices, available or not, the CPU first."""
    return tuple(TYPES)


def _default_kind() -> str:
    """The kind that a bare number means: the first that is not the CPU."""
    return next((name for name in TYPES if name != CPU), CPU)


def _numbered(kind: DeviceType, number: str) -> str:
    """The name of the device of this number; of the current one for an empty text."""
    index = int(number) if number else kind.current()
    if index >= kind.count():
        raise DeviceError(f'device "{kind.name}:{index}" is not available',
                          f"devices are {_listed()}")
    return f"{kind.name}:{index}"


def _listed() -> str:
    return ", ".join(f'"{name}"' for name in names())


def names() -> tuple[str, ...]:
    """The names of all available devices, the CPU first."""
    return (CPU, *(f"{kind.name}:{i}" for kind in TYPES.values() if kind.name != CPU
                   for i in range(kind.count())))


def resolve_device(device: Any) -> str:
    """The name of the device of a new tensor for the user's `device`; None is the default device.

    DeviceError for a device that is not available.
    """
    if device is None:
        return AMBIENT.device if in_use else CPU
    return CPU if device == CPU else name_of(device)


# ---- arrays

def is_elsewhere(array: Any) -> bool:
    """True if an array, a lazy array or a value of a transform is not on the CPU."""
    return in_use and of(array) != CPU


def of(array: Any) -> str:
    """The name of the device of an array, a lazy array or a value of a transform."""
    kind = LOADED.get(type(array))
    if kind is not None:
        return f"{kind.name}:{kind.number_of(array)}"
    device_name = getattr(type(array), "device_name", None)  # a method of values without an array
    return CPU if device_name is None else str(device_name(array))


def moved(array: Any, device: str) -> Any:
    """A copy of an array of any device on the device of that name."""
    source = LOADED.get(type(array))
    if device == CPU:
        return array.copy() if source is None else source.download(array)
    target = load_of(device)
    if source not in (None, target):
        array = host(array)
    with target.activate(number_of(device)):
        return target.upload(array, number_of(device))


def load_of(device: str) -> DeviceType:
    """The kind of a device, ready for use."""
    return load(type_of(device).name)


def host(array: Any) -> Any:
    """The array on the CPU: itself, or a copy of another device's array once it is computed."""
    kind = LOADED.get(type(array))
    return array if kind is None else kind.download(array)


def extremes(array: Any) -> tuple[Any, Any]:
    """The least and the largest element of an array that has some."""
    kind = LOADED.get(type(array))
    return (array.min(), array.max()) if kind is None else kind.extremes(array)


def kernels_of(array: Any) -> Any:
    """The `k` and `xp` of ops for an array."""
    return LOADED.get(type(array), TYPES[CPU]).kernels


def current(device: str) -> Any:
    """A context in which a device is the current one of its kind, which holds new arrays."""
    return load_of(device).activate(number_of(device))


# ---- libraries

def library_folders() -> tuple[str, ...]:
    """The folders of the files of the libraries in use."""
    return tuple(folder for kind in LOADED.values() for folder in kind.folders)


class _Ambient(threading.local):
    """The default device of new tensors: the CPU, or inside of a rule that of its operands."""

    device = CPU


AMBIENT = _Ambient()


@contextlib.contextmanager
def making_on(device: str) -> Iterator[None]:
    """A context for rules, in which new tensors are on this device by default."""
    before, AMBIENT.device = AMBIENT.device, device
    try:
        yield
    finally:
        AMBIENT.device = before
