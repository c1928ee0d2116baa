"""A launch: a kernel with the memory of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loop_ir import Kernel
from .kernel_key import BufferView


@dataclass(frozen=True)
class Launch:
    """A kernel and a buffer view for each of its arguments."""

    kernel: Kernel
    views: tuple[BufferView, ...]
