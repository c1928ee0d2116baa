"""Measures how much of a slow link is hidden, by `fusewire launch -n 2 overlap.py` in this folder.

The time of the link is made up: each reduction of a bucket takes some milliseconds longer. The
table has the time of a step, and for how long of it the rank waited for sums. The last bucket is
full when the backward ends, so its time cannot be hidden. `-n 4 overlap.py --cut 2` cuts each layer
among two ranks, whose collectives come between the buckets.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Future
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed import P
from fusewire.distributed.groups import membership

WIDTH, LAYERS, ROWS, STEPS = 512, 9, 1024, 11
WAITED = [0.0]  # seconds for which this rank has waited


def delay_collectives(seconds: float) -> None:
    """Lets each bucket take longer, and notes the time spent in waiting."""
    engine: Any = membership().engine
    carry_out, result = engine.collective, Future.result

    def delayed(call: Any, group: Any) -> Any:
        out = carry_out(call, group)
        if group.name.startswith("gradients"):
            time.sleep(seconds)
        return out

    def timed(self: Any, timeout: float | None = None) -> Any:
        start = time.perf_counter()
        try:
            return result(self, timeout)
        finally:
            WAITED[0] += time.perf_counter() - start

    engine.collective = delayed
    Future.result = timed  # type: ignore[method-assign]


def measure(compiled: bool, buckets: int, cut: int) -> tuple[float, float]:
    """The median seconds of a step, and of waiting in it, with layers cut among `cut` ranks."""
    fw.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
                            for _ in range(LAYERS)])
    mesh = dist.init_device_mesh((dist.get_world_size() // cut, cut), ("data", "model"))
    if cut > 1:
        dist.shard(model, {"*.0.weight": P("model", None)}, mesh)
    dist.replicate(model, mesh["data"],
                   LAYERS / buckets * WIDTH * WIDTH * 4 / cut / (1 << 20) + 0.1)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.01)
    x = fw.tensor(np.random.default_rng(mesh["data"].rank).standard_normal((ROWS, WIDTH))
                  .astype(np.float32))

    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    run = fw.compile(step, fullgraph=True) if compiled else step
    rows = []
    for number in range(STEPS + 3):
        dist.barrier()
        WAITED[0], start = 0.0, time.perf_counter()
        run(x)
        if number >= 3:
            rows.append((time.perf_counter() - start, WAITED[0]))
    seconds, waited = np.median(rows, axis=0)
    return float(seconds), float(waited)


def main() -> None:
    """Prints the table on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=0.03, help="seconds of each bucket")
    parser.add_argument("--cut", type=int, default=1, help="ranks that share each layer")
    options = parser.parse_args()
    delay = options.delay
    dist.init_process_group()
    delay_collectives(delay)
    for compiled in (False, True):
        for buckets in (1, 3, 9):
            seconds, waited = measure(compiled, buckets, options.cut)
            if dist.get_rank() == 0:
                print(f"| {'compiled' if compiled else 'eager'} | {buckets} | "
                      f"{seconds * 1e3:.0f} | {buckets * delay * 1e3:.0f} | {waited * 1e3:.0f} |",
                      flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
