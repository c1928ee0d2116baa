"""What of a GPU and its libraries is here, each with what to install where it is not."""

from __future__ import annotations

import fusewire as fw

from ...codegen.cuda.runtime import nvrtc
from ...eager.arrays import devices
from ...eager.errors import CodegenError
from ...export.demo.environment import version


def gpus() -> dict[str, str]:
    """Names and values, for people: the GPUs with their driver, CuPy, NVRTC; "none" and what to
    install in the place of what is missing."""
    driver = devices.driver()
    return {"GPU": _gpus(driver), "CuPy": _cupy(driver), "NVRTC": _nvrtc(driver)}


def _gpus(driver: devices.Driver) -> str:
    if driver.why_not:
        return f"none: {driver.why_not}; {driver.help}"
    about = f"driver for CUDA {devices.spelled(driver.version)}"
    try:
        names = [_named(n) for n in range(driver.gpus)]
    except fw.DeviceError:  # without CuPy nobody here knows their names
        names = [str(driver.gpus)]
    return ", ".join([*names, about])


def _named(number: int) -> str:
    major, minor = fw.cuda.get_device_capability(number)
    return f"{fw.cuda.get_device_name(number)} (sm_{major}{minor})"


def _cupy(driver: devices.Driver) -> str:
    found = version("cupy")
    return found if found != "-" else f'none: pip install "fusewire[{devices.extra(driver)}]"'


def _nvrtc(driver: devices.Driver) -> str:
    try:
        found = nvrtc.library(driver.version // 1000 or None)
    except CodegenError as error:
        return f"none: {error.help}"
    return f"{'.'.join(map(str, found.version))}, for {found.archs[0]} to {found.archs[-1]}"
