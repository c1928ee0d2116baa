"""Measures the limits of a GPU: the speed of copies, and of multiply-adds from registers."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.device import gpu
from fusewire.codegen.cuda.runtime.protocol import MemoryRange
from fusewire.codegen.ir.loop_ir import Kernel, Var
from fusewire.eager.arrays import devices
from fusewire.eager.cuda import cupy_kernels
from fusewire.eager.cuda.driver import probe
from fusewire.export.report.environment import version

LIBRARIES = ("fusewire", "cupy", "torch", "jax")
NEAREST = 1 << 26  # bytes: less fits into the cache
TRIES = 10

_CHAINS, _STEPS, _THREADS, _BLOCKS = 8, 4096, 256, 16  # blocks for each multiprocessor
PEAK = f"""
extern "C" __global__ void __launch_bounds__({_THREADS}) chains(float* x) {{
    float a = x[threadIdx.x], c[{_CHAINS}];
    for (int n = 0; n < {_CHAINS}; n++) c[n] = a + n;
    for (int i = 0; i < {_STEPS}; i++) {{
        #pragma unroll
        for (int n = 0; n < {_CHAINS}; n++) c[n] = fmaf(c[n], a, a);
    }}
    float sum = 0.0f;
    for (int n = 0; n < {_CHAINS}; n++) sum += c[n];
    if (sum == 12345.0f) x[threadIdx.x] = sum;
}}
"""


def describe() -> dict[str, str | float]:
    """Names and measured numbers of the GPU, and versions of the libraries."""
    versions = {name: version(name) for name in LIBRARIES}
    major, minor = fw.cuda.get_device_capability()
    driver = probe().version
    return {"GPU": fw.cuda.get_device_name(), "architecture": f"sm_{major}{minor}",
            "driver for CUDA": f"{driver // 1000}.{driver % 1000 // 10}",
            "memory GB/s": round(bandwidth(1 << 29) / 1e9, 1),
            "GFLOP/s": round(peak() / 1e9, 1),
            **{name: v for name, v in versions.items() if v != "-"}}


def limit(flops: float, size: float) -> float:
    """The least seconds in which the GPU can move `size` bytes to or from memory and compute
    `flops` float32 operations without tensor cores."""
    near = 1 << max(NEAREST.bit_length() - 1, int(size).bit_length() - 1)
    return max(size / bandwidth(near) if size else 0.0, flops / peak() if flops else 0.0)


@functools.cache
def bandwidth(size: int) -> float:
    """Bytes read and written per second in copies that move `size` bytes."""
    devices.load("cuda")
    cupy = cupy_kernels.cupy()
    source = cupy.ones(size // 8, np.dtype("float32"))
    target = cupy.empty_like(source)
    return 2 * source.nbytes / _fastest(lambda: cupy.copyto(target, source))


@functools.cache
def peak() -> float:
    """float32 operations per second, in multiply-adds from registers."""
    device = gpu()
    return _operations(device, device.multiprocessors * _BLOCKS)


def _operations(device: Any, blocks: int) -> float:
    loaded, x = device.load(PEAK), device.upload(np.full(_THREADS, 0.5, np.float32))
    function = CudaFunction("chains", (Kernel("chains", (), (), (), Var("task"), 1, ()),), blocks,
                            _THREADS, 0)
    memory = MemoryRange(x, 0, x.dtype, _THREADS)
    seconds = _fastest(lambda: loaded.launch(function, [memory]))
    return 2.0 * _CHAINS * _STEPS * _THREADS * blocks / seconds


def _fastest(work: Callable[[], object], repeats: int = 16) -> float:
    """The least seconds of a call, out of several queued calls."""
    found = []
    for _ in range(TRIES):
        fw.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        fw.cuda.synchronize()
        found.append((time.perf_counter() - start) / repeats)
    return min(found)
