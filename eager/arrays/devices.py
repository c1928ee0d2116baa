"""Devices: their names, which of them are there, and the one place that imports CuPy.

The CPU is "cpu", NVIDIA's GPUs are "cuda:0", "cuda:1", ...; "cuda" is the current one. Arrays on a
GPU are CuPy's. Nothing here imports it, or starts CUDA, until somebody asks for such a device.
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
    """The class of no array: stands for CuPy's until CuPy is imported."""


ndarray: Any = _Missing  # the class of arrays on a GPU
in_use = False  # whether arrays can be on a GPU: CuPy is imported
folders: tuple[str, ...] = ()  # what the files of CuPy begin with, once it is imported
code: list[str] = []  # modules of an upper layer, which are imported with CuPy


class Driver(NamedTuple):
    """What the NVIDIA driver tells: why it is of no use ("" where it is), what to do about that,
    how many GPUs there are, and for which version of CUDA it is (12040 is 12.4)."""

    why_not: str
    help: str = ""
    gpus: int = 0
    version: int = 0


def driver() -> Driver:
    """What the driver on this machine tells; it takes a millisecond or two."""
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
    """What there is for "cuda", the driver and CuPy, found out once."""
    found = driver()
    if found.why_not or importlib.util.find_spec("cupy") is not None:
        return found
    return found._replace(why_not="CuPy is not installed, which holds the arrays on GPUs",
                          help=f'pip install "fusewire[{extra(found)}]"')


def extra(driver: Driver) -> str:
    """What to install of fusewire's extras for a driver."""
    return "cuda13" if driver.version >= 13000 else "cuda12"


def available() -> bool:
    """Whether tensors can be on a GPU."""
    return not probe().why_not


def why_not() -> str:
    """Why tensors cannot be on a GPU, in words; empty where they can."""
    return probe().why_not


def count() -> int:
    """How many GPUs tensors can be on."""
    return probe().gpus if available() else 0


def cupy() -> Any:
    """The module CuPy. DeviceError, with what to install, where it is of no use."""
    if in_use:
        return sys.modules["cupy"]
    return _imported()


def cupyx(name: str) -> Any:
    """A module of CuPy's extensions, such as "cupyx.scipy.special"."""
    cupy()
    return importlib.import_module(name)


def _imported() -> Any:
    global ndarray, in_use, folders
    found = probe()
    if found.why_not:
        raise DeviceError(f'device "cuda" is not available: {found.why_not}', found.help)
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

    A number is a GPU's, "cuda" the current GPU, and whatever prints as a name stands for it.
    DeviceError for a device that is not there.

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
    """Whether `x` is written like the name of a device, which need not be there."""
    return isinstance(x, str) and x.partition(":")[0] in (CPU, "cuda")


def _gpu(number: str) -> str:
    """The name of the GPU of this number, by default of the current one."""
    loaded = cupy()
    index = int(number) if number else loaded.cuda.runtime.getDevice()
    if index >= count():
        raise DeviceError(f'device "cuda:{index}" is not available', f"devices are {_listed()}")
    return f"cuda:{index}"


def _listed() -> str:
    return ", ".join(f'"{name}"' for name in names())


def names() -> tuple[str, ...]:
    """The names of all devices that are there, the CPU first."""
    return (CPU, *(f"cuda:{i}" for i in range(count())))


def placed(device: Any) -> str:
    """The name of the device to make a tensor on, where a user names `device`, or None.

    DeviceError for a device that is not there.
    """
    if device is None:
        return AMBIENT.device if in_use else CPU
    return CPU if device == CPU else name_of(device)


# ---- arrays

def of(array: Any) -> str:
    """The name of the device that an array, or what stands in its place, is on."""
    if isinstance(array, ndarray):
        return f"cuda:{array.device.id}"
    place = getattr(type(array), "place", None)  # of a value of a transform, or of a graph
    return CPU if place is None else str(place(array))


def moved(array: Any, device: str) -> Any:
    """A copy of an array on the device of that name, from wherever it is."""
    if device == CPU:
        return array.get() if isinstance(array, ndarray) else array.copy()
    with current(device):
        return cupy().array(array, copy=True)


def host(array: Any) -> Any:
    """The array in the memory of the CPU: itself, or a copy once the GPU has computed it."""
    return array.get() if isinstance(array, ndarray) else array


def current(device: str) -> Any:
    """A context in which a GPU is CuPy's current one: arrays are made there."""
    return cupy().cuda.Device(int(device.partition(":")[2]))


class _Ambient(threading.local):
    """The device that tensors are made on where none is named: that of a rule's operands."""

    device = CPU


AMBIENT = _Ambient()


@contextlib.contextmanager
def making_on(device: str) -> Iterator[None]:
    """A context for rules of ours, in which tensors of no named device are made on this one."""
    before, AMBIENT.device = AMBIENT.device, device
    try:
        yield
    finally:
        AMBIENT.device = before
