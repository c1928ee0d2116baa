"""GPUs: the functions of `fusewire.cuda`, and those that matter to PyTorch alone."""

from __future__ import annotations

from typing import Any

from ....eager.cuda import namespace as _plain
from ..base.exports import exported as _exported
from . import amp

globals().update(_exported(_plain), amp=amp)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True if a GPU is available: bfloat16 works on all of them."""
    return bool(_plain.is_available())


def is_initialized() -> bool:
    """True if a GPU is available."""
    return bool(_plain.is_available())


def init() -> None:
    """No effect: the first use initializes a GPU."""


def max_memory_allocated(device: Any = None) -> int:
    """The bytes that tensors use now."""
    return int(_plain.memory_allocated()) if _plain.is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """No effect."""
