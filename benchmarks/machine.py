"""What this machine can do: its memory bandwidth, its arithmetic, and the limits that follow."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable

import numpy as np

import fusewire as fw
from fusewire.codegen.llvm.jit import compile_object, load_object
from fusewire.codegen.llvm.target import host
from fusewire.export.demo.environment import processor, version

LIBRARIES = ("fusewire", "numpy", "torch", "jax", "onnxruntime")
_TRIES = 10
_CHAINS = 12        # sums that do not wait for each other: more than latency times units
_STEPS = 8_000_000  # about 20 ms


def describe() -> dict[str, str | float]:
    """Names and measured numbers of this machine."""
    versions = {name: version(name) for name in LIBRARIES}
    return {"processor": processor(), "threads": fw.get_num_threads(),
            "memory GB/s": round(bandwidth(1 << 27) / 1e9, 1),
            "cache GB/s": round(bandwidth(1 << 21) / 1e9, 1),
            "GFLOP/s": round(peak() / 1e9, 1),
            **{name: v for name, v in versions.items() if v != "-"}}


def limit(flops: float, size: float) -> float:
    """Seconds below which nothing can go that does `flops` operations and moves `size` bytes."""
    moving = size / bandwidth(1 << max(20, int(size).bit_length() - 1)) if size else 0.0
    return max(moving, flops / peak())


def bandwidth(size: int) -> float:
    """Bytes read and written per second by all threads, copying `size` bytes' worth of arrays.

    Measured at every call: where others share the memory, it is not the same all day.
    """
    threads = fw.get_num_threads()
    count = max(size // 2 // threads // 4, 1)
    repeats = max(1, (1 << 26) // size)
    pairs = [(np.ones(count, np.float32), np.zeros(count, np.float32)) for _ in range(threads)]

    def work(number: int) -> None:
        source, target = pairs[number]
        for _ in range(repeats):
            np.copyto(target, source)

    return repeats * threads * count * 8 / _together(work, threads)


@functools.cache
def peak() -> float:
    """float32 operations per second of all threads, in multiply-adds from registers."""
    target = host()
    lanes, threads = target.vector_bytes // 4, fw.get_num_threads()
    image = compile_object(target.header + _multiply_adds(lanes, target.attributes), target)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
        load_object(image, ["chains"], {}, target)["chains"])
    values = [np.full(lanes, 0.5, np.float32) for _ in range(threads)]
    seconds = _together(lambda number: run(values[number].ctypes.data, _STEPS), threads)
    return 2.0 * lanes * _CHAINS * _STEPS * threads / seconds


def _multiply_adds(lanes: int, attributes: str) -> str:
    """LLVM IR of `chains(values, steps)`: independent sums of vectors, steps long."""
    vector, chains = f"<{lanes} x float>", range(_CHAINS)
    name = f"@llvm.fmuladd.v{lanes}f32"
    phis = [f"%c{i} = phi {vector} [%x, %entry], [%d{i}, %loop]" for i in chains]
    steps = [f"%d{i} = call {vector} {name}({vector} %c{i}, {vector} %x, {vector} %x)"
             for i in chains]
    stores = [f"store volatile {vector} %d{i}, ptr %values, align 4" for i in chains]
    return "\n".join([
        f"declare {vector} {name}({vector}, {vector}, {vector})",
        "define void @chains(ptr %values, i64 %steps) #0 {", "entry:",
        f"%x = load {vector}, ptr %values, align 4", "br label %loop", "loop:",
        "%i = phi i64 [0, %entry], [%next, %loop]", *phis, *steps, "%next = add i64 %i, 1",
        "%more = icmp slt i64 %next, %steps", "br i1 %more, label %loop, label %done", "done:",
        *stores, "ret void", "}", f"attributes #0 = {{ {attributes} }}", ""])


def _together(work: Callable[[int], None], threads: int) -> float:
    """Seconds of the fastest try at work(0), work(1), ..., each on a thread of its own."""
    ready = threading.Barrier(threads)
    began, ended = np.zeros((2, _TRIES, threads))

    def worker(number: int) -> None:
        work(number)  # touches its memory
        for attempt in range(_TRIES):
            ready.wait()
            began[attempt, number] = time.perf_counter()
            work(number)
            ended[attempt, number] = time.perf_counter()

    started = [threading.Thread(target=worker, args=(i,)) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return float((ended.max(1) - began.min(1)).min())
