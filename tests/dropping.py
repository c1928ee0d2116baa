"""Compiles functions and drops them, to show that no memory of them stays.

`python tests/dropping.py 2000` compiles so many and prints the memory of the process;
`python tests/dropping.py grown 7` prints what stays after so many rounds of all kinds.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fusewire as fw
from fusewire import nn
from fusewire.codegen.runtime.jit import LoadedCode

PAGE = 4096


def function(i: int) -> None:
    """Compiles one expression."""
    f = fw.compile(lambda x: (x * float(i) + 1).sin().sum())
    for _ in range(3):
        f(fw.ones(4, 5))


def gradients(i: int) -> None:
    """Compiles a function whose backward is called outside of it."""
    f = fw.compile(lambda x: (x * float(i)).tanh())
    for _ in range(3):
        f(fw.ones(4, 5).requires_grad_()).sum().backward()


def training(i: int) -> None:
    """Compiles a training step."""
    net = nn.Sequential(nn.Linear(6, 8 + i % 5), nn.ReLU(), nn.Linear(8 + i % 5, 3))
    optimizer = fw.optim.AdamW(net.parameters())
    x = fw.ones(4, 6)

    @fw.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()


def module(i: int) -> None:
    """Compiles a model and calls it without gradients."""
    net = fw.compile(nn.Sequential(nn.Linear(6, 3 + i % 7), nn.Sigmoid()))
    with fw.no_grad():
        for _ in range(4):
            net(fw.ones(2, 6))


def breaks(i: int) -> None:
    """Compiles a function with graph breaks."""
    @fw.compile
    def f(x: fw.Tensor) -> Any:
        y = fw.exp(x * float(i + 1) * 1e-4)
        time.time()
        return (y.numpy() > 0).sum(), (y + x).sum()

    for _ in range(3):
        f(fw.ones(200, 200))


def decisions(i: int) -> None:
    """Compiles a function with a loop and a branch that depend on values."""
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        while x.sum() < 40 + i:
            x = x * 1.5
        return x + 1 if x.max() > 3 else x - 1

    for k in range(4):
        f(fw.ones(3) * (1 + k % 2))


def sizes(i: int) -> None:
    """Compiles a function and calls it with several sizes."""
    f = fw.compile(lambda x: fw.softmax(x + float(i), -1).cumsum(0))
    for n in (2, 3, 5, 5, 5):
        f(fw.ones(n, 4))


KINDS: list[Callable[[int], None]] = [
    function, gradients, training, module, breaks, decisions, sizes]


def resident() -> float:
    """The resident memory of the process in megabytes; 0 if the system does not report it."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * PAGE / 1e6 if file.exists() else 0.0


def mappings() -> int:
    """The number of mappings with code of no file. Each object file in memory takes one; the
    allocator of Python maps and unmaps memory without code as it likes."""
    file = Path("/proc/self/maps")
    lines = map(str.split, file.read_text().splitlines()) if file.exists() else ()
    return sum("x" in line[1] and len(line) == 5 for line in lines)


def alive() -> int:
    """The number of object files in memory."""
    gc.collect()
    return sum(type(x) is LoadedCode for x in gc.get_objects())


def make(programs: int, first: int = 0) -> None:
    """Compiles and drops so many functions."""
    for i in range(first, first + programs):
        KINDS[i % len(KINDS)](i)
    gc.collect()


def grown(rounds: int) -> tuple[int, int, float]:
    """How many object files and mappings, and how many megabytes, twice as many rounds of all
    kinds add to those of the first rounds."""
    programs = rounds * len(KINDS)
    make(programs)
    files, mapped, memory = alive(), mappings(), resident()
    make(2 * programs, programs)
    return alive() - files, mappings() - mapped, resident() - memory


def main(programs: int) -> None:
    batch = max(programs // 10, len(KINDS))
    for first in range(0, programs, batch):
        began = time.perf_counter()
        make(batch, first)
        print(f"{first + batch} programs: {resident():.1f} MB, {alive()} object files in memory, "
              f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "grown":
        print(*grown(int(sys.argv[2])))
    else:
        main(int(sys.argv[1]))
