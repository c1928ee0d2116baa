"""Compares all-reduces with MPI's own, by `fusewire launch -n 2 all_reduce.py` in this folder.

The engine's own call is mpi4py's `Allreduce` between two arrays that exist already. Beside it stand
its non-blocking form, `dist.all_reduce` of a tensor, and the same in a compiled function. The forms
take turns, so a busy machine slows all of them. Times are medians on the slowest rank.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire.distributed.engines.mpi import load_mpi


def forms(size: int) -> dict[str, Callable[[], Any]]:
    """Ways to add `size` bytes of float32 over the ranks."""
    mpi = load_mpi()
    world: Any = mpi.COMM_WORLD.Dup()
    source = np.full(max(1, size // 4), dist.get_rank() + 1.0, np.float32)
    target = np.empty_like(source)
    tensor = fw.from_numpy(source.copy())
    compiled = fw.compile(lambda x: dist.all_reduce(x), fullgraph=True)
    return {"Allreduce": lambda: world.Allreduce(source, target),
            "Iallreduce": lambda: world.Iallreduce(source, target).Wait(),
            "eager": lambda: dist.all_reduce(tensor), "compiled": lambda: compiled(tensor)}


def measure(size: int, seconds: float) -> dict[str, float]:
    """The median seconds of each form."""
    ways = forms(size)
    times: dict[str, list[float]] = {name: [] for name in ways}
    begin = time.perf_counter()
    while True:
        for name, run in ways.items():
            dist.barrier()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        if any(dist.all_gather_object(time.perf_counter() - begin > seconds)):
            break
    own = {name: float(np.median(found[len(found) // 5:])) for name, found in times.items()}
    return {name: max(ranks[name] for ranks in dist.all_gather_object(own)) for name in own}


def main() -> None:
    """Prints the table on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each size")
    options = parser.parse_args()
    dist.init_process_group()
    if dist.get_rank() == 0:
        print("| bytes | Allreduce | Iallreduce | eager | compiled | eager / Allreduce |\n"
              "|---|---|---|---|---|---|")
    for size in (1 << 10, 1 << 16, 1 << 20, 10 << 20, 100 << 20):
        found = measure(size, options.seconds)
        if dist.get_rank() == 0:
            cells = " | ".join(f"{s * 1e3:.3g} ms" for s in found.values())
            print(f"| {size:,} | {cells} | {found['eager'] / found['Allreduce']:.2f} |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
