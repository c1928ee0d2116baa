"""A process with little memory: `python tests/short_memory.py AS 60` has a limit on its address
space of so many MB above what it takes after importing fusewire."""

from __future__ import annotations

import resource
import sys
import warnings

import numpy as np

import fusewire as fw
from fusewire import nn
from fusewire.capture.runtime.warnings import CaptureWarning


def used(name: str) -> int:
    """The bytes that a limit counts, at present."""
    with open("/proc/self/statm") as told:
        return int(told.read().split()[0 if name == "AS" else 5]) * resource.getpagesize()


def training() -> float:
    """The loss after some compiled steps."""
    fw.manual_seed(1)
    net = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 4))
    optimizer, x = fw.optim.SGD(net.parameters(), lr=0.1), fw.rand(16, 20)

    @fw.compile
    def step() -> fw.Tensor:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [step().item() for _ in range(5)][-1]


def eager() -> float:
    """A number made by ops and layers that get native code."""
    fw.manual_seed(2)
    x = fw.rand(300, 300).requires_grad_()
    (fw.softmax(x, -1) * fw.tanh(x)).sum().backward()
    images = nn.functional.max_pool2d(nn.functional.conv2d(fw.rand(4, 8, 40, 40),
                                                           fw.rand(8, 8, 3, 3)), 2)
    steps, _ = nn.LSTM(16, 32)(fw.rand(20, 8, 16))
    rows = fw.rand(5000, 16)[fw.arange(4000)]
    return (x.grad.sum() + images.sum() + steps.sum() + rows.sum()).item()


def main(name: str, megabytes: int) -> None:
    np.ones((99, 99)) @ np.ones((99, 99))  # OpenBLAS ends the process where it gets no buffer
    kind = getattr(resource, f"RLIMIT_{name}")
    limit = used(name) + (megabytes << 20)
    resource.setrlimit(kind, (limit, limit))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            large = (fw.exp(fw.full((300, 300), 0.5)) * 2).sum().item()
            some = eager()
            assert np.isclose(some, 246_474, 1e-4), some
            loss = training()
            assert np.isclose(large, 180_000 * np.exp(0.5), 1e-5), large
            assert np.isclose(loss, 0.0127, 0, 0.1), loss
            said = "right"
        except MemoryError:
            said = "MemoryError"
    short = [w for w in told if issubclass(w.category, CaptureWarning)]
    assert len(short) <= 1, [str(w.message) for w in short]
    print(said, *["warned"] * len(short))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
