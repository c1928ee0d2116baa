"""Names the available devices and imports CuPy once it is needed.

The CPU is "cpu", NVIDIA's GPUs are "cuda:0", "cuda:1", ...; "cuda" is the current one. Arrays on a
GPU are CuPy's. CuPy is imported, and CUDA starts, at the first use of such a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import interpreter
from ..errors import DeviceError

CPU = "cpu"
OLDEST = 12000  # the oldest version of CUDA that CuPy 14 runs on, as drivers count: 12.0

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class _Missing:
    """Stands for the class of CuPy's arrays until CuPy is imported; it has no instances."""


ndarray: Any = _Missing  # the class of arrays on a GPU
in_use = False  # True once CuPy is imported, so that arrays can be on a GPU
folders: tuple[str, ...] = ()  # of the files of CuPy, once it is imported
code: list[str] = []  # modules of an upper layer that are imported together with CuPy


class Driver(NamedTuple):
    """The state of the NVIDIA driver: the reason why it cannot be used, or "", a help for the user,
    the number of GPUs, and the version of CUDA that it supports (12040 is 12.4)."""

    why_not: str
    help: str = ""
    gpus: int = 0
    version: int = 0


def driver() -> Driver:
    """The state of the driver on this machine; the call takes one or two milliseconds."""
    help = "a GPU needs NVIDIA's driver, see https://www.nvidia.com/drivers; the CPU is \"cpu\""
    try:
        cuda: Any = ctypes.CDLL(_DRIVER)
    except OSError:
        return Driver(f"there is no NVIDIA driver on this machine ({_DRIVER} is not found)", help)
    failure = cuda.cuInit(0)
    if failure:
        return Driver(f"the NVIDIA driver does not start (cuInit gives error {failure})", help)
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        return Driver("the NVIDIA driver sees no GPU", "CUDA_VISIBLE_DEVICES may hide it")
    if version.value < OLDEST:
        return Driver(f"the NVIDIA driver is for CUDA {spelled(version.value)}, CuPy needs "
                      f"{spelled(OLDEST)} or later", "install a later driver")
    return Driver("", "", count.value, version.value)


def spelled(version: int) -> str:
    """A version of CUDA as people write it: "12.4" for 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


@functools.cache
def probe() -> Driver:
    """The state of the driver and of CuPy, determined once."""
    state = driver()
    if state.why_not or importlib.util.find_spec("cupy") is not None:
        return state
    return state._replace(why_not="CuPy is not installed; it holds the arrays on GPUs",
                          help=f'pip install "fusewire[{extra(state)}]"')


def extra(driver: Driver) -> str:
    """The name of fusewire's extra that supports a driver: "cuda12" or "cuda13"."""
    return "cuda13" if driver.version >= 13000 else "cuda12"


def available() -> bool:
    """True if tensors can be on a GPU."""
    return not probe().why_not


def why_not() -> str:
    """The reason why tensors cannot be on a GPU, or an empty text."""
    return probe().why_not


def count() -> int:
    """The number of GPUs for tensors."""
    return probe().gpus if available() else 0


def cupy() -> Any:
    """The module CuPy. DeviceError, which says what to install, if it cannot be used."""
    if in_use:
        return sys.modules["cupy"]
    return _imported()


def cupyx(name: str) -> Any:
    """A module of CuPy's extensions, such as "cupyx.scipy.special"."""
    cupy()
    return importlib.import_module(name)


def _imported() -> Any:
    global ndarray, in_use, folders
    state = probe()
    if state.why_not:
        raise DeviceError(f'device "cuda" is not available: {state.why_not}', state.help)
    try:
        module = importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(f'device "cuda" is not available: CuPy cannot be imported: {error}',
                          "see https://docs.cupy.dev/en/stable/install.html") from None
    folders = (os.path.dirname(str(module.__file__)).replace("\\", "/"),)  # and of cupyx beside it
    for name in code:
        importlib.import_module(name)
    ndarray, in_use = module.ndarray, True
    interpreter.count_devices()
    return module


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
    text = f"cuda:{device}" if type(device) is int else str(device)
    kind, colon, number = text.partition(":")
    if kind == CPU and number in ("", "0") and text != "cpu:":
        return CPU
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise DeviceError(f"device {device!r} is not available", f"devices are {_listed()}")
    return _gpu(number)


def is_name(x: Any) -> bool:
    """True if `x` is a text like the name of a device, available or not."""
    return isinstance(x, str) and x.partition(":")[0] in (CPU, "cuda")


def _gpu(number: str) -> str:
    """The name of the GPU of this number; of the current GPU for an empty text."""
    loaded = cupy()
    index = int(number) if number else loaded.cuda.runtime.getDevice()
    if index >= count():
        raise DeviceError(f'device "cuda:{index}" is not available', f"devices are {_listed()}")
    return f"cuda:{index}"


def _listed() -> str:
    return ", ".join(f'"{name}"' for name in names())


def names() -> tuple[str, ...]:
    """The names of all available devices, the CPU first."""
    return (CPU, *(f"cuda:{i}" for i in range(count())))


def resolve_device(device: Any) -> str:
    """The name of the device of a new tensor for the user's `device`; None is the default device.

    DeviceError for a device that is not available.
    """
    if device is None:
        return AMBIENT.device if in_use else CPU
    return CPU if device == CPU else name_of(device)


# ---- arrays

def of(array: Any) -> str:
    """The name of the device of an array, a lazy array or a value of a transform."""
    if isinstance(array, ndarray):
        return f"cuda:{array.device.id}"
    device_name = getattr(type(array), "device_name", None)  # a method of values without an array
    return CPU if device_name is None else str(device_name(array))


def moved(array: Any, device: str) -> Any:
    """A copy of an array of any device on the device of that name."""
    if device == CPU:
        return array.get() if isinstance(array, ndarray) else array.copy()
    with current(device):
        return cupy().array(array, copy=True)


def host(array: Any) -> Any:
    """The array on the CPU: itself, or a copy of a GPU's array once the GPU has computed it."""
    return array.get() if isinstance(array, ndarray) else array


def current(device: str) -> Any:
    """A context in which a GPU is CuPy's current one, which holds new arrays."""
    return cupy().cuda.Device(int(device.partition(":")[2]))


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
