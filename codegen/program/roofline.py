"""Measures the memory bandwidth and the arithmetic peak of this machine, when first asked."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable

import numpy as np

from ..runtime import object_cache
from ..runtime.target import host
from .native_threads import get_num_threads

_MAX_TRIES = 40  # many short tries: on a busy machine some are undisturbed
_ACCUMULATORS = 12  # independent sums: more than latency times units
_STEPS_PER_TRY = 500_000  # about 1 ms
_MIN_BYTES_PER_TRY = 1 << 24
_MAX_BYTES = 1 << 29  # of all tries, about
_MEASURED_BYTES = (1 << 20, 1 << 23, 1 << 26)  # in the caches, beyond the inner ones, in memory


def limit(flops: float, size: float, itemsize: int = 4) -> float:
    """The least seconds for `flops` operations on numbers of `itemsize` bytes and `size` bytes of
    memory traffic. The first call measures this machine, in a fraction of a second."""
    moving = size / _bandwidth_for(size, get_num_threads()) if size else 0.0
    computing = flops / peak(get_num_threads()) * itemsize / 4 if flops else 0.0
    return max(moving, computing)


def _bandwidth_for(size: float, threads: int) -> float:
    return _usual_bandwidth(max((s for s in _MEASURED_BYTES if s <= size),
                                default=_MEASURED_BYTES[0]), threads)


@functools.cache
def _usual_bandwidth(size: int, threads: int) -> float:
    return bandwidth(size, threads)


def bandwidth(size: int, threads: int) -> float:
    """Bytes read and written per second by `threads` threads that copy arrays of `size` bytes in
    all.

    Measured at every call: other processes that use the memory change it.
    """
    count = max(size // 2 // threads // 4, 1)
    repeats = max(1, _MIN_BYTES_PER_TRY // size)
    pairs = [(np.ones(count, np.float32), np.zeros(count, np.float32)) for _ in range(threads)]

    def work(number: int) -> None:
        source, target = pairs[number]
        for _ in range(repeats):
            np.copyto(target, source)

    tries = max(5, min(_MAX_TRIES, _MAX_BYTES // max(size, _MIN_BYTES_PER_TRY)))
    return repeats * threads * count * 8 / _seconds_in_threads(work, threads, tries)


@functools.cache
def peak(threads: int) -> float:
    """float32 operations per second of so many threads, in multiply-adds from registers."""
    target = host()
    lanes = target.vector_bytes // 4
    ir = target.header + _multiply_adds(lanes, target.attributes)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
        object_cache.loaded(ir, ["chains"], {}, target)["chains"])
    values = [np.full(lanes, 0.5, np.float32) for _ in range(threads)]
    seconds = _seconds_in_threads(lambda number: run(values[number].ctypes.data, _STEPS_PER_TRY),
                                  threads, _MAX_TRIES)
    return 2.0 * lanes * _ACCUMULATORS * _STEPS_PER_TRY * threads / seconds


def _multiply_adds(lanes: int, attributes: str) -> str:
    """LLVM IR of `chains(values, steps)`: independent sums of vectors, steps long."""
    vector, chains = f"<{lanes} x float>", range(_ACCUMULATORS)
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


def _seconds_in_threads(work: Callable[[int], None], threads: int, tries: int) -> float:
    """Seconds of the fastest try of work(0), work(1), ..., each on its own thread."""
    ready = threading.Barrier(threads)
    began, ended = np.zeros((2, tries, threads))

    def worker(number: int) -> None:
        work(number)  # touches its memory
        for attempt in range(tries):
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
