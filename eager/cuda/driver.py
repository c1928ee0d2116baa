"""Finds NVIDIA's driver and CuPy, and says what to install if one is missing."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from typing import Any, NamedTuple

OLDEST = 12000  # the oldest version of CUDA that CuPy 14 runs on, as drivers count: 12.0
PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")  # of which one is installed

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


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
