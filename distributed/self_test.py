"""Tests the set-up of a job: each rank of it runs this script, as `fusewire doctor --distributed`.

The collectives are compared with their values from the inputs of all ranks, and all-reduces of
several sizes are timed. Rank 0 writes a report as JSON. Arguments are its path, and the sizes of
all-reduces in MB, separated by commas.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fusewire.codegen.program.native_threads import get_num_threads
from fusewire.distributed import collectives
from fusewire.distributed.engines.engine import combined
from fusewire.distributed.groups import (
    destroy_process_group,
    get_rank,
    get_world_size,
    init_process_group,
    membership,
)
from fusewire.eager.core.tensor import Tensor

_COPIES = 20
_LATENCY_BYTES, _BUDGET, _MOST_RUNS = 1024, 2.0, 50  # the budget in seconds for each size


class _Case(NamedTuple):
    """A collective as a function of a tensor, and its kind and params for `combined`."""

    run: Callable[[Tensor], Tensor]
    kind: str
    params: Mapping[str, Any]


_CASES = {
    "all_reduce": _Case(collectives.all_reduce, "all_reduce", {"reduce": "sum"}),
    "all_gather": _Case(collectives.all_gather, "all_gather", {"axis": 0}),
    "reduce_scatter": _Case(collectives.reduce_scatter, "reduce_scatter", {"axis": 0}),
    "all_to_all": _Case(collectives.all_to_all, "all_to_all", {"split": 0, "concat": 0}),
    "broadcast": _Case(collectives.broadcast, "broadcast", {"root": 0}),
    "shift": _Case(collectives.shift, "shift", {"by": 1}),
}


def wrong_collectives() -> list[str]:
    """The names of the collectives whose results are wrong on this rank."""
    ranks, rank = get_world_size(), get_rank()
    arrays = [np.random.default_rng(r).integers(-9, 9, (ranks * 3, 5)).astype(np.float32)
              for r in range(ranks)]
    wrong = [name for name, case in _CASES.items() if not np.array_equal(
        case.run(Tensor(arrays[rank])).numpy(),
        combined(case.kind, arrays, rank, case.params))]
    collectives.send(Tensor(arrays[rank]), (rank + 1) % ranks)
    received = collectives.receive((rank - 1) % ranks).numpy()
    if not np.array_equal(received, arrays[(rank - 1) % ranks]):
        wrong.append("send and receive")
    collectives.barrier()
    return wrong


def time_all_reduce(size: int) -> float:
    """The median time in seconds of an all-reduce of `size` bytes of float32, on the slowest rank.
    All ranks of the process group call it."""
    x = Tensor(np.ones(max(1, size // 4), np.float32))
    collectives.all_reduce(x)
    times: list[float] = []
    begin = time.perf_counter()
    while True:
        collectives.barrier()
        start = time.perf_counter()
        collectives.all_reduce(x)
        times.append(time.perf_counter() - start)
        late = len(times) >= _MOST_RUNS or time.perf_counter() - begin > _BUDGET
        if any(collectives.all_gather_object(late)):
            return float(max(collectives.all_gather_object(float(np.median(times)))))


def copy_bandwidth(size: int = 10 << 20) -> float:
    """The bytes that this rank copies in a second, from arrays of `size` bytes, in the median."""
    source, times = np.ones(size, np.uint8), []
    target = source.copy()
    for _ in range(_COPIES):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return float(size / np.median(times))


def report(sizes_mb: Sequence[int]) -> dict[str, Any]:
    """What this job consists of, which collectives are wrong on which ranks, and the seconds of
    all-reduces. All ranks of the process group call it, and get equal reports."""
    collectives.barrier()
    began = time.monotonic()
    hosts = collectives.all_gather_object(platform.node())
    problems = collectives.all_gather_object(wrong_collectives())
    return {
        "engine": membership().engine.describe(), "ranks": get_world_size(),
        "machines": sorted(set(hosts)), "threads": get_num_threads(),
        "processors": os.cpu_count() or 1, "began": began,
        "checked": [*_CASES, "send and receive", "barrier"],
        "wrong": {rank: names for rank, names in enumerate(problems) if names},
        "copy_bandwidth": min(collectives.all_gather_object(copy_bandwidth())),
        "latency": time_all_reduce(_LATENCY_BYTES),
        "seconds": {mb: time_all_reduce(mb << 20) for mb in sizes_mb}}


def main(path: str, sizes_mb: str) -> None:
    """Runs the self-test as one rank of a job; rank 0 writes the report to `path`."""
    init_process_group()
    found = report([int(size) for size in sizes_mb.split(",")])
    if get_rank() == 0:
        Path(path).write_text(json.dumps(found), encoding="utf-8")
    destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
