"""Runs programs in a process with little memory: `python tests/short_memory.py AS 60` limits the
address space to so many MB more than it takes after importing fusewire."""

from __future__ import annotations

import resource
import sys
import warnings

import numpy as np

import fusewire as fw
from fusewire import nn
from fusewire.capture.runtime.warnings import CaptureWarning


def used(name: str) -> int:
    """The bytes that count for a limit now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0 if name == "AS" else 5]) * resource.getpagesize()


def training() -> float:
    """The loss after five compiled steps."""
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
    """A number from eager ops and layers that have native code."""
    fw.manual_seed(2)
    x = fw.rand(300, 300).requires_grad_()
    (fw.softmax(x, -1) * fw.tanh(x)).sum().backward()
    images = nn.functional.max_pool2d(nn.functional.conv2d(fw.rand(4, 8, 40, 40),
                                                           fw.rand(8, 8, 3, 3)), 2)
    steps, _ = nn.LSTM(16, 32)(fw.rand(20, 8, 16))
    rows = fw.rand(5000, 16)[fw.arange(4000)]
    return (x.grad.sum() + images.sum() + steps.sum() + rows.sum()).item()


def main(name: str, megabytes: int) -> None:
    # OpenBLAS ends the process if a thread of it gets no buffer later.
    for dtype in (np.float32, np.float64):
        np.ones((999, 999), dtype) @ np.ones((999, 999), dtype)
    kind = getattr(resource, f"RLIMIT_{name}")
    limit = used(name) + (megabytes << 20)
    resource.setrlimit(kind, (limit, limit))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            compiled_sum = (fw.exp(fw.full((300, 300), 0.5)) * 2).sum().item()
            eager_sum = eager()
            assert np.isclose(eager_sum, 246_474, 1e-4), eager_sum
            loss = training()
            assert np.isclose(compiled_sum, 180_000 * np.exp(0.5), 1e-5), compiled_sum
            assert np.isclose(loss, 0.0127, 0, 0.1), loss
            outcome = "right"
        except MemoryError:
            outcome = "MemoryError"
    capture_warnings = [w for w in caught if issubclass(w.category, CaptureWarning)]
    assert len(capture_warnings) <= 1, [str(w.message) for w in capture_warnings]
    print(outcome, *["warned"] * len(capture_warnings))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
