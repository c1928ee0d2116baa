"""Describes the GPUs and their libraries, and says how to install those that are missing."""

from __future__ import annotations

from ....eager.cuda import driver as drivers
from ....eager.cuda.device import CUDA
from ....eager.cuda.namespace import get_device_capability, get_device_name
from ....eager.errors import CodegenError, DeviceError
from ....eager.installed import version_of
from . import nvrtc


def report() -> dict[str, str]:
    """The GPUs with their driver, CuPy and NVRTC, as text by name. For a missing one the text is
    "none" and how to install it."""
    driver = drivers.driver()
    return {"GPU": _gpus(driver), "CuPy": _cupy(driver), "NVRTC": _nvrtc(driver)}


def _gpus(driver: drivers.Driver) -> str:
    if driver.why_not:
        return f"none: {driver.why_not}; {driver.help}"
    driver_version = f"driver for CUDA {drivers.spelled(driver.version)}"
    try:
        names = [_named(n) for n in range(driver.gpus)]
    except DeviceError:  # only CuPy knows their names
        names = [str(driver.gpus)]
    return ", ".join([*names, driver_version])


def _named(number: int) -> str:
    major, minor = get_device_capability(number)
    return f"{get_device_name(number)} (sm_{major}{minor})"


def _cupy(driver: drivers.Driver) -> str:
    return version_of(CUDA.packages["cupy"]) or \
        f'none: pip install "fusewire[{drivers.extra(driver)}]"'


def _nvrtc(driver: drivers.Driver) -> str:
    try:
        library = nvrtc.library(driver.version // 1000 or None)
    except CodegenError as error:
        return f"none: {error.help}"
    return f"{'.'.join(map(str, library.version))}, for {library.archs[0]} to {library.archs[-1]}"
