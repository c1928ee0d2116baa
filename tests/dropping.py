"""Compiled functions that are made and dropped: nothing of them stays.

`python tests/dropping.py 2000` makes so many and prints what the process takes.
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
    """One expression."""
    f = fw.compile(lambda x: (x * float(i) + 1).sin().sum())
    for _ in range(3):
        f(fw.ones(4, 5))


def gradients(i: int) -> None:
    """Gradients that go back from outside."""
    f = fw.compile(lambda x: (x * float(i)).tanh())
    for _ in range(3):
        f(fw.ones(4, 5).requires_grad_()).sum().backward()


def training(i: int) -> None:
    """A model in training."""
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
    """A model whose `forward` is compiled, called without gradients."""
    net = fw.compile(nn.Sequential(nn.Linear(6, 3 + i % 7), nn.Sigmoid()))
    with fw.no_grad():
        for _ in range(4):
            net(fw.ones(2, 6))


def breaks(i: int) -> None:
    """A function that runs in pieces."""
    @fw.compile
    def f(x: fw.Tensor) -> Any:
        y = fw.exp(x * float(i + 1) * 1e-4)
        time.time()
        return (y.numpy() > 0).sum(), (y + x).sum()

    for _ in range(3):
        f(fw.ones(200, 200))


def decisions(i: int) -> None:
    """A loop and a branch by value."""
    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        while x.sum() < 40 + i:
            x = x * 1.5
        return x + 1 if x.max() > 3 else x - 1

    for k in range(4):
        f(fw.ones(3) * (1 + k % 2))


def sizes(i: int) -> None:
    """Sizes that vary."""
    f = fw.compile(lambda x: fw.softmax(x + float(i), -1).cumsum(0))
    for n in (2, 3, 5, 5, 5):
        f(fw.ones(n, 4))


KINDS: list[Callable[[int], None]] = [
    function, gradients, training, module, breaks, decisions, sizes]


def resident() -> float:
    """Megabytes of memory that the process takes; 0 where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * PAGE / 1e6 if told.exists() else 0.0


def mappings() -> int:
    """How many parts the memory of the process has; each object file takes two."""
    told = Path("/proc/self/maps")
    return told.read_text().count("\n") if told.exists() else 0


def alive() -> int:
    """How many object files are in memory."""
    gc.collect()
    return sum(type(x) is LoadedCode for x in gc.get_objects())


def make(programs: int, first: int = 0) -> None:
    """Makes and drops so many functions."""
    for i in range(first, first + programs):
        KINDS[i % len(KINDS)](i)
    gc.collect()


def main(programs: int) -> None:
    part = max(programs // 10, len(KINDS))
    for first in range(0, programs, part):
        began = time.perf_counter()
        make(part, first)
        print(f"{first + part} programs: {resident():.1f} MB, {alive()} object files in memory, "
              f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]))
