"""Measures how fusewire's time grows with elements, threads and layers.

`python -m benchmarks.growth` prints three tables: nanoseconds per element of two computations from
10^4 to 10^8 elements; the speedup of a second thread for arithmetic; seconds to compile networks of
more and more equal layers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import fusewire as fw
from fusewire import nn
from fusewire.nn import functional

Call = Callable[[], object]
SIZES = [10 ** n for n in range(4, 9)]
LAYERS = (4, 16, 64)
WIDTH, BATCH = 32, 16
AT_LEAST = 0.2  # seconds of calls behind a median


def gelu(x: fw.Tensor) -> fw.Tensor:
    """A pointwise function with some arithmetic."""
    return functional.gelu(x + 1)


def softmax(x: fw.Tensor) -> fw.Tensor:
    """A function that reads each row more than once."""
    return functional.softmax(x.reshape(-1, 100), -1)


def median(call: Call) -> float:
    """The median seconds of a call after compilation."""
    for _ in range(4):
        call()
    samples = list[float]()
    while len(samples) < 5 or sum(samples) < AT_LEAST:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def per_element(function: Callable[[fw.Tensor], fw.Tensor], size: int) -> float:
    """Nanoseconds per element of an array of `size` elements."""
    x = fw.tensor(np.linspace(-3, 3, size, dtype=np.float32))
    compiled = fw.compile(function)
    return median(lambda: compiled(x)) / size * 1e9


def second_thread(call: Call) -> float:
    """The speedup on two threads against one."""
    found = {}
    for count in (1, 2):
        fw.set_num_threads(count)
        found[count] = median(call)
    return found[1] / found[2]


def product(size: int) -> Call:
    """A product of square matrices."""
    a, b = (fw.tensor(np.ones((size, size), np.float32)) for _ in range(2))
    compiled = fw.compile(lambda x, y: x @ y)
    return lambda: compiled(a, b)


def activation(size: int) -> Call:
    """A long formula on arrays that fit into the caches."""
    x = fw.tensor(np.linspace(-3, 3, size, dtype=np.float32))
    compiled = fw.compile(lambda x: fw.tanh(fw.exp(-x * x)) * fw.special.erf(fw.sin(x)))
    return lambda: compiled(x)


def compiling(layers: int) -> tuple[float, float]:
    """Seconds of the first call of a training step, and of the second, which compiles it."""
    parts = [m for _ in range(layers) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*parts)
    x = fw.tensor(np.ones((BATCH, WIDTH), np.float32))

    @fw.compile
    def step(x: fw.Tensor) -> fw.Tensor:
        loss = (model(x) ** 2).mean()
        loss.backward()
        return loss

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        step(x)
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


def main() -> None:
    """Prints the tables."""
    print("| elements | gelu, ns each | softmax, ns each |\n| -: | -: | -: |")
    for size in SIZES:
        times = [per_element(f, size) for f in (gelu, softmax)]
        print(f"| {size:,} | {times[0]:.3f} | {times[1]:.3f} |", flush=True)
    print("\n| work | two threads against one |\n| - | -: |")
    for name, call in (("product 1024", product(1024)), ("product 2048", product(2048)),
                       ("formula, 100,000 elements", activation(100_000))):
        print(f"| {name} | {second_thread(call):.2f} |", flush=True)
    print("\n| layers | first call, s | second, s |\n| -: | -: | -: |")
    compiling(2)  # work that a process does once
    for layers in LAYERS:
        first, second = compiling(layers)
        print(f"| {layers} | {first:.3f} | {second:.3f} |", flush=True)


if __name__ == "__main__":
    main()
