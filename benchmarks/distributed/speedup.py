"""Compares data parallel steps with those of one rank, by `fusewire launch -n 2 speedup.py` in this
folder, and with what `dist.plan` predicts.

Each rank has a processor and one thread. A model's step is measured three times: on one rank while
the others sleep; on all ranks at once without collectives, which shows what they take from each
other, as of the bandwidth of memory; and with `replicate`. The prediction is made before the last
one, from the second, and from all-reduces and copies that `fusewire doctor` measures.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed.self_test import report

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.workloads import gpt, resnet

Step = Callable[[], Any]


def resnet18() -> tuple[nn.Module, Any, Any]:
    """ResNet-18, 32 images and their classes."""
    rng = np.random.default_rng(dist.get_rank())
    return (resnet.module(fw), rng.standard_normal((32, 3, 32, 32)).astype(np.float32),
            rng.integers(0, resnet.CLASSES, 32))


def small_gpt() -> tuple[nn.Module, Any, Any]:
    """A GPT of 4 layers, 1024 tokens and those that follow."""
    shape = gpt.Shape(4, 256, 8, 256, 4096)
    tokens = np.random.default_rng(dist.get_rank()).integers(0, shape.words, (4, 257))
    return gpt.model_of(shape, fw), tokens[:, :-1], tokens[:, 1:].reshape(-1)


MODELS = {"ResNet-18": resnet18, "GPT": small_gpt}


def training(make: Callable[[], Any], replicated: bool) -> tuple[Step, int]:
    """A compiled step of a model, and the number of its parameters."""
    fw.manual_seed(0)
    model, x, y = make()
    if replicated:
        dist.replicate(model)
    optimizer = fw.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = fw.tensor(x), fw.tensor(y)

    @fw.compile(fullgraph=True)
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(*inputs), sum(p.size for p in model.parameters())


def measure(step: Step, ranks: int, seconds: float, quantile: float) -> float:
    """A quantile of the seconds of a step on the first `ranks` ranks, that of the slowest one. The
    others sleep."""
    times: list[float] = []
    takes_part = dist.get_rank() < ranks
    group = dist.new_group(range(ranks))
    if takes_part:
        for _ in range(3):
            step()
        end = time.perf_counter() + seconds
        while not any(dist.all_gather_object(time.perf_counter() > end, group)):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    return max(dist.all_gather_object(float(np.quantile(times, quantile)) if takes_part else 0.0))


def row(name: str, *how: float) -> str:
    """A row of the table, measured for some seconds at some quantile."""
    ranks, found = dist.get_world_size(), report([1, 10, 100])
    alone_step, parameters = training(MODELS[name], False)
    alone = measure(alone_step, 1, *how)
    together = measure(alone_step, ranks, *how)
    hardware = dist.Hardware.from_report(found, flops=1 / together)  # a step of a rank is 1
    predicted = dist.plan(parameters, {"data": ranks}, hardware, flops=ranks).step
    measured = measure(training(MODELS[name], True)[0], ranks, *how)
    cells = " | ".join(f"{s * 1e3:.1f} ms" for s in (alone, together, predicted, measured))
    return (f"| {name} | {ranks} | {cells} | {predicted / measured - 1:+.0%} | "
            f"{ranks * alone / together:.2f} | {ranks * alone / measured:.2f} |")


def parser_of(description: str | None, models: Iterable[str], seconds: float
              ) -> argparse.ArgumentParser:
    """The options of a table of measured models; `seconds`: the default for a measurement."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=models, action="append", help="by default all")
    parser.add_argument("--seconds", type=float, default=seconds, help="of each measurement")
    parser.add_argument("--quantile", type=float, default=0.5, help="of the steps; a low one "
                        "leaves out those in which other programs ran")
    return parser


def main() -> None:
    """Prints the table on rank 0."""
    options = parser_of(__doc__, MODELS, 8.0).parse_args()
    dist.init_process_group()
    fw.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {dist.get_rank() % (os.cpu_count() or 1)})
    if dist.get_rank() == 0:
        print("| model | ranks | one alone | all, without collectives | predicted | with replicate "
              "| difference | speed-up without collectives | speed-up |\n"
              "|---|---|---|---|---|---|---|---|---|")
    for name in options.model or MODELS:
        line = row(name, options.seconds, options.quantile)
        if dist.get_rank() == 0:
            print(line, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
