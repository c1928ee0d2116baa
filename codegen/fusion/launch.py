"""A launch: a kernel with the memory of its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.loop_ir import Kernel
from .kernel_key import BufferView


@dataclass(frozen=True)
class Launch:
    """A kernel and a buffer view for each of its arguments. `refusals`: why its nodes are not in
    other kernels, for reports."""

    kernel: Kernel
    views: tuple[BufferView, ...]
    refusals: tuple[str, ...] = field(default=(), compare=False)
