"""Where workloads run: on the CPU, or all libraries on one GPU.

What a library is given is made by NumPy and moved there. On a GPU, what calls ask for queues up,
and who times them waits for all of it.
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
    """Has workloads run on the CPU or the GPU. DeviceError, with what to install, where there is
    none."""
    global device
    fw.zeros(1, device=name)
    device = name


def moved(x: Any) -> Any:
    """A tensor or module of fusewire or torch there: itself where it is there already."""
    return x.to(device)


def finish() -> None:
    """Waits until all is done that calls have asked for, whichever library's they were."""
    if device != CPU:
        fw.cuda.synchronize()


def clear() -> None:
    """Gives the GPU's memory that libraries keep for later back to it, for others to take."""
    if device != CPU:
        gc.collect()
        fw.cuda.empty_cache()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()


def unless_queued(wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """jax's way to wait for results: it puts calls off on the CPU as well, where others do not."""
    return wait if device == CPU else lambda result: result


def has_gpu(library: str) -> bool:
    """Whether a library, which is installed, has code for the GPU."""
    if library == "torch":
        import torch

        return torch.cuda.is_available()
    if library == "jax":
        import jax

        return jax.default_backend() == "gpu"
    return library == "fusewire"
