"""Measures how much of a slow link is hidden, by `fusewire launch -n 2 overlap.py` in this folder.

The time of the link is made up: a sum takes some milliseconds for each MB from the moment in which
the ranks have met. The table has the times of a step, of the link in it, of its last bucket, and
for how long the step waits for sums. The last bucket is full when the backward ends, so its time
cannot be hidden; the last column is the share of the rest that is hidden. A rank that comes first
also waits for the others, so the rank that waits least counts in each step. `-n 4 overlap.py --cut
2` cuts each layer among two ranks, whose collectives come between the buckets.
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
MB = 1 << 20
WAITED = [0.0]  # seconds for which this rank has waited
MET = [0.0]  # the moment in which the ranks met for the last bucket
BUCKETS: list[int] = []  # the bytes of those of this step


def delay_collectives(seconds: float) -> None:
    """Lets a bucket take some seconds for each MB, and notes the time spent in waiting."""
    engine: Any = membership().engine
    carry_out, compare, result = engine.collective, engine.compare, Future.result

    def compared(call: Any, group: Any) -> None:
        compare(call, group)
        if group.name.startswith("gradients"):
            MET[0] = time.perf_counter()

    def delayed(call: Any, group: Any) -> Any:
        out = carry_out(call, group)
        if group.name.startswith("gradients"):
            BUCKETS.append(call.array.nbytes)
            time.sleep(max(0.0, MET[0] + seconds * BUCKETS[-1] / MB - time.perf_counter()))
        return out

    def timed(self: Any, timeout: float | None = None) -> Any:
        start = time.perf_counter()
        try:
            return result(self, timeout)
        finally:
            WAITED[0] += time.perf_counter() - start

    engine.collective, engine.compare = delayed, compared
    Future.result = timed  # type: ignore[method-assign]


def measure(compiled: bool, bucket_mb: float, cut: int) -> tuple[float, float]:
    """The median seconds of a step, and of waiting in it, with layers cut among `cut` ranks."""
    fw.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
                            for _ in range(LAYERS)])
    mesh = dist.init_device_mesh((dist.get_world_size() // cut, cut), ("data", "model"))
    if cut > 1:
        dist.shard(model, {"*.0.weight": P("model", None)}, mesh)
    dist.replicate(model, mesh["data"], bucket_mb)
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
        BUCKETS.clear()
        WAITED[0], start = 0.0, time.perf_counter()
        run(x)
        seconds = time.perf_counter() - start
        waited = min(dist.all_gather_object(WAITED[0]))
        if number >= 3:
            rows.append((seconds, waited))
    return tuple(map(float, np.median(rows, axis=0)))


def row(compiled: bool, bucket_mb: float, slowness: float, cut: int) -> str:
    """A row of the table, for a link that takes `slowness` seconds for each MB."""
    seconds, waited = measure(compiled, bucket_mb, cut)
    link, last = (size / MB * slowness for size in (sum(BUCKETS), BUCKETS[-1]))
    hidden = f"{(link - waited) / (link - last):.0%}" if link > last else "-"
    times = " | ".join(f"{s * 1e3:.0f}" for s in (seconds, link, last, waited))
    return (f"| {'compiled' if compiled else 'eager'} | {bucket_mb:g} MB | {len(BUCKETS)} | "
            f"{times} | {hidden} |")


def main() -> None:
    """Prints the table on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slowness", type=float, default=0.03, help="seconds for each MB")
    parser.add_argument("--cut", type=int, default=1, help="ranks that share each layer")
    options = parser.parse_args()
    dist.init_process_group()
    delay_collectives(options.slowness)
    if dist.get_rank() == 0:
        print("| step | largest bucket | buckets | step takes | link takes | last bucket | "
              "step waits | hidden |\n|---|---|---|---|---|---|---|---|")
    for compiled in (False, True):
        for bucket_mb in (25, 3.1):
            line = row(compiled, bucket_mb, options.slowness, options.cut)
            if dist.get_rank() == 0:
                print(line, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
