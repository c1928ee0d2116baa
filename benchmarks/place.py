"""Selects the device of all workloads: the CPU or one GPU.

NumPy makes all inputs, which are then moved to the device. A GPU queues calls, so timing waits
until all of them are done.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import fusewire as fw

CPU, CUDA = "cpu", "cuda"
device = CPU  # of this run


def use(name: str) -> None:
    """Selects the CPU or the GPU. DeviceError, with a help on what to install, if there is none."""
    global device
    fw.zeros(1, device=name)
    device = name


def moved(x: Any) -> Any:
    """A tensor or module of fusewire or torch on the device; itself if it is there already."""
    return x.to(device)


def finish() -> None:
    """Waits until the queued calls of all libraries are done."""
    if device != CPU:
        fw.cuda.synchronize()


def clear() -> None:
    """Returns the memory that libraries cache to the GPU."""
    if device != CPU:
        gc.collect()
        fw.cuda.empty_cache()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()


def unless_queued(wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that waits for jax's results: jax runs asynchronously on the CPU, too."""
    return wait if device == CPU else lambda result: result


def has_gpu(library: str) -> bool:
    """True if an installed library has code for the GPU."""
    if library == "torch":
        import torch

        return torch.cuda.is_available()
    if library == "jax":
        import jax

        return jax.default_backend() == "gpu"
    return library == "fusewire"
