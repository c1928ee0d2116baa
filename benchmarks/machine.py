"""Measures this machine: memory bandwidth, arithmetic, and the limits that follow."""

from __future__ import annotations

import fusewire as fw
from fusewire.codegen.program import roofline
from fusewire.export.report.environment import processor, version

from . import gpu, place

LIBRARIES = ("fusewire", "numpy", "torch", "jax", "onnxruntime")


def describe() -> dict[str, str | float]:
    """Names and measured numbers of this machine, or of its GPU if workloads run there."""
    if place.device != place.CPU:
        return gpu.describe()
    versions = {name: version(name) for name in LIBRARIES}
    threads = fw.get_num_threads()
    return {"processor": processor(), "threads": threads,
            "memory GB/s": round(roofline.bandwidth(1 << 27, threads) / 1e9, 1),
            "cache GB/s": round(roofline.bandwidth(1 << 21, threads) / 1e9, 1),
            "GFLOP/s": round(roofline.peak(threads) / 1e9, 1),
            **{name: v for name, v in versions.items() if v != "-"}}


def limit(flops: float, size: float) -> float:
    """`limits.limit` with the current bandwidth at this size, or the limit of the GPU."""
    if place.device != place.CPU:
        return gpu.limit(flops, size)
    threads = fw.get_num_threads()
    near = 1 << max(20, int(size).bit_length() - 1)
    moving = size / roofline.bandwidth(near, threads) if size else 0.0
    return max(moving, roofline.limit(flops, 0))
