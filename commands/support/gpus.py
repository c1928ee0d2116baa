"""Describes the GPUs and their libraries, and says how to install those that are missing."""

from __future__ import annotations

import fusewire as fw

from ...codegen.cuda.runtime import nvrtc
from ...eager.arrays import devices
from ...eager.errors import CodegenError
from ...export.demo.environment import version


def gpus() -> dict[str, str]:
    """The GPUs with their driver, CuPy and NVRTC, as text by name. For a missing one the text is
    "none" and how to install it."""
    driver = devices.driver()
    return {"GPU": _gpus(driver), "CuPy": _cupy(driver), "NVRTC": _nvrtc(driver)}


def _gpus(driver: devices.Driver) -> str:
    if driver.why_not:
        return f"none: {driver.why_not}; {driver.help}"
    driver_version = f"driver for CUDA {devices.spelled(driver.version)}"
    try:
        names = [_named(n) for n in range(driver.gpus)]
    except fw.DeviceError:  # only CuPy knows their names
        names = [str(driver.gpus)]
    return ", ".join([*names, driver_version])


def _named(number: int) -> str:
    major, minor = fw.cuda.get_device_capability(number)
    return f"{fw.cuda.get_device_name(number)} (sm_{major}{minor})"


def _cupy(driver: devices.Driver) -> str:
    installed = version("cupy")
    return installed if installed != "-" else \
        f'none: pip install "fusewire[{devices.extra(driver)}]"'


def _nvrtc(driver: devices.Driver) -> str:
    try:
        library = nvrtc.library(driver.version // 1000 or None)
    except CodegenError as error:
        return f"none: {error.help}"
    return f"{'.'.join(map(str, library.version))}, for {library.archs[0]} to {library.archs[-1]}"
