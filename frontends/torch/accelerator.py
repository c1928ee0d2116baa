"""The accelerator of this machine: a GPU, or none."""

from __future__ import annotations

from typing import Any

from ...eager.cuda import namespace as _cuda
from .base.device import device as _device


def is_available() -> bool:
    """True if there is a GPU."""
    return bool(_cuda.is_available())


def current_accelerator(check_available: bool = False) -> Any:
    """The device, or None without a GPU."""
    return _device("cuda") if _cuda.is_available() else None


def device_count() -> int:
    """The number of GPUs."""
    return int(_cuda.device_count())


def synchronize(device: Any = None) -> None:
    """Waits for the GPU, if there is one."""
    if _cuda.is_available():
        _cuda.synchronize()
